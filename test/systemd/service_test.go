package systemd

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"netclass.dev/test/lab"
)

const (
	configPath   = "/etc/netclassd/config.yaml"
	meshPassword = "a shared secret"
)

// install: the service runs at once, idle and healthy, and nothing is in the kernel.
func install(m *machine) {
	m.run("dpkg", "--install", m.deb("1.0.0"))
	if state := m.run("systemctl", "is-active", "netclassd") + " " + m.run("systemctl", "is-enabled", "netclassd"); state != "active enabled" {
		m.t.Errorf("after its installation it is %s", state)
	}
	if status := m.show("StatusText"); status != "idle until there is a configuration" {
		m.t.Errorf("its status is %q", status)
	}
	if out := m.run("netclassctl", "status"); !strings.Contains(out, "Idle") {
		m.t.Errorf("netclassctl status:\n%s", out)
	}
	if got := m.run("stat", "--format=%U:%G %a", "/run/netclassd/netclassd.sock", "/run/netclassd", "/etc/netclassd/passwords"); got !=
		"netclassd:netclassd 660\nnetclassd:netclassd 750\nroot:root 700" {
		m.t.Errorf("the socket, its folder and that of the passwords are\n%s", got)
	}
	m.kernelClean()

	// It needs nothing that somebody might tidy away.
	m.run("rm", "-r", "/etc/netclassd", "/var/lib/netclassd")
	m.run("systemctl", "restart", "netclassd")
	m.run("rm", "-r", "/etc/netclassd")
	m.run("mkdir", "--mode=755", "/etc/netclassd")
	m.run("mkdir", "--mode=700", "/etc/netclassd/passwords")
}

var exposure = regexp.MustCompile(`Overall exposure level for netclassd\.service: ([0-9.]+)`)

// sandbox: systemd finds nothing wrong with the unit, and little that it might do.
func sandbox(m *machine) {
	if out := m.run("systemd-analyze", "verify", "netclassd.service"); out != "" {
		m.t.Errorf("systemd-analyze verify:\n%s", out)
	}
	out := m.run("systemd-analyze", "security", "--no-pager", "netclassd.service")
	found := exposure.FindStringSubmatch(out)
	if found == nil {
		m.t.Fatalf("systemd-analyze security:\n%s", out)
	}
	m.t.Logf("systemd-analyze security: %s", found[1])
	if score, err := strconv.ParseFloat(found[1], 64); err != nil || score > 2.0 {
		m.t.Errorf("systemd-analyze security says %s, want at most 2.0:\n%s", found[1], out)
	}
}

// config is the seed's configuration, whose mesh has a password from the file.
func (m *machine) config(passwordFile string) string {
	m.t.Helper()
	text, err := lab.SeedConfig()
	if err != nil {
		m.t.Fatal(err)
	}
	for old, fresh := range map[string]string{
		"mesh: {link: pod0}": fmt.Sprintf("mesh: {link: pod0, passwordFile: %s}", passwordFile),
		"\nnetworks:":        "\ndaemon: {onExit: auto}\n\nnetworks:",
	} {
		if !strings.Contains(text, old) {
			m.t.Fatalf("the seed's configuration has no %q", old)
		}
		text = strings.Replace(text, old, fresh, 1)
	}
	return text
}

// converge: an idle daemon takes up the configuration that appears. One that is
// started is up when its classes are apart, and not before.
func converge(m *machine) {
	for _, n := range m.Nodes[1:] {
		file := n.File("password")
		if err := os.WriteFile(file, []byte(meshPassword), 0o600); err != nil {
			m.t.Fatal(err)
		}
		if _, err := n.StartNetclassd(lab.NetclassdOptions{Config: m.config(file)}); err != nil {
			m.t.Fatal(err)
		}
	}
	m.write("/etc/netclassd/passwords/mesh", meshPassword+"\n")
	m.run("systemctl", "restart", "netclassd")
	m.write("/etc/netclassd/nodes.yaml", m.NodesFile())
	m.write(configPath, m.config("password_mesh"))
	m.eventually("the configuration is taken up", func() error { return m.Separated(m.node) })

	m.run("systemctl", "stop", "netclassd")
	if err := m.Separated(m.node); err == nil {
		m.t.Fatal("the classes are apart although netclassd was stopped for good")
	}
	m.startsSeparated("start")
}

// startsSeparated starts the service, which is then up, and checks that it has not
// been up before the classes were apart.
func (m *machine) startsSeparated(verb string) {
	m.t.Helper()
	begun := time.Now()
	m.run("systemctl", verb, "netclassd")
	err := m.Separated(m.node)
	m.t.Logf("systemctl %s took %v", verb, time.Since(begun).Round(time.Millisecond))
	if err != nil {
		m.t.Errorf("systemctl %s has returned: %v", verb, err)
	}
	if status := m.show("StatusText"); strings.HasPrefix(status, "waiting") {
		m.t.Errorf("it is up, and its status is %q", status)
	}
}

