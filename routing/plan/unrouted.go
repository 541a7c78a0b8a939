package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// unrouted finds the pod CIDRs of other nodes that main has no route to, as far as
// the guard covers them: it stops what this node itself sends there. The routes of
// main are the CNI's.
func (m *maker) unrouted() {
	if len(m.guarded) == 0 || m.configured(routing.MainID) || m.asksElsewhere() {
		return
	}
	ways := m.ways()
	var over []netip.Prefix // of ways, each inside the one before, that the place lies in
	next := 0
	pass := func(a netip.Addr) {
		for len(over) > 0 && !over[len(over)-1].Contains(a) {
			over = over[:len(over)-1]
		}
	}
	for _, c := range m.claims.sorted {
		if c.node == m.at || !m.isGuarded(c.prefix) || m.claims.refused[c] {
			continue
		}
		for next < len(ways) && byPlace(ways[next], c.prefix) < 0 {
			pass(ways[next].Addr())
			over = append(over, ways[next])
			next++
		}
		pass(c.prefix.Addr())
		if len(over) > 0 || next < len(ways) && c.prefix.Contains(ways[next].Addr()) {
			continue
		}
		m.plan.Unrouted = append(m.plan.Unrouted, c.prefix)
	}
}

// ways returns the destinations inside the guard that main has a route to, in
// order.
func (m *maker) ways() []netip.Prefix {
	ways := make([]netip.Prefix, 0, len(m.claims.sorted))
	for i := range m.in.Kernel.Routes {
		r := &m.in.Kernel.Routes[i]
		if r.Table == routing.MainID && !r.Type.Reject() && m.isGuarded(r.Dst) {
			ways = append(ways, r.Dst)
		}
	}
	if !slices.IsSortedFunc(ways, byPlace) {
		slices.SortFunc(ways, byPlace)
	}
	return ways
}

// byPlace orders prefixes by address, and the wider ones first.
func byPlace(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits())
}

// isGuarded reports whether a prefix is one of the guard's or lies in one.
func (m *maker) isGuarded(p netip.Prefix) bool {
	for _, g := range m.guarded {
		if g.Bits() <= p.Bits() && g.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

// asksElsewhere reports whether a rule of ours leads what this node itself sends to
// pods to another table than main.
func (m *maker) asksElsewhere() bool {
	return slices.ContainsFunc(m.plan.Rules, func(r routing.Rule) bool {
		return r.Action == routing.ActionLookup && r.Table != routing.MainID && !r.From.IsValid() && r.IIF == "" &&
			r.To.IsValid() && slices.ContainsFunc(m.guarded, r.To.Overlaps)
	})
}
