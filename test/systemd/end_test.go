package systemd

import (
	"fmt"
	"os"
	"strings"
	"time"

	"netclass.dev/test/lab"
)

// readyLate: what never comes, such as a link, holds up a start for a while and
// not for ever, and the status names it.
func readyLate(m *machine) {
	m.run("systemctl", "stop", "netclassd")
	if err := m.node.LinkDown(lab.PodNet); err != nil {
		m.t.Fatal(err)
	}
	begun := time.Now()
	m.run("systemctl", "start", "--no-block", "netclassd")
	m.eventually("it is being started", func() error { return m.is("activating") })
	m.eventually("it is up all the same", func() error { return m.is("active") })
	took, status := time.Since(begun), m.show("StatusText")
	m.t.Logf("without %s it is up after %v: %s", lab.PodNet, took.Round(time.Millisecond), status)
	if took < 14*time.Second || took > 25*time.Second || !strings.HasPrefix(status, "waiting for") || !strings.Contains(status, lab.PodNet) {
		m.t.Error("want 15 s and what is missing")
	}
	if err := m.node.LinkUp(lab.PodNet); err != nil {
		m.t.Fatal(err)
	}
	m.eventually("the classes are apart", func() error { return m.Separated(m.node) })
}

// stopForGood: with daemon.onExit auto a stop takes everything out.
func stopForGood(m *machine) {
	begun := time.Now()
	m.run("systemctl", "stop", "netclassd")
	m.t.Logf("systemctl stop took %v", time.Since(begun).Round(time.Millisecond))
	m.kernelClean()
	if log := m.log(); !strings.Contains(log, "netclassd.service is being stopped") {
		m.t.Errorf("the stop was taken for something else:\n%s", log)
	}
	// What root does by hand while it is stopped does not get in its way.
	if out := m.run("netclassd", "flush"); out != "flushed 0 objects" {
		m.t.Errorf("netclassd flush: %s", out)
	}
	// Nor does root follow where the daemon's user leads, in a folder of that user's.
	m.run("cp", "/etc/hostname", "/etc/precious")
	m.run("runuser", "--user", "netclassd", "--", "ln", "--symbolic", "/etc/precious", "/var/lib/netclassd/ledger.json.new")
	m.run("netclassd", "adopt", "--protocol=bird", "--table=pods")
	if got := m.run("stat", "--format=%U:%G", "/etc/precious") + " " + m.run("cat", "/etc/precious"); got != "root:root "+m.node.Name {
		m.t.Errorf("netclassd adopt made another file %s", got)
	}
	m.startsSeparated("start")
	if log := m.log("--lines=50", "--priority=warning"); strings.Contains(log, "denied") {
		m.t.Errorf("it may not read what is its own:\n%s", log)
	}
}

// startRefused: a configuration that cannot be used ends the start with 78, and
// systemd does not try again. What is in the kernel goes on.
func startRefused(m *machine) {
	m.write(configPath, "apiVersion: nonsense\n")
	m.hitless("a start with a bad configuration", func() {
		if out, err := m.try("systemctl", "restart", "netclassd"); err == nil {
			m.t.Errorf("it has started: %s", out)
		}
		if status := m.show("ExecMainStatus"); status != "78" {
			m.t.Errorf("it ended with %s", status)
		}
		time.Sleep(1500 * time.Millisecond) // RestartSec and a bit
		if state, restarts := m.show("ActiveState"), m.show("NRestarts"); state != "failed" || restarts != "0" {
			m.t.Errorf("it is %s after %s restarts", state, restarts)
		}
		m.write(configPath, m.config("password_mesh"))
		m.run("systemctl", "start", "netclassd")
	})
}

// reboot: a shutdown takes everything out, and the boot brings it back.
func reboot(m *machine) {
	// The network outlives the machine here, so that what is left in it shows.
	if _, err := m.try("systemctl", "reboot"); err != nil {
		m.t.Logf("systemctl reboot: %v", err)
	}
	m.eventually("nothing is left after the shutdown", func() error {
		if left := m.left(); left != "" {
			return fmt.Errorf("left:\n%s", left)
		}
		return nil
	})
	// It waits for every process to end, and so for one of ours that looks at it.
	m.eventually("the machine is down", func() error {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", m.leader)); err == nil {
			return fmt.Errorf("systemd still runs: %s", m.process.LogTail(5))
		}
		return nil
	})
	m.up()
	m.eventually("the classes are apart after the boot", func() error { return m.Separated(m.node) })
	if state := m.run("systemctl", "is-active", "netclassd"); state != "active" {
		m.t.Errorf("after the boot it is %s", state)
	}
}

// remove: nothing is left in the kernel, and what is installed again goes on with
// the configuration that was left.
func remove(m *machine) {
	m.run("dpkg", "--remove", "netclass")
	m.kernelClean()
	m.run("test", "-s", configPath)
	m.run("dpkg", "--install", m.deb("1.0.1"))
	m.eventually("the classes are apart", func() error { return m.Separated(m.node) })
	if state := m.run("systemctl", "is-active", "netclassd") + " " + m.run("systemctl", "is-enabled", "netclassd"); state != "active enabled" {
		m.t.Errorf("after its installation it is %s", state)
	}
}

// purge: nothing is left, in the kernel or on disk.
func purge(m *machine) {
	m.run("dpkg", "--purge", "netclass")
	m.kernelClean()
	if files := m.run("find", "/", "-xdev", "-name", "*netclass*", "-not", "-path", "/packages*", "-not", "-path", "/var/cache/man/*"); files != "" {
		m.t.Errorf("left on disk:\n%s", files)
	}
	for _, file := range []string{"/etc/passwd", "/etc/group", "/etc/gshadow"} {
		for line := range strings.Lines(m.run("cat", file)) {
			if strings.HasPrefix(line, "netclassd") {
				m.t.Errorf("left in %s: %s", file, line)
			}
		}
	}
	if out, err := m.try("systemctl", "cat", "netclassd"); err == nil {
		m.t.Errorf("the unit is left:\n%s", out)
	}
	if failed := m.run("systemctl", "--failed", "--no-legend"); failed != "" {
		m.t.Errorf("failed:\n%s", failed)
	}
}

// kernelClean fails when a rule or route of netclassd's is in the kernel.
func (m *machine) kernelClean() {
	m.t.Helper()
	if left := m.left(); left != "" {
		m.t.Errorf("left in the kernel:\n%s", left)
	}
}

// left returns the node's rules and routes of netclassd's, as the host's ip shows
// them; an error is one too.
func (m *machine) left() string {
	var found []string
	for _, args := range []string{"-4 route show table all proto 148", "-6 route show table all proto 148", "-4 -details rule show", "-6 -details rule show"} {
		out, err := m.node.Exec(m.t.Context(), "ip", strings.Fields(args)...)
		if err != nil {
			return err.Error()
		}
		for line := range strings.Lines(out) {
			if strings.Contains(args, "route") || strings.Contains(line, "proto 148") || strings.Contains(line, "proto netclass") {
				found = append(found, strings.TrimSpace(line))
			}
		}
	}
	return strings.Join(found, "\n")
}
