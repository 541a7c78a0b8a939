package routing

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// TableID is a kernel routing table's number.
type TableID uint32

// Protocol is an RTPROT number: who put a rule or route in the kernel.
type Protocol uint8

// Protocol numbers that matter here (linux/rtnetlink.h, iproute2's rt_protos).
const (
	ProtocolKernel   Protocol = 2
	ProtocolBoot     Protocol = 3
	ProtocolStatic   Protocol = 4
	ProtocolBIRD     Protocol = 12
	ProtocolNetclass Protocol = 148 // the default of daemon.protocol
)

// protocolNames are those that iproute2 ships (rt_protos), and ours.
var protocolNames = map[Protocol]string{
	0: "unspec", 1: "redirect", ProtocolKernel: "kernel", ProtocolBoot: "boot", ProtocolStatic: "static", 8: "gated", 9: "ra", 11: "zebra",
	ProtocolBIRD: "bird", 14: "xorp", 16: "dhcp", 17: "kube-router", 18: "keepalived", 42: "babel",
	ProtocolNetclass: "netclass", 186: "bgp", 187: "isis", 188: "ospf", 189: "rip", 192: "eigrp",
}

// String gives the number, with its name where it is well known: "static (4)".
func (p Protocol) String() string {
	n := strconv.Itoa(int(p))
	if name := protocolNames[p]; name != "" {
		return name + " (" + n + ")"
	}
	return n
}

// String gives the number, or the name of one of the kernel's own tables.
func (t TableID) String() string {
	switch t {
	case MainID:
		return MainTable
	case LocalID:
		return "local"
	case DefaultID:
		return "default"
	}
	return strconv.FormatUint(uint64(t), 10)
}

// RouteType is the kind of a route (RTN_*).
type RouteType uint8

// Route types. Other, and those after it, never decide where a packet of ours goes:
// Other covers what has no name here, and routes for some packets only.
const (
	Unicast RouteType = iota
	Local
	Unreachable
	Blackhole
	Prohibit
	Throw
	Other
	Broadcast
	Anycast
	Multicast
)

var routeTypeNames = [...]string{"unicast", "local", "unreachable", "blackhole", "prohibit", "throw", "other", "broadcast", "anycast", "multicast"}

func (t RouteType) String() string { return routeTypeNames[t] }

// Reject reports whether the route names no next hop and no link: it answers
// the lookup itself.
func (t RouteType) Reject() bool {
	return t == Unreachable || t == Blackhole || t == Prohibit || t == Throw
}

// Metrics, distinct by source: two routes of one prefix and one metric would
// replace each other.
const (
	MetricPath     uint32 = 10  // class path, connected, own and default
	MetricImport   uint32 = 500 // a network learned from a router
	MetricFallback uint32 = 2000
	MetricFence    uint32 = 4000
	MetricHold     uint32 = 5000 // unreachable default that keeps a place
	MetricGuard    uint32 = 1<<32 - 1
)

// Route is one kernel route. It is comparable: two routes are equal when the
// kernel would treat them alike.
type Route struct {
	Table    TableID
	Dst      netip.Prefix
	Metric   uint32
	Type     RouteType
	Protocol Protocol
	OnLink   bool       // the next hop is on the link whatever the addresses say
	MTU      uint32     // 0: none
	Via      netip.Addr // next hop; zero for a device or reject route
	Src      netip.Addr // preferred source; zero: the kernel chooses
	Link     string     // outgoing link; empty for a reject route

	// Multipath marks a foreign route with more next hops than Via and Link
	// say. We never install one.
	Multipath bool
	// LinkDown and Dead are the kernel's flags on the next hop: its carrier is
	// gone, or its link is down. Never part of what we want.
	LinkDown, Dead bool
}

// Family returns the family of the destination.
func (r Route) Family() Family { return FamilyOf(r.Dst.Addr()) }

// RouteKey is what makes a route one of its kind in the kernel.
type RouteKey struct {
	Table  TableID
	Dst    netip.Prefix
	Metric uint32
}

// Key returns the route's key.
func (r Route) Key() RouteKey { return RouteKey{r.Table, r.Dst, r.Metric} }

// Wanted returns the route without the flags that only the kernel sets, for
// comparison with what the plan wants.
func (r Route) Wanted() Route {
	r.LinkDown, r.Dead = false, false
	return r
}

// String gives the route as `ip route` shows it, with its table and protocol.
func (r Route) String() string {
	var b strings.Builder
	if r.Type != Unicast {
		b.WriteString(r.Type.String() + " ")
	}
	if r.Dst.Bits() == 0 {
		b.WriteString("default")
	} else {
		b.WriteString(r.Dst.String())
	}
	if r.Via.IsValid() {
		b.WriteString(" via " + r.Via.String())
	}
	if r.Link != "" {
		b.WriteString(" dev " + r.Link)
	}
	if r.Table != MainID {
		b.WriteString(" table " + r.Table.String())
	}
	if r.Src.IsValid() {
		b.WriteString(" src " + r.Src.String())
	}
	fmt.Fprintf(&b, " metric %d", r.Metric)
	if r.MTU != 0 {
		fmt.Fprintf(&b, " mtu %d", r.MTU)
	}
	if r.OnLink {
		b.WriteString(" onlink")
	}
	if r.LinkDown {
		b.WriteString(" linkdown")
	}
	if r.Dead {
		b.WriteString(" dead")
	}
	return b.String()
}

// RuleAction is what a rule does with a packet it matches (FR_ACT_*).
type RuleAction uint8

// Rule actions.
const (
	ActionLookup RuleAction = iota
	ActionUnreachable
	ActionBlackhole
	ActionProhibit
	ActionGoto
	ActionNop
	ActionOther
)

