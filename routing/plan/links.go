package plan

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"netclass.dev/routing"
)

// usable reports whether packets of the family can leave by the link, and if
// not, why.
func (m *maker) usable(name string, f routing.Family) (ok bool, why string) {
	l := m.links[name]
	switch {
	case l == nil:
		return false, "link " + name + " does not exist"
	case !l.Up:
		return false, "link " + name + " is down"
	case !l.Carrier:
		return false, "link " + name + " has no carrier"
	}
	state := ""
	for _, a := range l.Addrs {
		if routing.FamilyOf(a.Prefix.Addr()) != f || a.Prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		switch {
		case a.DADFailed:
			state = "address " + a.Prefix.Addr().String() + " is a duplicate (DAD failed)"
		case a.Tentative:
			state = "address " + a.Prefix.Addr().String() + " is tentative"
		default:
			return true, ""
		}
	}
	if state == "" {
		state = "has no " + f.String() + " address"
	}
	return false, "link " + name + " " + state
}

// hopProblem says why a next hop cannot be used on a link; "" when it can.
func (m *maker) hopProblem(name string, hop netip.Addr) string {
	switch {
	case !m.onLink(name, hop):
		return "next hop " + hop.String() + " is in no network of " + name
	case m.hasAddress(name, hop):
		return "next hop " + hop.String() + " is this node's own address"
	}
	return ""
}

// hasAddress reports whether an address is one of the link's own.
func (m *maker) hasAddress(name string, a netip.Addr) bool {
	l := m.links[name]
	return l != nil && slices.ContainsFunc(l.Addrs, func(la routing.LinkAddr) bool { return la.Prefix.Addr() == a })
}

// onLink reports whether an address is in a connected network of the link.
func (m *maker) onLink(name string, a netip.Addr) bool {
	l := m.links[name]
	if l == nil {
		return false
	}
	for _, la := range l.Addrs {
		if la.Usable() && la.Prefix.Contains(a) {
			return true
		}
	}
	return false
}

// address returns the address that we use on a link: the first that is neither
// link-local nor secondary.
func (m *maker) address(name string, f routing.Family) netip.Addr {
	l := m.links[name]
	if l == nil {
		return netip.Addr{}
	}
	for _, a := range l.Addrs {
		addr := a.Prefix.Addr()
		if routing.FamilyOf(addr) == f && a.Usable() && !a.Secondary && !addr.IsLinkLocalUnicast() {
			return addr
		}
	}
	return netip.Addr{}
}

// connected returns the networks of one family that a link's addresses make.
// Link-local networks and host addresses are none.
func connected(l *routing.Link, f routing.Family) []netip.Prefix {
	if l == nil {
		return nil
	}
	var nets []netip.Prefix
	for _, a := range l.Addrs {
		addr := a.Prefix.Addr()
		if routing.FamilyOf(addr) != f || addr.IsLinkLocalUnicast() || a.Prefix.Bits() == f.Bits() {
			continue
		}
		if net := a.Prefix.Masked(); !slices.Contains(nets, net) {
			nets = append(nets, net)
		}
	}
	return nets
}

// linkNetworks returns the networks of each class link. Where a link shows
// none of a family, the last known ones stand: an interface that goes down loses its
// IPv6 addresses, and the fence must not fall with them.
func linkNetworks(cfg *routing.Config, links map[string]*routing.Link, ledger *routing.Ledger) map[string][]netip.Prefix {
	networks := make(map[string][]netip.Prefix)
	for i := range cfg.Classes {
		c := &cfg.Classes[i]
		if _, done := networks[c.Link]; done {
			continue
		}
		var nets []netip.Prefix
		for _, f := range routing.Families {
			now := connected(links[c.Link], f)
			if len(now) == 0 && !c.Delegated {
				for _, p := range ledger.Links[c.Link] {
					if routing.FamilyOf(p.Addr()) == f {
						now = append(now, p)
					}
				}
			}
			nets = append(nets, now...)
		}
		if len(nets) > 0 {
			networks[c.Link] = nets
		}
	}
	return networks
}

// gatewayless reports whether no class on the link carries anything to or from
// the world: nothing on it may ever go to a router.
func (m *maker) gatewayless(link string) bool {
	for i := range m.cfg.Classes {
		if c := &m.cfg.Classes[i]; c.Link == link && c.Gateway() {
			return false
		}
	}
	return true
}

// nodeIP is a node's address of each family on one link, or why it has none.
type nodeIP struct {
	known bool
	addr  routing.PerFamily[netip.Addr]
	why   routing.PerFamily[string]
}

