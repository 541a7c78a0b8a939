package systemd

import (
	"slices"
	"strings"
)

// sysctlPath is where the package has its settings, to be filled in.
const sysctlPath = "/etc/sysctl.d/60-netclass.conf"

// vlanLink is a link as VLANs of a bond are named: with a dot.
const vlanLink = "bond0.48"

// sysctl: what the package has for class links works once it is filled in, for a
// link with any name.
func sysctl(m *machine) {
	shipped := m.run("cat", sysctlPath)
	var filled strings.Builder
	for line := range strings.Lines(shipped + "\n") {
		if key, ok := strings.CutPrefix(line, "#net"); ok {
			line = "net" + strings.ReplaceAll(key, "pod0", vlanLink)
		}
		filled.WriteString(line)
	}
	want := map[string]string{
		"ipv4/conf/all/rp_filter": "0", "ipv4/conf/" + vlanLink + "/rp_filter": "0",
		"ipv4/conf/" + vlanLink + "/ignore_routes_with_linkdown": "1", "ipv6/conf/" + vlanLink + "/ignore_routes_with_linkdown": "1",
		"ipv6/conf/" + vlanLink + "/keep_addr_on_down": "1",
	}
	m.run("ip", "link", "add", vlanLink, "type", "veth", "peer", "name", "bond0.48p")
	spoilt := map[string]string{}
	for key, value := range want {
		spoilt[key] = map[string]string{"0": "1", "1": "0"}[value]
	}
	if err := m.node.Sysctl(spoilt); err != nil {
		m.t.Fatal(err)
	}
	m.write(sysctlPath, filled.String())
	// As its service does, which a container does not let write.
	m.run("unshare", "--mount", "sh", "-ec", "mount -t proc proc /proc; exec /lib/systemd/systemd-sysctl "+sysctlPath)
	for key, value := range want {
		if got := m.run("cat", "/proc/sys/net/"+key); got != value {
			m.t.Errorf("%s is %s, want %s", key, got, value)
		}
	}
	// By hand, as the condition of a link with a filter says it.
	if err := m.node.Sysctl(spoilt); err != nil {
		m.t.Fatal(err)
	}
	for _, name := range []string{"all", vlanLink} {
		key := "net/ipv4/conf/" + name + "/rp_filter"
		if out, err := m.node.Exec(m.t.Context(), "sysctl", "-w", key+"=0"); err != nil {
			m.t.Errorf("sysctl -w %s: %v: %s", key, err, out)
		}
		if got := m.run("cat", "/proc/sys/"+key); got != "0" {
			m.t.Errorf("%s is %s", key, got)
		}
	}
	m.write(sysctlPath, shipped+"\n")
	m.run("ip", "link", "delete", vlanLink)
}

// order: the service is where it has to be among the others at boot.
func order(m *machine) {
	for property, names := range map[string][]string{
		"Before": {"network.target", "kubelet.service"}, "After": {"network-pre.target", "dbus.service"}, "Wants": {"network-pre.target"},
	} {
		got := strings.Fields(m.show(property))
		for _, name := range names {
			if !slices.Contains(got, name) {
				m.t.Errorf("%s of netclassd.service has no %s: %v", property, name, got)
			}
		}
	}
	for _, property := range []string{"Before", "After", "Wants", "Requires"} {
		if strings.Contains(m.show(property), "network-online.target") {
			m.t.Errorf("netclassd.service is %s network-online.target", property)
		}
	}
}
