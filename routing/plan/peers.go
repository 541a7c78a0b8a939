package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// peers plans the pod CIDRs of the other nodes: the class path where the peer
// is known to take packets on the class link, and the fallback beside it, so
// that the kernel has the second the moment it loses the first.
func (m *maker) peers(t *routing.Table, wait func(what, why string)) {
	p := t.Routes.Peers
	if p == nil {
		return
	}
	tally := m.tally(p.Link, t.ID)
	usable := make(map[routing.Family]string)
	for _, f := range routing.Families {
		if ok, why := m.usable(p.Link, f); !ok {
			usable[f] = why
		}
	}
	var seconds []bool // of one node's pod CIDRs
	for i := range m.nodes {
		n := &m.nodes[i]
		if i == m.at {
			continue
		}
		if len(n.PodCIDRs) == 0 && p.Accept != routing.AcceptWithin {
			wait("peer "+n.Name, "it has no pod CIDR yet")
		}
		// First, as a drain leaves out a class path only where there is one.
		seconds = seconds[:0]
		for _, dst := range n.PodCIDRs {
			seconds = append(seconds, m.claims.of(i, dst) && m.fallback(t, p, i, dst, wait))
		}
		if p.Learn == routing.LearnBGP {
			m.learned(t, p, i, usable)
		}
		for j, dst := range n.PodCIDRs {
			if !m.claims.of(i, dst) {
				continue
			}
			f := routing.FamilyOf(dst.Addr())
			tally.peers++
			separated, why := false, ""
			if p.Learn == routing.LearnNodes {
				why = m.pathTo(t, p, i, dst, usable[f], wait)
				separated = why == ""
			} else if holder, ok := m.holder(packed(t.ID, dst, routing.MetricPath)); ok {
				separated = holder == i
			}
			switch {
			case separated:
				tally.separated++
				continue
			case seconds[j]:
				tally.fallback++
			}
			tally.miss(missed{i, dst, why})
		}
	}
	m.keptPaths(t, p)
}

// tally returns the count of a class link's peers. Where two tables lead over one
// link the first counts for it.
func (m *maker) tally(link string, table routing.TableID) *tally {
	if m.tallies[link] == nil {
		m.tallies[link] = &tally{table: table}
	}
	if m.tallies[link].table != table {
		return &tally{}
	}
	return m.tallies[link]
}

// pathTo plans the class path of one CIDR straight from the inventory, or says why
// it cannot.
func (m *maker) pathTo(t *routing.Table, p *routing.Peers, node int, dst netip.Prefix, down string, wait func(what, why string)) string {
	hop, why := m.nodeAddress(node, p.NextHop, p.Link, routing.FamilyOf(dst.Addr()))
	if why == "" {
		why = down
	}
	if why == "" {
		why = m.pathProblem(p, hop)
	}
	if why != "" {
		wait("path to "+dst.String(), why)
		return why
	}
	if out := m.leftOut(t, p, node, dst); out != "" {
		return out
	}
	if !m.add(classPath(t, p, dst, hop)) {
		return "another route has its place"
	}
	return ""
}

// pathProblem says why a class path cannot use a next hop; "" when it can. The
// kernel takes no IPv6 next hop for on-link that main leads to by another link,
// unless by a default.
func (m *maker) pathProblem(p *routing.Peers, hop netip.Addr) string {
	if !p.OnLink {
		return m.hopProblem(p.Link, hop)
	}
	if hop.Is6() && !m.onLink(p.Link, hop) {
		for i := range m.in.Kernel.Links {
			if name := m.in.Kernel.Links[i].Name; name != p.Link && m.onLink(name, hop) {
				return "next hop " + hop.String() + " is in a network of " + name + ": the kernel does not take it for on-link on " + p.Link
			}
		}
	}
	return ""
}

// classPath returns the class path of a CIDR.
func classPath(t *routing.Table, p *routing.Peers, dst netip.Prefix, hop netip.Addr) routing.Route {
	return routing.Route{
		Table: t.ID, Dst: dst, Metric: routing.MetricPath,
		Via: hop, Link: p.Link, OnLink: p.OnLink, MTU: p.MTU,
	}
}

// holder returns the node that has the class path at a key in the plan.
func (m *maker) holder(k key) (node int, ok bool) {
	at, ok := m.planned[k]
	if !ok || m.owners[at] == none {
		return 0, false
	}
	return int(m.owners[at]), true
}

// fallback plans the second route of a CIDR, by the node's InternalIP.
func (m *maker) fallback(t *routing.Table, p *routing.Peers, node int, dst netip.Prefix, wait func(what, why string)) bool {
	if p.Fallback.None() {
		return false
	}
	r := routing.Route{Table: t.ID, Dst: dst, Metric: routing.MetricFallback}
	if p.Fallback.Main {
		r.Type = routing.Throw
		return m.add(r)
	}
	f := routing.FamilyOf(dst.Addr())
	hop, why := m.nodeAddress(node, p.Fallback.NextHop, p.Fallback.Link, f)
	if ok, down := m.usable(p.Fallback.Link, f); why == "" && !ok {
		why = down
	}
	if why == "" {
		why = m.hopProblem(p.Fallback.Link, hop)
	}
	if why != "" {
		wait("fallback to "+dst.String(), why)
		return false
	}
	r.Via, r.Link = hop, p.Fallback.Link
	return m.add(r)
}

