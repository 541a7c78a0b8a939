package systemd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// hitless does something while pods ping each other through the machine, 1000
// times a second each, and fails when one ping is lost or takes another link than
// its class's. The classes are apart afterwards.
func (m *machine) hitless(what string, do func()) {
	m.t.Helper()
	pod, second, third := m.node.Pod, m.Node(2), m.Node(3)
	var pingers []*lab.Pinger
	ping := func(from, to *lab.Host, p *lab.Pinger, err error) {
		m.t.Helper()
		if err != nil {
			m.t.Fatalf("ping from %s to %s: %v", from.Name, to.Name, err)
		}
		pingers = append(pingers, p)
	}
	before := m.astray()
	opts := lab.PingOptions{Rate: 1000}
	p, err := second.Pod.StartPing(m.node.PodAddr(routing.IPv4), opts)
	ping(second.Pod, pod, p, err)
	p, err = pod.StartPing(third.PodAddr(routing.IPv6), opts)
	ping(pod, third.Pod, p, err)
	p, err = pod.StartPing(lab.WorldAddr.IPv4, opts)
	ping(pod, m.Switch, p, err)

	do()
	m.eventually("the classes are apart", func() error { return errors.Join(m.Separated(m.node), m.is("active")) })
	time.Sleep(500 * time.Millisecond) // for what is undone only then
	if err := m.Separated(m.node); err != nil {
		m.t.Errorf("%s: %v", what, err)
	}
	for _, p := range pingers {
		r := p.Stop()
		m.t.Logf("%s: %s", what, r)
		if r.Lost > 0 || r.Sent == 0 {
			m.t.Errorf("%s cost packets: %s", what, r)
		}
	}
	if n := m.astray() - before; n > 0 {
		m.t.Errorf("%s sent %d packets of pods by another link", what, n)
	}
}

// astray returns how many packets of pods have left a node by a link that is not
// their class's.
func (m *machine) astray() (packets uint64) {
	m.t.Helper()
	for _, n := range m.Nodes {
		counts, err := n.Counts()
		if err != nil {
			m.t.Fatal(err)
		}
		packets += counts.Out(lab.NodeNet, lab.ZonePod, lab.ZonePod) + counts.Out(lab.Mgmt, lab.ZonePod, lab.ZonePod) +
			counts.Out(lab.Ingress, lab.ZonePod, lab.ZonePod) + counts.Out(lab.Mgmt, lab.ZonePod, lab.ZoneWorld)
	}
	return packets
}

// restart: nothing moves, though daemon.onExit is auto.
func restart(m *machine) {
	before := m.show("MainPID")
	m.hitless("systemctl restart", func() { m.startsSeparated("restart") })
	if m.show("MainPID") == before {
		m.t.Error("it is the same process")
	}
	if log := m.log(); !strings.Contains(log, "netclassd.service has the job restart") {
		m.t.Errorf("the restart was taken for something else:\n%s", log)
	}
}

// kill: systemd starts another one.
func kill(m *machine) {
	before := m.show("MainPID")
	m.hitless("kill -9", func() {
		m.run("systemctl", "kill", "--kill-who=main", "--signal=KILL", "netclassd")
		m.another(before)
	})
}

// hang: a daemon that no longer passes is found by the watchdog; one that only has
// nothing to do is left alone.
func hang(m *machine) {
	if usec := m.show("WatchdogUSec"); usec != "1min" {
		m.t.Errorf("the watchdog's time is %s", usec)
	}
	m.run("mkdir", "--parents", "/run/systemd/system/netclassd.service.d")
	m.write("/run/systemd/system/netclassd.service.d/watchdog.conf", "[Service]\nWatchdogSec=3s\n")
	m.run("systemctl", "daemon-reload")
	m.run("systemctl", "restart", "netclassd")
	before, restarts := m.show("MainPID"), m.show("NRestarts")
	time.Sleep(4 * time.Second)
	if m.show("NRestarts") != restarts || m.show("MainPID") != before {
		m.t.Error("a healthy daemon has been restarted")
	}
	m.hitless("a hang", func() {
		begun := time.Now()
		m.run("systemctl", "kill", "--kill-who=main", "--signal=STOP", "netclassd")
		m.another(before)
		m.t.Logf("another daemon after %v", time.Since(begun).Round(time.Millisecond))
	})
	if log := m.log("_PID=1"); !strings.Contains(log, "Watchdog timeout") {
		m.t.Errorf("it was not the watchdog:\n%s", log)
	}
	m.run("rm", "/run/systemd/system/netclassd.service.d/watchdog.conf")
	m.run("systemctl", "daemon-reload")
}

// another waits until another process than one is up.
func (m *machine) another(pid string) {
	m.t.Helper()
	m.eventually("another daemon is up", func() error {
		if now := m.show("MainPID"); now == pid || now == "0" {
			return fmt.Errorf("the daemon is %s", now)
		}
		return m.is("active")
	})
}

// upgrade: the new version takes over from the old one.
func upgrade(m *machine) {
	before := m.show("MainPID")
	m.hitless("an upgrade", func() {
		m.run("dpkg", "--install", m.deb("1.0.1"))
		if now := m.show("MainPID"); now == before {
			m.t.Error("the old daemon still runs")
		}
	})
	m.runs("1.0.1")
}

// upgradeRefused: a configuration that cannot be used leaves the old daemon
// running, on what it has.
func upgradeRefused(m *machine) {
	before := m.show("MainPID")
	m.write(configPath, "apiVersion: nonsense\n")
	m.hitless("an upgrade with a bad configuration", func() {
		if out := m.run("dpkg", "--install", m.deb("1.0.0")); !strings.Contains(out, "netclassd is not restarted") {
			m.t.Errorf("dpkg said\n%s", out)
		}
	})
	if now := m.show("MainPID"); now != before {
		m.t.Errorf("process %s became %s", before, now)
	}
	m.runs("1.0.1")
	m.write(configPath, m.config("password_mesh"))
	m.run("systemctl", "restart", "netclassd")
	m.runs("1.0.0")
}

// runs fails when the daemon is of another version.
func (m *machine) runs(version string) {
	m.t.Helper()
	if out := m.run("netclassctl", "version"); !strings.Contains(out, version+" on "+m.node.Name) {
		m.t.Errorf("want netclassd %s:\n%s", version, out)
	}
}
