// Package systemd installs the packages on a machine with systemd, as its
// users do, and lets things happen to the service: a node of the lab's cluster
// whose operating system is a whole Debian in a container.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// patience is with a busy machine, no promise.
const patience = 60 * time.Second

// machine is node k8s-1 of a lab, with a Debian of its own.
type machine struct {
	*lab.Lab
	node    *lab.Node
	t       *testing.T
	group   string // its control group
	process *lab.Process
	leader  int // systemd's process number, seen from outside
}

// boot makes the root filesystem writable in memory and starts systemd in it, in
// the network that it is started in and in a control group of its own, and again
// when it asks for a reboot (133). All of it ends when its first process does.
const boot = `
mount -t tmpfs tmpfs /run # where systemd-nspawn leaves things
echo 0 >"$5/cgroup.procs"
mount -t cgroup2 cgroup2 /sys/fs/cgroup # also where the older ones are in use
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root"
echo "$3" >"$1/root/etc/hostname"
end=133
while [ $end = 133 ]; do
	end=0
	systemd-nspawn --directory="$1/root" --register=no --keep-unit --boot --console=pipe \
		--network-namespace-path=/proc/self/ns/net --capability=CAP_NET_ADMIN \
		--hostname="$3" --bind-ro="$4:/packages" || end=$?
done
exit $end
`

// cache is where prepare.sh leaves what it makes.
func cache(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../.cache/systemd")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// start makes a lab whose first node is a machine with a release of Debian.
func start(t *testing.T, release string) *machine {
	t.Helper()
	need.Root(t)
	need.Program(t, "systemd-nspawn")
	need.Program(t, "nft")
	need.Program(t, lab.Built("netclassd"))
	root := filepath.Join(cache(t), "debian-"+release)
	if _, err := os.Stat(root + ".absent"); err == nil {
		t.Skipf("the mirror has no Debian %s", release)
	}
	need.Built(t, root, "systemd-files")
	l, err := lab.New(t.Context(), lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{Lab: l, node: l.Node(1), t: t}
	t.Cleanup(func() {
		if t.Failed() {
			m.logs()
		}
		if err := errors.Join(l.Close(), removeGroup(m.group)); err != nil {
			t.Error(err)
		}
	})
	m.makeGroup(filepath.Base(l.Dir()))
	dir := m.node.File("machine")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m.process, err = m.node.Start(lab.Command{
		Path: "unshare", Name: "machine",
		Args: []string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", boot, "sh", dir, root, m.node.Name, cache(t), m.group},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.up()
	return m
}

// up waits until the machine has booted.
func (m *machine) up() {
	m.t.Helper()
	m.eventually("the machine is up", func() error {
		m.leader = 0
		p := m.process.PID()
		for range 3 { // unshare, sh, systemd-nspawn, systemd
			if p = child(p); p == 0 {
				return fmt.Errorf("no systemd yet: %s", m.process.LogTail(5))
			}
		}
		m.leader = p
		state, err := m.try("systemctl", "is-system-running")
		if state = strings.TrimSpace(state); state != "running" {
			return fmt.Errorf("it is %s: %w", state, err)
		}
		return nil
	})
}

// child returns the process whose parent is a process; 0: there is none.
func child(parent int) int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// pid (comm) state ppid
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
			return pid
		}
	}
	return 0
}

// try runs a program on the machine, as root, and returns what it printed.
func (m *machine) try(name string, args ...string) (string, error) {
	return m.tryInput("", name, args...)
}

func (m *machine) tryInput(input, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	enter := []string{
		"--target", strconv.Itoa(m.leader), "--mount", "--uts", "--ipc", "--net", "--pid",
		"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "PAGER=cat", "DEBIAN_FRONTEND=noninteractive", name,
	}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Stdin = strings.NewReader(input)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), err
}

// run is try for what must not fail, without the white space around.
func (m *machine) run(name string, args ...string) string {
	m.t.Helper()
	out, err := m.try(name, args...)
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// write writes a file on the machine, in one step.
func (m *machine) write(path, text string) {
	m.t.Helper()
	if _, err := m.tryInput(text, "sh", "-ec", `cat >"$1.new"; mv "$1.new" "$1"`, "sh", path); err != nil {
		m.t.Fatal(err)
	}
}

// show returns a property of the service, as systemd has it.
func (m *machine) show(property string) string {
	m.t.Helper()
	return m.run("systemctl", "show", "--property", property, "--value", "netclassd.service")
}

// log returns what the service, and systemd about it, has written to the journal.
func (m *machine) log(args ...string) string {
	m.t.Helper()
	m.run("journalctl", "--sync") // it reads its socket when it likes
	return m.run("journalctl", append([]string{"--unit=netclassd"}, args...)...)
}

// eventually waits for a condition, with patience.
func (m *machine) eventually(what string, check func() error) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	if err := lab.Eventually(ctx, check); err != nil {
		m.t.Fatalf("%s: %v", what, err)
	}
}

// deb returns the path on the machine of a version of the Debian package, rpm of
// the other.
func (m *machine) deb(version string) string {
	m.t.Helper()
	return m.packaged(version, fmt.Sprintf("netclass_%s_%s.deb", version, runtime.GOARCH))
}

func (m *machine) rpm(version string) string {
	m.t.Helper()
	return m.packaged(version, fmt.Sprintf("netclass-%s-1.%s.rpm", version, rpmArch()))
}

// rpmArch is this machine's architecture as rpm calls it.
func rpmArch() string {
	return map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
}

func (m *machine) packaged(version, file string) string {
	m.t.Helper()
	need.Built(m.t, filepath.Join(cache(m.t), version, file), "systemd-files")
	return "/packages/" + version + "/" + file
}

// step runs one part of a machine's story. What comes after relies on it.
func (m *machine) step(name string, part func(m *machine)) {
	m.t.Helper()
	outer := m.t
	defer func() { m.t = outer }()
	if !outer.Run(name, func(t *testing.T) { m.t = t; part(m) }) {
		outer.FailNow()
	}
}

func (m *machine) logs() {
	m.t.Logf("the machine ends its log:\n%s", m.process.LogTail(20))
	if m.leader == 0 {
		return
	}
	for _, cmd := range []string{"systemctl status --no-pager --lines=0 netclassd", "journalctl --no-pager --lines=80 -u netclassd", "netclassctl status"} {
		// The test's context may have ended.
		out, err := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(m.leader), "--all"}, strings.Fields(cmd)...)...).CombinedOutput()
		m.t.Logf("%s: %v\n%s", cmd, err, out)
	}
}