// learned plans the class paths of one node from what its sessions say, and
// records which paths were accepted and which refused.
func (m *maker) learned(t *routing.Table, p *routing.Peers, node int, down map[routing.Family]string) {
	for _, f := range routing.Families {
		key := routing.SessionKey{Peer: m.nodes[node].Name, Family: f}
		hop, why := m.nodeAddress(node, p.NextHop, p.Link, f)
		if why == "" && down[f] == "" {
			why = m.pathProblem(p, hop)
		}
		peering := m.peerings[key]
		if peering != nil {
			for _, path := range peering.Paths {
				if isMarker(peering, path) {
					continue
				}
				reason := m.refuse(p, node, f, path)
				if reason == "" {
					reason = why
				}
				if reason == "" && down[f] == "" {
					reason = m.take(t, p, node, path.Prefix, hop)
				}
				m.note(t, node, f, path, reason)
			}
		}
		if why == "" && down[f] == "" && (peering == nil || !peering.Synced) {
			m.adopt(t, p, node, hop)
		}
	}
}

// take plans the class path of an accepted prefix, or says who has it. Where two
// nodes announce one prefix the present holder keeps it.
func (m *maker) take(t *routing.Table, p *routing.Peers, node int, dst netip.Prefix, hop netip.Addr) string {
	if m.leftOut(t, p, node, dst) != "" {
		return "" // what it says is right all the same
	}
	r := classPath(t, p, dst, hop)
	at, ok := m.place(r)
	if ok {
		m.owners[at] = int32(node)
		return ""
	}
	if at == none || m.owners[at] == none && !m.sameAs(at, r) {
		return "another route has its place"
	}
	if m.owners[at] == none {
		return ""
	}
	holder := int(m.owners[at])
	if holder == node {
		return ""
	}
	if k, ok := m.installed(keyOf(&r)); ok && k.Via == hop && k.Link == p.Link {
		m.plan.Routes[at].Via = hop
		m.owners[at] = int32(node)
		m.retract(holder, dst, "announced by "+m.nodes[node].Name+" too, which holds it")
		return ""
	}
	return "announced by " + m.nodes[holder].Name + " too, which holds it"
}

// adopt keeps the class paths that the kernel has of a peer that has not said
// all yet: after a restart, what the kernel holds stands in for it.
func (m *maker) adopt(t *routing.Table, p *routing.Peers, node int, hop netip.Addr) {
	for _, dst := range m.installedVia(t.ID, p.Link, hop) {
		if m.refuseOwner(p, node, dst) == "" {
			m.take(t, p, node, dst, hop)
		}
	}
}

// installedVia returns the prefixes that the kernel has a class path of ours for
// by a next hop, or one that we take over.
func (m *maker) installedVia(id routing.TableID, link string, hop netip.Addr) []netip.Prefix {
	if m.via == nil {
		m.via = make(map[nextHop][]netip.Prefix)
		m.eachInstalled(func(_ int, r *routing.Route) {
			if (r.Metric == routing.MetricPath || m.adopts(r)) && r.Via.IsValid() && r.Dst.Bits() > 0 {
				k := nextHop{r.Table, r.Link, r.Via}
				m.via[k] = append(m.via[k], r.Dst)
			}
		})
	}
	return m.via[nextHop{id, link, hop}]
}

// nextHop is where the class paths of a table may lead.
type nextHop struct {
	table routing.TableID
	link  string
	via   netip.Addr
}

// refuse says why a path is not acceptable from a node; "" when it is.
func (m *maker) refuse(p *routing.Peers, node int, f routing.Family, path routing.Path) string {
	dst := path.Prefix
	switch {
	case !dst.IsValid() || dst != dst.Masked():
		return "not a prefix"
	case routing.FamilyOf(dst.Addr()) != f:
		return "prefix of the other family"
	case dst.Bits() == 0:
		return "a default route is never accepted"
	case path.NextHop.Is4In6():
		return "next hop " + path.NextHop.String() + " is a mapped address"
	}
	if b := m.cfg.BGP; b != nil && b.Mesh != nil {
		session, why := m.nodeAddress(node, b.Mesh.Address, b.Mesh.Link, f)
		if why == "" && path.NextHop != session {
			return fmt.Sprintf("next hop %s is not the peer's address %s", path.NextHop, session)
		}
	}
	return m.refuseOwner(p, node, dst)
}

// refuseOwner says why a prefix is not the node's to announce; "" when it is.
func (m *maker) refuseOwner(p *routing.Peers, node int, dst netip.Prefix) string {
	n := &m.nodes[node]
	if slices.Contains(n.PodCIDRs, dst) {
		if m.claims.of(node, dst) {
			return ""
		}
		return "assigned to another node too, which holds it"
	}
	if other, ok := m.claims.other(node, dst); ok {
		return "assigned to " + m.nodes[other].Name
	}
	if p.Accept == routing.AcceptWithin {
		for _, pods := range m.cfg.Network("pods") {
			if pods.Bits() < dst.Bits() && pods.Contains(dst.Addr()) {
				return ""
			}
		}
		return "outside the network pods"
	}
	for _, own := range n.PodCIDRs {
		if own.Contains(dst.Addr()) && own.Bits() < dst.Bits() {
			return "more specific than the assigned " + own.String()
		}
	}
	return "not assigned to " + n.Name
}
