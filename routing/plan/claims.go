package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// claim is a node's word that a pod CIDR is its own.
type claim struct {
	prefix netip.Prefix
	node   int // index into the inventory
}

// claims are all pod CIDRs of the inventory, and those that were refused
// because another node holds the same addresses.
type claims struct {
	sorted  []claim // by prefix: address, then length
	refused map[claim]bool
	lengths routing.PerFamily[[129]bool] // that there are
}

// settleClaims decides who owns which pod CIDR. Where two nodes claim the same
// addresses the present holder, by what the kernel shows, keeps them and the
// newcomer is refused: a typing mistake in one node must not move another's
// traffic. Two routes of one CIDR are never installed together.
func (m *maker) settleClaims() claims {
	var cs claims
	cs.sorted = make([]claim, 0, 2*len(m.nodes))
	for _, f := range routing.Families { // nearly sorted is sorted soonest
		cs.gather(m, f)
	}
	slices.SortFunc(cs.sorted, func(a, b claim) int {
		if c := a.prefix.Addr().Compare(b.prefix.Addr()); c != 0 {
			return c
		}
		return cmp.Or(a.prefix.Bits()-b.prefix.Bits(), a.node-b.node)
	})
	for start := 0; start < len(cs.sorted); {
		end, contested := cs.group(start)
		if contested {
			m.settleGroup(&cs, cs.sorted[start:end])
		}
		start = end
	}
	return cs
}

// gather collects the claims of one family.
func (cs *claims) gather(m *maker, f routing.Family) {
	lengths := &cs.lengths.IPv4
	if f == routing.IPv6 {
		lengths = &cs.lengths.IPv6
	}
	for i := range m.nodes {
		for _, p := range m.nodes[i].PodCIDRs {
			switch {
			case routing.FamilyOf(p.Addr()) != f:
			case p.Bits() < 1: // every other node's claim would be inside it
				cs.refuse(claim{p, i})
				m.condition("node/"+m.nodes[i].Name, "PodCIDRRefused", "%s is no pod CIDR", p)
			default:
				cs.sorted = append(cs.sorted, claim{p, i})
				lengths[p.Bits()] = true
			}
		}
	}
}

// group returns the end of the run of claims inside the prefix at start, and
// whether more than one node is in it.
func (cs *claims) group(start int) (end int, contested bool) {
	top := cs.sorted[start]
	end = start + 1
	for end < len(cs.sorted) && top.prefix.Contains(cs.sorted[end].prefix.Addr()) {
		contested = contested || cs.sorted[end].node != top.node
		end++
	}
	return end, contested
}

// settleGroup accepts the claims of present holders first, by what the kernel
// shows and then by what the ledger remembers, then the others by name; each
// only where no other node's accepted claim overlaps.
func (m *maker) settleGroup(cs *claims, group []claim) {
	rank := make(map[claim]int, len(group))
	for _, c := range group {
		switch {
		case m.holds(c):
		case m.in.Ledger.Holders[c.prefix] == m.nodes[c.node].Name:
			rank[c] = 1
		default:
			rank[c] = 2
		}
	}
	order := slices.Clone(group)
	slices.SortStableFunc(order, func(a, b claim) int { return cmp.Or(rank[a]-rank[b], a.node-b.node) })
	accepted := make(map[claim]bool, len(group))
	for _, c := range order {
		rival, contested := overlapping(group, accepted, c)
		if !contested {
			accepted[c] = true
			m.remember(c)
			continue
		}
		cs.refuse(c)
		m.condition("node/"+m.nodes[c.node].Name, "PodCIDRConflict", "pod CIDR %s is refused: node %s holds %s",
			c.prefix, m.nodes[rival.node].Name, rival.prefix)
	}
}

func (cs *claims) refuse(c claim) {
	if cs.refused == nil {
		cs.refused = make(map[claim]bool)
	}
	cs.refused[c] = true
}