// nodeAddress returns a node's address of one family: on a class link as its
// annotations say, or its InternalIP.
func (m *maker) nodeAddress(node int, kind routing.HopKind, link string, f routing.Family) (netip.Addr, string) {
	if kind == routing.HopInternalIP {
		link = ""
	}
	of := m.hops[link]
	if of == nil {
		of = make([]nodeIP, len(m.nodes))
		m.hops[link] = of
	}
	ip := &of[node]
	if !ip.known {
		ip.known = true
		for _, f := range routing.Families {
			a, why := m.findAddress(&m.nodes[node], link, f)
			ip.addr.Set(f, a)
			ip.why.Set(f, why)
		}
	}
	return ip.addr.Of(f), ip.why.Of(f)
}

// selfUnknown is why nothing is known that this node's own entry would tell.
const selfUnknown = "this node is not in the inventory"

func (m *maker) findAddress(n *routing.Node, link string, f routing.Family) (netip.Addr, string) {
	if link != "" {
		if refs, ok := m.cfg.Cluster.Address(link); ok {
			ref := refs.Of(f)
			if !ref.Given() {
				return netip.Addr{}, "no " + f.String() + " address of " + link + " is configured"
			}
			a, why := resolve(ref, n, f)
			if why != nil && why.malformed {
				a = m.lastGood(n, link, f)
				return m.instead(n, a, why)
			}
			return a, why.String()
		}
	}
	if a := n.InternalIP(f); a.IsValid() {
		return a, ""
	}
	return netip.Addr{}, "node " + n.Name + " has no " + f.String() + " InternalIP"
}

// lastGood returns the address on a link that a node was last known by: what the
// speaker was told of it, or the next hop that the kernel has for its pods.
func (m *maker) lastGood(n *routing.Node, link string, f routing.Family) netip.Addr {
	if nb := m.spoken(routing.SessionKey{Peer: n.Name, Family: f}); nb != nil && nb.Link == link && !nb.Upstream {
		return nb.Remote
	}
	for _, dst := range n.PodCIDRs {
		if routing.FamilyOf(dst.Addr()) != f {
			continue
		}
		for i := range m.cfg.Tables {
			r, ok := m.installed(packed(m.cfg.Tables[i].ID, dst, routing.MetricPath))
			if ok && r.Link == link && r.Via.IsValid() {
				return r.Via
			}
		}
	}
	return netip.Addr{}
}

// instead returns the last good value of an annotation that was mistyped, and
// says so; without one it returns what is wrong.
func (m *maker) instead(n *routing.Node, last netip.Addr, why *fault) (netip.Addr, string) {
	stays := "there is no earlier value"
	if last.IsValid() {
		stays = "the last good value " + last.String() + " stays"
	}
	c := routing.Condition{Object: "node/" + n.Name, Reason: "MalformedAnnotation", Message: why.text + "; " + stays}
	if !slices.Contains(m.plan.Conditions, c) {
		m.plan.Conditions = append(m.plan.Conditions, c)
	}
	if last.IsValid() {
		return last, ""
	}
	return last, why.text
}

// fault is why a reference gives no address.
type fault struct {
	text      string
	malformed bool // there is a value, but not one that can be used
}

func (f *fault) String() string {
	if f == nil {
		return ""
	}
	return f.text
}

// resolve returns the address that a reference stands for on a node.
func resolve(ref routing.AddressRef, n *routing.Node, f routing.Family) (netip.Addr, *fault) {
	if !ref.Given() {
		return netip.Addr{}, &fault{text: "no " + f.String() + " address is configured"}
	}
	if ref.Addr.IsValid() {
		return ref.Addr, nil
	}
	if n == nil {
		return netip.Addr{}, &fault{text: selfUnknown}
	}
	text, ok := n.Annotations[ref.Annotation]
	if !ok {
		return netip.Addr{}, &fault{text: "node " + n.Name + " has no annotation " + ref.Annotation}
	}
	a, why := parseAddress(text, f)
	if why != "" {
		return netip.Addr{}, &fault{text: "node " + n.Name + ": annotation " + ref.Annotation + ": " + why, malformed: true}
	}
	return a, nil
}

// parseAddress reads an address as people type it into an annotation.
func parseAddress(text string, f routing.Family) (netip.Addr, string) {
	a, err := netip.ParseAddr(strings.TrimSpace(text))
	if len(text) > 64 {
		text = text[:64] + "…"
	}
	switch {
	case err != nil || a.Zone() != "":
		return netip.Addr{}, "not an address: " + strconv.Quote(text)
	case a.Is4In6() || routing.FamilyOf(a) != f:
		return netip.Addr{}, "not an " + f.String() + " address: " + strconv.Quote(text)
	case a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a.IsLinkLocalUnicast():
		return netip.Addr{}, "not an address of a node: " + strconv.Quote(text)
	}
	return a, ""
}
