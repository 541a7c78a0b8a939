package plan

import (
	"fmt"
	"net/netip"

	"netclass.dev/routing"
)

// refusalsKept bounds how many refused paths of one peer are kept to be shown.
const refusalsKept = 100

// peers plans the pod CIDRs of the other nodes: the class path where the peer
// is known to take packets on the class link, and the fallback beside it, so
// that the kernel has the second the moment it loses the first.
func (m *maker) peers(t *routing.Table, wait func(what, why string)) {
	p := t.Routes.Peers
	if p == nil {
		return
	}
	tally := m.tally(p.Link)
	usable := make(map[routing.Family]string)
	for _, f := range routing.Families {
		if ok, why := m.usable(p.Link, f); !ok {
			usable[f] = why
		}
	}
	for i := range m.in.Inventory.Nodes {
		n := &m.in.Inventory.Nodes[i]
		if n.Name == m.in.Node {
			continue
		}
		if p.Learn == routing.LearnBGP {
			m.learned(t, p, i, usable, tally)
		}
		for _, dst := range n.PodCIDRs {
			if !m.claims.of(i, dst) {
				continue
			}
			f := routing.FamilyOf(dst.Addr())
			tally.peers++
			if p.Learn == routing.LearnNodes {
				if m.pathTo(t, p, n, dst, usable[f], wait) {
					tally.separated++
				}
			} else if holder, ok := m.holders[routing.RouteKey{Table: t.ID, Dst: dst, Metric: routing.MetricPath}]; ok && holder == n.Name {
				tally.separated++
			}
			if m.fallback(t, p, n, dst, wait) {
				tally.fallback++
			}
		}
	}
}

func (m *maker) tally(link string) *tally {
	if m.tallies[link] == nil {
		m.tallies[link] = &tally{}
	}
	return m.tallies[link]
}

// pathTo plans the class path of one CIDR straight from the inventory.
func (m *maker) pathTo(t *routing.Table, p *routing.Peers, n *routing.Node, dst netip.Prefix, down string, wait func(what, why string)) bool {
	f := routing.FamilyOf(dst.Addr())
	hop, why := m.nodeAddress(n, p.NextHop, p.Link, f)
	if why == "" {
		why = down
	}
	if why == "" && !p.OnLink && !m.onLink(p.Link, hop) {
		why = fmt.Sprintf("next hop %s is in no network of %s", hop, p.Link)
	}
	if why != "" {
		wait("path to "+dst.String(), why)
		return false
	}
	return m.classPath(t, p, n.Name, dst, hop)
}

// classPath plans one class path. Where two peers may have one prefix the
// present holder keeps it, and there is never more than one.
func (m *maker) classPath(t *routing.Table, p *routing.Peers, node string, dst netip.Prefix, hop netip.Addr) bool {
	r := routing.Route{
		Table: t.ID, Dst: dst, Metric: routing.MetricPath,
		Via: hop, Link: p.Link, OnLink: p.OnLink, MTU: p.MTU,
	}
	if !m.add(r) {
		return false
	}
	m.holders[r.Key()] = node
	return true
}