// overlapping finds an accepted claim of another node that shares addresses
// with c. The group is sorted, so that those inside c follow it directly.
func overlapping(group []claim, accepted map[claim]bool, c claim) (claim, bool) {
	at, _ := slices.BinarySearchFunc(group, c, func(a, b claim) int {
		return cmp.Or(a.prefix.Addr().Compare(b.prefix.Addr()), a.prefix.Bits()-b.prefix.Bits())
	})
	for _, o := range group[at:] {
		if !c.prefix.Contains(o.prefix.Addr()) {
			break
		}
		if o.node != c.node && accepted[o] {
			return o, true
		}
	}
	for _, o := range group[:at] {
		if o.node != c.node && o.prefix.Contains(c.prefix.Addr()) && accepted[o] {
			return o, true
		}
	}
	return claim{}, false
}

// remember keeps who holds a contested pod CIDR for the ledger.
func (m *maker) remember(c claim) {
	if m.plan.Holders == nil {
		m.plan.Holders = make(map[netip.Prefix]string)
	}
	m.plan.Holders[c.prefix] = m.nodes[c.node].Name
}

// holds reports whether the kernel shows the node as the holder of its claim,
// in any of our tables.
func (m *maker) holds(c claim) bool {
	f := routing.FamilyOf(c.prefix.Addr())
	for i := range m.cfg.Tables {
		t := &m.cfg.Tables[i]
		for _, metric := range [...]uint32{routing.MetricPath, routing.MetricFallback} {
			r, ok := m.installed(packed(t.ID, c.prefix, metric))
			switch {
			case !ok:
			case c.node != m.at:
				if m.isHop(t, c.node, f, r.Via) {
					return true
				}
			case t.Routes.Own != nil && metric == routing.MetricPath && !r.Via.IsValid():
				return true
			}
		}
	}
	return false
}

// isHop reports whether a next hop in a table is the node's.
func (m *maker) isHop(t *routing.Table, node int, f routing.Family, via netip.Addr) bool {
	p := t.Routes.Peers
	if p == nil || !via.IsValid() {
		return false
	}
	a, _ := m.nodeAddress(node, p.NextHop, p.Link, f)
	if a == via {
		return true
	}
	if p.Fallback.Link == "" {
		return false
	}
	a, _ = m.nodeAddress(node, p.Fallback.NextHop, p.Fallback.Link, f)
	return a == via
}

// of reports whether a prefix is assigned to the node and not contested.
func (cs *claims) of(node int, p netip.Prefix) bool { return !cs.refused[claim{p, node}] }

// other returns a node that has addresses of the prefix, other than the given one.
func (cs *claims) other(node int, p netip.Prefix) (int, bool) {
	at, _ := slices.BinarySearchFunc(cs.sorted, p, func(c claim, p netip.Prefix) int {
		return cmp.Or(c.prefix.Addr().Compare(p.Addr()), c.prefix.Bits()-p.Bits())
	})
	for i := at; i < len(cs.sorted) && p.Contains(cs.sorted[i].prefix.Addr()); i++ {
		if cs.sorted[i].node != node && !cs.refused[cs.sorted[i]] {
			return cs.sorted[i].node, true
		}
	}
	lengths := cs.lengths.Of(routing.FamilyOf(p.Addr()))
	for bits := p.Bits() - 1; bits >= 0; bits-- {
		if !lengths[bits] {
			continue
		}
		wider, err := p.Addr().Prefix(bits)
		if err != nil {
			break
		}
		at, found := slices.BinarySearchFunc(cs.sorted, wider, func(c claim, p netip.Prefix) int {
			return cmp.Or(c.prefix.Addr().Compare(p.Addr()), c.prefix.Bits()-p.Bits())
		})
		for i := at; found && i < len(cs.sorted) && cs.sorted[i].prefix == wider; i++ {
			if cs.sorted[i].node != node && !cs.refused[cs.sorted[i]] {
				return cs.sorted[i].node, true
			}
		}
	}
	return 0, false
}
