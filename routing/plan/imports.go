package plan

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// importsKept bounds what one router may announce in a family where something is
// imported.
const importsKept = 1000

// imports plans the networks that routers announce and that the configuration
// takes into a table. They last as long as the session does: unlike a peer's they
// are not held through a restart, neither the router's nor ours. A drain takes them
// out with the default: they are as much a way out by that link.
func (m *maker) imports() {
	m.strayImports()
	if m.cfg.BGP == nil {
		return
	}
	for i := range m.cfg.BGP.Upstreams {
		u := &m.cfg.BGP.Upstreams[i]
		if len(u.Import) == 0 || m.isNode(u.Name) {
			continue
		}
		for _, f := range routing.Families {
			if peering := m.peerings[routing.SessionKey{Peer: u.Name, Family: f}]; peering != nil && u.Address.Of(f).Given() {
				m.importFrom(u, f, peering)
			}
		}
	}
}

// strayImports finds imports in the kernel that lead to a router what has become
// the cluster's own since, as the network of a link that was renumbered. They must
// not wait for the inventory like everything else.
func (m *maker) strayImports() {
	if m.plan.Hold == "" {
		return
	}
	m.eachInstalled(func(_ int, r *routing.Route) {
		if r.Metric == routing.MetricImport && m.reserved(r.Dst) != "" {
			m.plan.Unsafe = append(m.plan.Unsafe, r.Key())
		}
	})
}

// importFrom plans what one session of a router says.
func (m *maker) importFrom(u *routing.Upstream, f routing.Family, peering *routing.Peering) {
	_, down := m.usable(u.Link, f)
	st := &routing.PeerStatus{}
	for _, path := range peering.Paths {
		table, why := m.refuseImport(u, f, path)
		if why == "" && down != "" {
			st.Aside++
			continue
		}
		if why == "" {
			why = m.importHop(u.Link, f, path.NextHop)
		}
		if why == "" && !m.egressOut(u.Link) { // else what it says is right all the same
			why = m.takeImport(routing.Route{
				Table: table.ID, Dst: path.Prefix, Metric: routing.MetricImport, Via: path.NextHop, Link: u.Link,
			})
		}
		if why == "" {
			st.Accepted = append(st.Accepted, path)
		} else {
			refuse(st, path, why)
		}
	}
	if m.imported == nil {
		m.imported = make(map[routing.SessionKey]*routing.PeerStatus)
	}
	m.imported[peering.Key] = st
}

// refuseImport says why a prefix is not imported from a router, or else into which
// table it is.
func (m *maker) refuseImport(u *routing.Upstream, f routing.Family, path routing.Path) (*routing.Table, string) {
	dst := path.Prefix
	switch {
	case !dst.IsValid() || dst != dst.Masked():
		return nil, "not a prefix"
	case routing.FamilyOf(dst.Addr()) != f:
		return nil, "prefix of the other family"
	case dst.Bits() == 0:
		return nil, "a default route is never accepted"
	}
	for i := range u.Import {
		table := m.cfg.Table(u.Import[i].Table)
		if table == nil || !slices.ContainsFunc(u.Import[i].Networks, func(name string) bool { return m.within(name, dst) }) {
			continue
		}
		if what := m.reserved(dst); what != "" {
			return nil, "overlaps " + what
		}
		return table, ""
	}
	return nil, "in no network that is imported"
}

// within reports whether a prefix is one of a network or lies in one of it.
func (m *maker) within(network string, p netip.Prefix) bool {
	return slices.ContainsFunc(m.cfg.Network(network), func(n netip.Prefix) bool { return n.Bits() <= p.Bits() && n.Contains(p.Addr()) })
}

// importHop says why the next hop of an import cannot be used; "" when it can. It
// need not be the router that says so, but a host on that link.
func (m *maker) importHop(link string, f routing.Family, hop netip.Addr) string {
	switch {
	case !hop.IsValid():
		return "no next hop"
	case hop.Is4In6():
		return "next hop " + hop.String() + " is a mapped address"
	case routing.FamilyOf(hop) != f:
		return "next hop " + hop.String() + " is of the other family"
	case hop.IsLinkLocalUnicast():
		return "next hop " + hop.String() + " is a link-local address"
	}
	return m.hopProblem(link, hop)
}

// takeImport plans an imported route, or says who has its place. Of two routers
// that announce one prefix the first configured counts.
func (m *maker) takeImport(r routing.Route) string {
	at, ok := m.place(r)
	switch {
	case ok:
		return ""
	case at == none:
		return "another route has its place"
	}
	if first := m.plan.Routes[at]; first.Via != r.Via || first.Link != r.Link {
		return "announced by another router too, by way of " + first.Via.String()
	}
	return ""
}
