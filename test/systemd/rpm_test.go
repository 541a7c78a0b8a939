package systemd

import "strings"

// rpmInstall: the service is enabled as the machine's presets say, and started by
// whoever wants it.
func rpmInstall(m *machine) {
	m.run("rpm", "--force-debian", "--nodeps", "--install", m.rpm("1.0.0"))
	if state := m.run("systemctl", "is-enabled", "netclassd"); state != "enabled" {
		m.t.Errorf("after its installation it is %s", state)
	}
	m.run("systemctl", "start", "netclassd")
	if status := m.show("StatusText"); status != "idle until there is a configuration" {
		m.t.Errorf("its status is %q", status)
	}
	if needs := m.run("rpm", "--force-debian", "--query", "--requires", "netclass"); !strings.Contains(needs, "systemd >= 252") {
		m.t.Errorf("it needs\n%s", needs)
	}
	m.run("test", "-s", "/usr/share/zsh/site-functions/_netclassctl")
}

// rpmUpgrade: the new version takes over from the old one.
func rpmUpgrade(m *machine) {
	before := m.show("MainPID")
	m.hitless("an upgrade", func() {
		m.run("rpm", "--force-debian", "--nodeps", "--upgrade", m.rpm("1.0.1"))
		if now := m.show("MainPID"); now == before {
			m.t.Error("the old daemon still runs")
		}
	})
	m.runs("1.0.1")
}

// rpmErase: nothing is left in the kernel, and on disk what people have written.
func rpmErase(m *machine) {
	m.run("rpm", "--force-debian", "--erase", "netclass")
	m.kernelClean()
	for _, gone := range []string{"/usr/sbin/netclassd", "/var/lib/netclassd", "/run/netclassd", configPath} {
		m.run("test", "!", "-e", gone)
	}
	m.run("test", "-s", configPath+".rpmsave")
	if out, err := m.try("systemctl", "cat", "netclassd"); err == nil {
		m.t.Errorf("the unit is left:\n%s", out)
	}
}
