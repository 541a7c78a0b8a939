package systemd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// networkd: it is not to claim, and so one day remove, rules that it does not know.
// The package says so to it.
func networkd(m *machine) {
	m.run("mkdir", "--parents", "/run/systemd/system/systemd-networkd.service.d", "/run/systemd/networkd.conf.d")
	m.write("/run/systemd/system/systemd-networkd.service.d/debug.conf", "[Service]\nEnvironment=SYSTEMD_LOG_LEVEL=debug\n")
	m.run("systemctl", "daemon-reload")
	before := m.applied()
	claimed := false
	m.hitless("systemd-networkd", func() { claimed = m.networkdClaims("1001") })
	if claimed {
		m.t.Error("systemd-networkd takes netclassd's rule for one of its own to manage")
	}
	if now := m.applied(); now != before {
		m.t.Errorf("netclassd had to repair: %s changes, then %s", before, now)
	}
	// Without the package's word it does: the above can fail.
	m.run("ln", "--symbolic", "/dev/null", "/run/systemd/networkd.conf.d/50-netclass.conf")
	if !m.networkdClaims("1001") {
		m.t.Error("systemd-networkd would not have claimed the rule anyway: this shows nothing")
	}
	m.run("rm", "/run/systemd/networkd.conf.d/50-netclass.conf", "/run/systemd/system/systemd-networkd.service.d/debug.conf")
	m.run("systemctl", "daemon-reload")
}

// networkdClaims starts networkd, which looks at what there is, ends it, and
// reports whether it has taken note of the rule with a priority.
func (m *machine) networkdClaims(priority string) bool {
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
		if strings.Contains(line, "routing policy rule") && strings.Contains(line, "priority: "+priority+",") {
			return true
		}
	}
	return false
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
