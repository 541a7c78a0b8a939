package plan

import (
	"net/netip"
	"slices"
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
	state := "has no " + f.String() + " address"
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
	return false, "link " + name + " " + state
}

// onLink reports whether an address is in a connected network of the link.
func (m *maker) onLink(name string, a netip.Addr) bool {
	l := m.links[name]
	if l == nil {
		return false
	}
	for _, la := range l.Addrs {
		if la.Usable() && la.Prefix.Masked().Contains(a) {
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
	addr routing.PerFamily[netip.Addr]
	why  routing.PerFamily[string]
}

// nodeAddress returns a node's address of one family: on a class link as its
// annotations say, or its InternalIP.
func (m *maker) nodeAddress(n *routing.Node, kind routing.HopKind, link string, f routing.Family) (netip.Addr, string) {
	if kind == routing.HopInternalIP {
		link = ""
	}
	of := m.hops[link]
	if of == nil {
		of = make(map[string]nodeIP, len(m.in.Inventory.Nodes))
		m.hops[link] = of
	}
	ip, ok := of[n.Name]
	if !ok {
		for _, f := range routing.Families {
			a, why := m.findAddress(n, link, f)
			ip.addr.Set(f, a)
			ip.why.Set(f, why)
		}
		of[n.Name] = ip
	}
	return ip.addr.Of(f), ip.why.Of(f)
}

func (m *maker) findAddress(n *routing.Node, link string, f routing.Family) (netip.Addr, string) {
	if link != "" {
		if refs, ok := m.cfg.Cluster.Address(link); ok {
			ref := refs.Of(f)
			if !ref.Given() {
				return netip.Addr{}, "no " + f.String() + " address of " + link + " is configured"
			}
			return resolve(ref, n, f)
		}
	}
	if a := n.InternalIP(f); a.IsValid() {
		return a, ""
	}
	return netip.Addr{}, "node " + n.Name + " has no " + f.String() + " InternalIP"
}

// resolve returns the address that a reference stands for on a node.
func resolve(ref routing.AddressRef, n *routing.Node, f routing.Family) (netip.Addr, string) {
	if !ref.Given() {
		return netip.Addr{}, "no " + f.String() + " address is configured"
	}
	if ref.Addr.IsValid() {
		return ref.Addr, ""
	}
	if n == nil {
		return netip.Addr{}, "the node is not in the inventory"
	}
	text, ok := n.Annotations[ref.Annotation]
	if !ok {
		return netip.Addr{}, "node " + n.Name + " has no annotation " + ref.Annotation
	}
	a, why := parseAddress(text, f)
	if why != "" {
		return netip.Addr{}, "node " + n.Name + ": annotation " + ref.Annotation + ": " + why
	}
	return a, ""
}

// parseAddress reads an address as people type it into an annotation.
func parseAddress(text string, f routing.Family) (netip.Addr, string) {
	a, err := netip.ParseAddr(strings.TrimSpace(text))
	switch {
	case err != nil || a.Zone() != "":
		if len(text) > 64 {
			text = text[:64] + "…"
		}
		return netip.Addr{}, "not an address: " + quote(text)
	case a.Is4In6() || routing.FamilyOf(a) != f:
		return netip.Addr{}, "not an " + f.String() + " address: " + quote(text)
	case a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a.IsLinkLocalUnicast():
		return netip.Addr{}, "not an address of a node: " + quote(text)
	}
	return a, ""
}