var ruleActionNames = [...]string{"lookup", "unreachable", "blackhole", "prohibit", "goto", "nop", "other"}

func (a RuleAction) String() string { return ruleActionNames[a] }

// NoSuppress is the value of Rule.SuppressPrefixLen that suppresses nothing.
const NoSuppress = -1

// Rule is one kernel policy rule. It is comparable.
type Rule struct {
	Family   Family
	Priority uint32
	From, To netip.Prefix // zero: all
	IIF, OIF string
	Mark     uint32
	Mask     uint32
	Action   RuleAction
	Table    TableID // ActionLookup
	Goto     uint32  // ActionGoto
	Protocol Protocol
	// SuppressPrefixLen refuses the table's answer when its prefix is no longer
	// than this; NoSuppress for none.
	SuppressPrefixLen int
	L3MDev            bool
	Invert            bool // `not`
	// Opaque marks a foreign rule with selectors we cannot model (ports, TOS,
	// uid range, tunnel id); Extra names them.
	Opaque bool
	Extra  string
}

// String gives the rule as `ip rule` shows it.
func (r Rule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d:", r.Priority)
	if r.Invert {
		b.WriteString(" not")
	}
	if r.From.IsValid() {
		b.WriteString(" from " + r.From.String())
	} else {
		b.WriteString(" from all")
	}
	if r.To.IsValid() {
		b.WriteString(" to " + r.To.String())
	}
	if r.IIF != "" {
		b.WriteString(" iif " + r.IIF)
	}
	if r.OIF != "" {
		b.WriteString(" oif " + r.OIF)
	}
	if r.Mark != 0 || r.Mask != 0 {
		fmt.Fprintf(&b, " fwmark %#x/%#x", r.Mark, r.Mask)
	}
	if r.L3MDev {
		b.WriteString(" [l3mdev-table]")
	}
	if r.Extra != "" {
		b.WriteString(" " + r.Extra)
	}
	switch r.Action {
	case ActionLookup:
		if !r.L3MDev {
			b.WriteString(" lookup " + r.Table.String())
		}
	case ActionGoto:
		fmt.Fprintf(&b, " goto %d", r.Goto)
	default:
		b.WriteString(" " + r.Action.String())
	}
	if r.SuppressPrefixLen != NoSuppress {
		fmt.Fprintf(&b, " suppress_prefixlength %d", r.SuppressPrefixLen)
	}
	return b.String()
}

// Link is one network interface.
type Link struct {
	Name    string
	Index   int
	Up      bool // administratively
	Carrier bool // IFF_LOWER_UP
	MTU     uint32
	Kind    string // "vlan", "veth", "bridge", … as the kernel says
	VLAN    int    // 0: not a VLAN device, or unknown
	NoIPv6  bool   // IPv6 is switched off there: no IPv6 route can lead over it
	// RPFilter is the reverse path filter of IPv4 that is in force, the greater of
	// the link's and that of all: 1 strict, 2 loose; 0: off, or unknown.
	RPFilter uint8
	Addrs    []LinkAddr
}

// Usable reports whether packets can leave by the link.
func (l *Link) Usable() bool { return l != nil && l.Up && l.Carrier }

// LinkAddr is an address on a link with the length of its network.
type LinkAddr struct {
	Prefix    netip.Prefix // not masked: the address itself and its length
	Tentative bool
	DADFailed bool
	Secondary bool // or deprecated, or temporary: not to be sourced from
}

// Usable reports whether the address can be bound and routed to.
func (a LinkAddr) Usable() bool { return !a.Tentative && !a.DADFailed }

// Kernel is a picture of the kernel's routing state: what one complete dump
// said, and what acknowledged ops made of it since.
type Kernel struct {
	Links  []Link
	Rules  []Rule  // by family, then priority, then the kernel's own order
	Routes []Route // every table
}

// Link returns the link of that name, or nil.
func (k *Kernel) Link(name string) *Link {
	for i := range k.Links {
		if k.Links[i].Name == name {
			return &k.Links[i]
		}
	}
	return nil
}

// After returns the picture that acknowledged ops make of this one. The
// receiver stays as it is: published states share it.
func (k *Kernel) After(ops []Op) *Kernel {
	if len(ops) == 0 {
		return k
	}
	next := &Kernel{Links: k.Links}
	routes := make(map[RouteKey][]Op)
	rules := make(map[Rule]Verb)
	for _, op := range ops {
		if op.IsRule() {
			rules[op.Rule] = op.Verb
		} else {
			key := op.Route.Key()
			routes[key] = append(routes[key], op)
		}
	}
	next.Routes = make([]Route, 0, len(k.Routes)+len(ops))
	for _, r := range k.Routes {
		if !gone(r, routes[r.Key()]) {
			next.Routes = append(next.Routes, r)
		}
	}
	next.Rules = make([]Rule, 0, len(k.Rules)+len(rules))
	for _, r := range k.Rules {
		if _, changed := rules[r]; !changed {
			next.Rules = append(next.Rules, r)
		}
	}
	for _, op := range ops {
		switch {
		case op.Verb == Delete:
		case op.IsRule():
			next.Rules = append(next.Rules, op.Rule)
		default:
			next.Routes = append(next.Routes, op.Route)
		}
	}
	slices.SortStableFunc(next.Rules, func(a, b Rule) int {
		return cmp.Or(int(a.Family)-int(b.Family), cmp.Compare(a.Priority, b.Priority))
	})
	return next
}

// gone reports whether one of the ops has taken the route's place or deleted it.
func gone(r Route, ops []Op) bool {
	for _, op := range ops {
		if op.Verb == Replace && r.Protocol == op.Route.Protocol || op.Verb == Delete && r.Wanted() == op.Route {
			return true
		}
	}
	return false
}
