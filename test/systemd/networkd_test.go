package systemd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// networkd: it is not to claim, and so one day remove, rules and routes that it does
// not know. The package says so to it.
func networkd(m *machine) {
	m.run("mkdir", "--parents", "/run/systemd/system/systemd-networkd.service.d", "/run/systemd/networkd.conf.d")
	m.write("/run/systemd/system/systemd-networkd.service.d/debug.conf", "[Service]\nEnvironment=SYSTEMD_LOG_LEVEL=debug\n")
	m.run("systemctl", "daemon-reload")
	before := m.applied()
	var rules, routes int
	m.hitless("systemd-networkd", func() { rules, routes = m.networkdClaims() })
	if rules > 0 || routes > 0 {
		m.t.Errorf("systemd-networkd takes %d rules and %d routes of netclassd's for its own to manage", rules, routes)
	}
	if now := m.applied(); now != before {
		m.t.Errorf("netclassd had to repair: %s changes, then %s", before, now)
	}
	// Without the package's word it does: the above can fail.
	m.run("ln", "--symbolic", "/dev/null", "/run/systemd/networkd.conf.d/50-netclass.conf")
	if rules, routes = m.networkdClaims(); rules == 0 || routes == 0 {
		m.t.Errorf("systemd-networkd would have claimed %d rules and %d routes anyway: this shows nothing", rules, routes)
	}
	m.run("rm", "/run/systemd/networkd.conf.d/50-netclass.conf", "/run/systemd/system/systemd-networkd.service.d/debug.conf")
	m.run("systemctl", "daemon-reload")
}

// networkdClaims starts networkd, which looks at what there is, ends it, and returns
// how many of netclassd's rules and routes it has taken note of.
func (m *machine) networkdClaims() (rules, routes int) {
	m.t.Helper()
	m.run("systemctl", "start", "systemd-networkd")
	id := m.run("systemctl", "show", "--property=InvocationID", "--value", "systemd-networkd")
	var log string
	m.eventually("networkd has looked", func() error {
		m.run("journalctl", "--sync")
		log = m.run("journalctl", "_SYSTEMD_INVOCATION_ID="+id)
		if !strings.Contains(log, "Enumeration completed") {
			return fmt.Errorf("its log:\n%s", log)
		}
		return nil
	})
	m.run("systemctl", "stop", "systemd-networkd.socket", "systemd-networkd")
	for line := range strings.Lines(log) {
		switch {
		case strings.Contains(line, "routing policy rule") && strings.Contains(line, "priority: 1001,"):
			rules++
		case strings.Contains(line, "foreign route") && strings.Contains(line, "proto: 148,"):
			routes++
		}
	}
	return rules, routes
}

// applied returns how many changes the daemon has made since it started.
func (m *machine) applied() string {
	m.t.Helper()
	out, err := m.try("netclassctl", "status", "--output=json")
	var answer struct {
		Status struct {
			Pass struct{ Applied string }
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &answer)
	}
	if err != nil {
		m.t.Fatalf("netclassctl status: %v: %s", err, out)
	}
	return cmp.Or(answer.Status.Pass.Applied, "0")
}