// fallback plans the second route of a CIDR, by the node's InternalIP.
func (m *maker) fallback(t *routing.Table, p *routing.Peers, n *routing.Node, dst netip.Prefix, wait func(what, why string)) bool {
	if p.Fallback.None() {
		return false
	}
	r := routing.Route{Table: t.ID, Dst: dst, Metric: routing.MetricFallback}
	if p.Fallback.Main {
		r.Type = routing.Throw
		return m.add(r)
	}
	f := routing.FamilyOf(dst.Addr())
	hop, why := m.nodeAddress(n, p.Fallback.NextHop, p.Fallback.Link, f)
	if ok, down := m.usable(p.Fallback.Link, f); why == "" && !ok {
		why = down
	}
	if why == "" && !m.onLink(p.Fallback.Link, hop) {
		why = fmt.Sprintf("next hop %s is in no network of %s", hop, p.Fallback.Link)
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
func (m *maker) learned(t *routing.Table, p *routing.Peers, at int, down map[routing.Family]string, tally *tally) {
	n := &m.in.Inventory.Nodes[at]
	for _, f := range routing.Families {
		key := routing.SessionKey{Peer: n.Name, Family: f}
		status := m.peerStatus(key)
		hop, why := m.nodeAddress(n, p.NextHop, p.Link, f)
		if why == "" && !p.OnLink && !m.onLink(p.Link, hop) {
			why = fmt.Sprintf("next hop %s is in no network of %s", hop, p.Link)
		}
		peering := m.peerings[key]
		if peering != nil {
			for _, path := range peering.Paths {
				reason := m.refuse(p, at, f, path)
				if reason == "" {
					reason = why
				}
				if reason == "" {
					if down[f] == "" {
						reason = m.take(t, p, n.Name, path.Prefix, hop)
					}
				}
				status.note(path, reason)
			}
		}
		if why == "" && down[f] == "" && (peering == nil || !peering.Synced) {
			m.adopt(t, p, at, f, hop)
		}
	}
}

// take plans the class path of an accepted prefix, or says who has it.
func (m *maker) take(t *routing.Table, p *routing.Peers, node string, dst netip.Prefix, hop netip.Addr) string {
	key := routing.RouteKey{Table: t.ID, Dst: dst, Metric: routing.MetricPath}
	holder, held := m.holders[key]
	switch {
	case !held:
		if !m.classPath(t, p, node, dst, hop) {
			return "another route has its place"
		}
		return ""
	case holder == node:
		return ""
	}
	if r, ok := m.installed(key); ok && r.Via == hop {
		for i := range m.plan.Routes {
			if m.plan.Routes[i].Key() == key {
				m.plan.Routes[i].Via = hop
			}
		}
		m.holders[key] = node
		return ""
	}
	return "announced by " + holder + " too, which holds it"
}

// adopt keeps the class paths that the kernel has of a peer that has not said
// all yet: after a restart, what the kernel holds stands in for it.
func (m *maker) adopt(t *routing.Table, p *routing.Peers, at int, f routing.Family, hop netip.Addr) {
	n := &m.in.Inventory.Nodes[at]
	for _, dst := range n.PodCIDRs {
		key := routing.RouteKey{Table: t.ID, Dst: dst, Metric: routing.MetricPath}
		if routing.FamilyOf(dst.Addr()) != f || !m.claims.of(at, dst) || m.holders[key] != "" {
			continue
		}
		if r, ok := m.installed(key); ok && r.Via == hop && r.Link == p.Link {
			m.classPath(t, p, n.Name, dst, hop)
		}
	}
}

// refuse says why a path is not acceptable from a node; "" when it is.
func (m *maker) refuse(p *routing.Peers, at int, f routing.Family, path routing.Path) string {
	n := &m.in.Inventory.Nodes[at]
	dst := path.Prefix
	switch {
	case routing.FamilyOf(dst.Addr()) != f:
		return "prefix of the other family"
	case dst.Bits() == 0:
		return "a default route is never accepted"
	case path.NextHop.Is4In6():
		return "next hop " + path.NextHop.String() + " is a mapped address"
	}
	if session, why := m.nodeAddress(n, m.cfg.BGP.Mesh.Address, m.cfg.BGP.Mesh.Link, f); why == "" && path.NextHop != session {
		return fmt.Sprintf("next hop %s is not the peer's address %s", path.NextHop, session)
	}
	for _, own := range n.PodCIDRs {
		if own == dst {
			if m.claims.of(at, dst) {
				return ""
			}
			return "assigned to another node too, which holds it"
		}
	}
	if other, ok := m.claims.other(at, dst); ok {
		return "assigned to " + m.in.Inventory.Nodes[other].Name
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

// peerStatus returns the status of a session, made when first asked for.
func (m *maker) peerStatus(key routing.SessionKey) *peerStatus {
	i, ok := m.speaks[key]
	if !ok {
		i = len(m.plan.Peers)
		m.speaks[key] = i
		m.plan.Peers = append(m.plan.Peers, routing.PeerStatus{Neighbor: routing.Neighbor{Key: key}})
	}
	return (*peerStatus)(&m.plan.Peers[i])
}

type peerStatus routing.PeerStatus

// note records what became of a path.
func (s *peerStatus) note(path routing.Path, reason string) {
	if reason == "" {
		s.Accepted = append(s.Accepted, path)
		return
	}
	s.RefusedCount++
	if len(s.Refused) < refusalsKept {
		s.Refused = append(s.Refused, routing.Refusal{Path: path, Reason: reason})
	}
}