// privileges: the daemon has its two capabilities, the speaker one, both for ever.
func privileges(m *machine) {
	const netAdmin, bindService = 1 << 12, 1 << 10
	daemon := m.show("MainPID")
	speaker := strings.Fields(m.run("sh", "-c", `cat /proc/"$1"/task/*/children`, "sh", daemon))
	if len(speaker) != 1 {
		m.t.Fatalf("the daemon's children are %v", speaker)
	}
	user := m.run("id", "--user", "netclassd")
	for pid, want := range map[string]uint64{daemon: netAdmin | bindService, speaker[0]: bindService} {
		status := map[string]string{}
		for line := range strings.Lines(m.run("cat", "/proc/"+pid+"/status")) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			status[key] = strings.TrimSpace(value)
		}
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
			if got := status[set]; got != fmt.Sprintf("%016x", want) {
				m.t.Errorf("%s has %s %s, want %016x", status["Name"], set, got, want)
			}
		}
		if got, err := strconv.ParseUint(status["CapBnd"], 16, 64); err != nil || got&^(netAdmin|bindService) != 0 {
			m.t.Errorf("%s has CapBnd %s", status["Name"], status["CapBnd"])
		}
		if status["NoNewPrivs"] != "1" || status["Seccomp"] != "2" {
			m.t.Errorf("%s has NoNewPrivs %s, Seccomp %s", status["Name"], status["NoNewPrivs"], status["Seccomp"])
		}
		if want := strings.Join([]string{user, user, user, user}, "\t"); status["Uid"] != want {
			m.t.Errorf("%s is %s, want %s", status["Name"], status["Uid"], want)
		}
	}
	// Whether it may be set is the container's matter.
	if got := m.show("OOMScoreAdjust"); got != "-900" {
		m.t.Errorf("its OOM score is adjusted by %s", got)
	}
}

// names: tables and protocol read well, and pages and completions are there.
func names(m *machine) {
	if out := m.run("ip", "route", "show", "table", "pods"); !strings.Contains(out, "proto netclass metric 10") {
		m.t.Errorf("ip route show table pods:\n%s", out)
	}
	if out := m.run("ip", "route", "show", "proto", "netclass"); !strings.Contains(out, "unreachable 10.244.0.0/16") {
		m.t.Errorf("ip route show proto netclass:\n%s", out)
	}
	if out := m.run("ip", "-details", "rule", "show"); !strings.Contains(out, "lookup pods proto netclass") {
		m.t.Errorf("ip rule:\n%s", out)
	}
	for _, page := range []string{"netclassd", "netclassd-flush", "netclassctl", "netclassctl-verify"} {
		if out := m.run("man", page); !strings.Contains(out, "SYNOPSIS") {
			m.t.Errorf("man %s:\n%s", page, out)
		}
	}
	for _, program := range []string{"netclassd", "netclassctl"} {
		m.run("bash", "-ec", ". /usr/share/bash-completion/completions/"+program+"; complete -p "+program)
	}
	m.run("test", "-s", "/usr/share/zsh/vendor-completions/_netclassctl", "-a", "-s", "/usr/share/fish/vendor_completions.d/netclassctl.fish")
}

// reload: it is over when the new configuration is in force. A bad one makes it
// fail, changes nothing, and is said of everywhere.
func reload(m *machine) {
	good := m.config("password_mesh")
	renamed := strings.ReplaceAll(good, "name: world-node", "name: outside-node")
	m.write(configPath, renamed)
	m.run("systemctl", "reload", "netclassd")
	m.hasClass("outside-node")

	m.write(configPath, renamed+"\nbgp: 5\n")
	if out, err := m.try("systemctl", "reload", "netclassd"); err == nil {
		m.t.Errorf("a bad configuration is reloaded: %s", out)
	}
	m.hasClass("outside-node")
	if state, status := m.show("ActiveState"), m.show("StatusText"); state != "active" || !strings.Contains(status, "refused") {
		m.t.Errorf("with a bad configuration it is %s: %s", state, status)
	}

	// SIGHUP does the same, and systemd is told.
	pid, changed := m.show("MainPID"), m.show("StateChangeTimestampMonotonic")
	m.write(configPath, good)
	m.run("systemctl", "kill", "--kill-who=main", "--signal=HUP", "netclassd")
	m.eventually("the configuration is reloaded by SIGHUP", func() error {
		return errors.Join(m.class("world-node"), m.is("active"))
	})
	if now := m.show("StateChangeTimestampMonotonic"); now == changed {
		m.t.Error("systemd has not seen that it reloaded")
	}
	if now := m.show("MainPID"); now != pid {
		m.t.Errorf("process %s became %s", pid, now)
	}
}

func (m *machine) hasClass(name string) {
	m.t.Helper()
	if err := m.class(name); err != nil {
		m.t.Error(err)
	}
}

func (m *machine) class(name string) error {
	out, err := m.try("netclassctl", "classes", "--no-headers")
	if err == nil && !slices.Contains(strings.Fields(out), name) {
		err = fmt.Errorf("there is no class %s:\n%s", name, out)
	}
	return err
}

// is returns nil when the service is in a state.
func (m *machine) is(state string) error {
	if now := m.show("ActiveState"); now != state {
		return fmt.Errorf("it is %s", now)
	}
	return nil
}
