package intent

import (
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

// readProcess reads the sections about the daemon itself.
func (r *reader) readProcess(m *strictyaml.Map) {
	r.readDaemon(m.Get("daemon"))
	if n := m.Get("node"); n.Text("") != "" {
		r.config.Node = name(n, peerName, wantPeerName)
	}
	r.readDrain(m.Get("drain"))

	api := m.Get("api").Map()
	r.config.API = routing.API{
		Readers: group(api.Get("readers"), "netclassd"),
		Admins:  group(api.Get("admins"), "netclassd-admin"),
	}
	api.Done()

	readMetrics(m.Get("metrics"))

	log := m.Get("log").Map()
	r.config.Log.Level = log.Get("level").Enum("info", "debug", "info", "warn", "error")
	r.config.Log.Format = log.Get("format").Enum("auto", "auto", "text", "json", "journald")
	log.Done()
}

func (r *reader) readDaemon(n *strictyaml.Node) {
	m := n.Map()
	protocol := m.Get("protocol")
	r.config.Daemon = routing.Daemon{
		Protocol: routing.Protocol(protocol.Uint(1, 255, uint64(routing.ProtocolNetclass))),
		OnExit:   routing.ExitPolicy(m.Get("onExit").Enum(string(routing.ExitKeep), string(routing.ExitKeep), string(routing.ExitFlush), string(routing.ExitAuto))),
		Resync:   m.Get("resync").Duration(time.Second, day, 30*time.Second),
	}
	m.Done()
	// What we own is told by this number: another owner's would have us delete
	// its objects, or it ours.
	if p := r.config.Daemon.Protocol; p <= routing.ProtocolStatic {
		protocol.Errorf("protocol %d is the kernel's or an administrator's own; choose one that nobody uses, such as %d", p, routing.ProtocolNetclass)
	} else if owner := protocolOwner(p); owner != "" {
		protocol.Errorf("protocol %d belongs to %s; choose one that nobody uses, such as %d", p, owner, routing.ProtocolNetclass)
	}
}

// protocolOwner names who is known to use an RTPROT number
// (include/uapi/linux/rtnetlink.h, iproute2's rt_protos).
func protocolOwner(p routing.Protocol) string {
	switch {
	case p == 9:
		return "router advertisements"
	case p == 11 || 186 <= p && p <= 198:
		return "FRR"
	case p == routing.ProtocolBIRD:
		return "BIRD"
	case p == 16:
		return "DHCP"
	case p == 17:
		return "kube-router"
	case p == 18:
		return "keepalived"
	case p == 42:
		return "Babel"
	}
	return ""
}

func (r *reader) readDrain(n *strictyaml.Node) {
	m := n.Map()
	protect := m.Get("protect").Map()
	selector := protect.Get("selector")
	quiet := m.Get("quiet").Map()
	followCordon := m.Get("followCordon")
	lease := m.Get("lease").Map()
	r.config.Drain = routing.Drain{
		ProtectSelector: selector.Text(""),
		Grace:           m.Get("grace").Duration(0, day, 10*time.Second),
		Timeout:         m.Get("timeout").Duration(time.Second, day, 5*time.Minute),
		QuietPPS:        uint32(quiet.Get("packetsPerSecond").Uint(0, 1<<32-1, 10)),
		QuietFor:        quiet.Get("for").Duration(0, day, 5*time.Second),
		FollowCordon:    followCordon.Bool(false),
		LeaseNamespace:  notEmpty(lease.Get("namespace"), "kube-system"),
		LeaseName:       notEmpty(lease.Get("name"), "netclass-drain"),
	}
	protect.Done()
	quiet.Done()
	lease.Done()
	m.Done()
	if text := r.config.Drain.ProtectSelector; text != "" {
		if _, err := labels.Parse(text); err != nil {
			selector.Errorf("selector is no label selector: %v", err)
		}
		r.fromAPI = append(r.fromAPI, apiUse{what: "drain.protect.selector", node: selector})
	}
	if r.config.Drain.FollowCordon {
		r.fromAPI = append(r.fromAPI, apiUse{what: "drain.followCordon", node: followCordon})
	}
}

func notEmpty(n *strictyaml.Node, absent string) string {
	text := n.Text(absent)
	if n != nil && text == "" {
		n.Errorf("%s must not be empty", n.Key)
	}
	return text
}

// groupName is what useradd(8) and systemd take, and a number.
var groupName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}$`)

func group(n *strictyaml.Node, absent string) string {
	if n == nil {
		return absent
	}
	return name(n, groupName, "a group of the system")
}

// readMetrics reads a section that is kept for a feature to come: what asks for it is
// refused, rather than not heard.
func readMetrics(n *strictyaml.Node) {
	m := n.Map()
	if listen := m.Get("listen"); listen.Text("") != "" {
		listen.Errorf("metrics are not built yet: leave listen empty, or the section out")
	}
	m.Done()
}
