package plan

import (
	"hash/fnv"
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// routerID returns the configured identifier, else the mesh link's lowest IPv4
// address, else one made from the node's name. The one in use stays while the
// link has it, or has no address: a new identifier ends every session.
func (m *maker) routerID() netip.Addr {
	if id := m.cfg.BGP.RouterID; id.IsValid() {
		return id
	}
	var used, lowest netip.Addr
	if s := m.in.Speaking; s != nil {
		used = s.RouterID
	}
	if mesh := m.cfg.BGP.Mesh; mesh != nil && m.links[mesh.Link] != nil {
		for _, a := range m.links[mesh.Link].Addrs {
			if addr := a.Prefix.Addr(); addr.Is4() && !addr.IsLinkLocalUnicast() && (!lowest.IsValid() || addr.Less(lowest)) {
				lowest = addr
			}
		}
	}
	if used.IsValid() && (!lowest.IsValid() || m.hasAddress(m.cfg.BGP.Mesh.Link, used)) {
		return used
	}
	if lowest.IsValid() {
		return lowest
	}
	h := fnv.New32a()
	h.Write([]byte(m.in.Node))
	sum := h.Sum32()
	return netip.AddrFrom4([4]byte{byte(sum>>24)%223 + 1, byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// local returns the address that sessions of a link and family are sourced
// from: the one that this node is known by, else the one in use, else the link's
// first. Where the link has none at the moment, the one in use stays: the
// session may well outlive the flap, and its routes are withdrawn by the link's
// state anyway.
func (m *maker) local(link string, f routing.Family, kind routing.HopKind) (netip.Addr, string) {
	used := m.spokenLocal(link, f)
	ok, why := m.usable(link, f)
	if !ok {
		if first := m.address(link, f); used.IsValid() && (!first.IsValid() || m.hasAddress(link, used)) {
			return used, ""
		}
		return netip.Addr{}, why
	}
	if m.self != nil {
		if known, _ := m.nodeAddress(m.at, kind, link, f); m.bindable(link, known) {
			return known, ""
		}
	}
	if m.bindable(link, used) {
		return used, ""
	}
	if first := m.address(link, f); first.IsValid() {
		return first, ""
	}
	return netip.Addr{}, "link " + link + " has no " + f.String() + " address to send from"
}

// bindable reports whether a socket can be bound to the address on the link.
func (m *maker) bindable(link string, a netip.Addr) bool {
	l := m.links[link]
	return a.IsValid() && l != nil &&
		slices.ContainsFunc(l.Addrs, func(la routing.LinkAddr) bool { return la.Prefix.Addr() == a && la.Usable() })
}

// spokenLocal returns the address of a link and family in the newest order to
// the speaker.
func (m *maker) spokenLocal(link string, f routing.Family) netip.Addr {
	s := m.in.Speaking
	if s == nil {
		return netip.Addr{}
	}
	for i := range s.Neighbors {
		if n := &s.Neighbors[i]; n.Link == link && n.Key.Family == f {
			return n.Local
		}
	}
	for _, l := range s.Listen {
		if l.Link == link && routing.FamilyOf(l.Addr) == f {
			return l.Addr
		}
	}
	return netip.Addr{}
}
