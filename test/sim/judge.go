package sim

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

const ours = routing.ProtocolNetclass

// isGuard tells a guard by what it is, whatever stage it claims.
func isGuard(op routing.Op) bool {
	if op.IsRule() {
		return op.Rule.SuppressPrefixLen != routing.NoSuppress || op.Rule.Action == routing.ActionUnreachable && op.Rule.IIF == ""
	}
	return op.Route.Table == routing.MainID && op.Route.Metric == routing.MetricGuard
}

// before judges a change by what the daemon knows when it makes it.
func (h *hand) before(op routing.Op) {
	w := h.w
	if why := w.foreignTouched(op); why != "" {
		w.violated(4, "%s: %s", op, why)
	}
	if op.Verb == routing.Delete && !h.flush && (!h.synced || !h.seen) && !h.unsafe(op) {
		w.violated(5, "%s before the inventory has been read, or has this node", op)
	}
	f := op.Family()
	if op.Verb == routing.Delete {
		switch {
		case isGuard(op):
			h.pass.guardOut[f] = true
			if missing, is := h.missingGuard(f); is && !h.flush {
				w.violated(7, "%s while the guard of %s is not in", op, missing)
			}
		case h.pass.guardOut[f]:
			w.violated(7, "%s after a guard was taken out", op)
		}
	}
	if op.Verb != routing.Delete && !isGuard(op) {
		if missing, is := h.missingGuard(f); is {
			w.violated(1, "%s before the guard of %s", op, missing)
		}
	}
	h.debtFirst(op)
	w.withdrawnFirst(op)
}

// unsafe reports whether a change takes out a default whose fence cannot be
// completed: that must not wait for the inventory.
func (h *hand) unsafe(op routing.Op) bool {
	if op.IsRule() {
		// Half a guard cuts off what main delivers.
		return isGuard(op) && op.Rule.SuppressPrefixLen == routing.NoSuppress && !slices.ContainsFunc(h.picture.Rules, func(r routing.Rule) bool {
			return r.Protocol == ours && r.To == op.Rule.To && r.SuppressPrefixLen != routing.NoSuppress
		})
	}
	if op.Route.Dst.Bits() > 0 {
		return false
	}
	if op.Route.Table != h.w.inForce.Tables[0].ID {
		// A table of an earlier configuration: nothing mends its fence.
		_, fences := h.w.demands(h.picture, op.Family())
		return slices.ContainsFunc(fences[h.w.inForce.Tables[0].ID], func(net netip.Prefix) bool { return !fenced(h.picture, op.Route.Table, net) })
	}
	for r := range h.pass.refused {
		if key, is := r.(routing.RouteKey); is && key.Metric == routing.MetricFence && key.Table == op.Route.Table && routing.FamilyOf(key.Dst.Addr()) == op.Family() {
			return true
		}
	}
	if h.w.fighting() {
		return true
	}
	return slices.ContainsFunc(h.picture.Routes, func(r routing.Route) bool {
		return r.Table == op.Route.Table && r.Metric == routing.MetricFence && r.Protocol != ours && r.Family() == op.Family()
	})
}

// missingGuard returns a network that is to be guarded, as far as the daemon can
// know, and is not, though nothing has prevented it.
func (h *hand) missingGuard(f routing.Family) (netip.Prefix, bool) {
	guard, _ := h.w.demands(h.picture, f)
	for _, g := range guard {
		if h.w.guarded(h.picture, g) {
			continue
		}
		key := routing.RouteKey{Table: routing.MainID, Dst: g, Metric: routing.MetricGuard}
		prevented := h.pass.refused[key] || foreignAt(h.picture, key)
		for r := range h.pass.refused {
			// One that is refused stops the second halves of its family.
			if rule, is := r.(routing.Rule); is && rule.Family == f && isGuard(routing.Op{Rule: rule}) {
				prevented = true
			}
		}
		if !prevented {
			return g, true
		}
	}
	return netip.Prefix{}, false
}

// debtFirst demands that a fence that is known to be missing is the first thing
// that is done about its table.
func (h *hand) debtFirst(op routing.Op) {
	f := op.Family()
	_, fences := h.w.demands(h.picture, f)
	nets, is := fences[op.Table()]
	if !is || isGuard(op) || op.IsRule() && op.Verb == routing.Delete || !hasDefault(h.picture, op.Table(), f) {
		return
	}
	if !op.IsRule() && (op.Route.Metric == routing.MetricFence || op.Verb == routing.Delete && op.Route.Dst.Bits() == 0) {
		return
	}
	for _, net := range nets {
		key := routing.RouteKey{Table: op.Table(), Dst: net, Metric: routing.MetricFence}
		if !fenced(h.picture, op.Table(), net) && !h.pass.refused[key] && !foreignAt(h.picture, key) {
			h.w.violated(2, "%s before the fence of %s, though the default is in", op, net)
		}
	}
}

// after judges what a change has made of the kernel.
func (h *hand) after(op routing.Op, before *sight) {
	w := h.w
	f := op.Family()
	now := w.kernel.Picture()
	index := fib.New(now)
	h.follow(op, index)
	if !slices.Equal(before.foreignRoutes, foreignRoutes(now)) || !slices.Equal(before.foreignRules, foreignRules(now)) {
		w.violated(4, "%s changed what is not ours", op)
	}
	if op.Verb != routing.Delete && !op.IsRule() && op.Route.Dst.Bits() == 0 && op.Route.Type == routing.Unicast {
		_, fences := w.demands(h.picture, f)
		for _, net := range fences[op.Route.Table] {
			if !fenced(h.picture, op.Route.Table, net) {
				w.violated(2, "%s without the fence of %s", op, net)
			}
		}
	}
	was := before.wrongs.Of(f)
	is := w.wrongs(now, index, f)
	for x, route := range is {
		if _, old := was[x]; old {
			continue
		}
		if h.flush && x.inv == 1 && isGuard(op) && onlyGuards(now) {
			continue // the last to go
		}
		if h.flush && x.inv == 1 && x.table == 0 && slices.Contains(h.lost, x.net) {
			continue // somebody has taken the guard, and a flush puts nothing back
		}
		// What the world took meanwhile, unknown to the daemon, is no fault of
		// its change.
		if _, guilty := w.wrongs(h.picture, fib.New(h.picture), f)[x]; !guilty {
			continue
		}
		w.violated(x.inv, "after %s: %s by %s", op, x, route)
	}
	before.wrongs.Set(f, is)
	w.sight = before
}

// onlyGuards reports whether nothing of ours but guards is left.
func onlyGuards(k *routing.Kernel) bool {
	for _, r := range k.Routes {
		if r.Protocol == ours && r.Table != strayTable && r.Metric != routing.MetricGuard {
			return false
		}
	}
	for _, r := range k.Rules {
		if r.Protocol == ours && r.Priority != strayPriority && !isGuard(routing.Op{Rule: r}) {
			return false
		}
	}
	return true
}

// foreignTouched says how a change would touch what is not ours.
func (w *world) foreignTouched(op routing.Op) string {
	if op.IsRule() {
		if op.Rule.Protocol != ours || op.Rule.Priority == strayPriority {
			return "a rule that is not ours"
		}
		return ""
	}
	if op.Route.Protocol != ours || op.Route.Table == strayTable {
		return "a route that is not ours"
	}
	return ""
}

func foreignAt(k *routing.Kernel, key routing.RouteKey) bool {
	return slices.ContainsFunc(k.Routes, func(r routing.Route) bool { return r.Key() == key && r.Protocol != ours })
}

// Objects with our protocol number that are nevertheless somebody else's: they
// are in no table and at no priority of ours.
const (
	strayTable    routing.TableID = 99
	strayPriority uint32          = 5000
)

func foreignRoutes(k *routing.Kernel) []routing.Route {
	var rs []routing.Route
	for _, r := range k.Routes {
		if r.Protocol != ours || r.Table == strayTable {
			rs = append(rs, r)
		}
	}
	return rs
}

func foreignRules(k *routing.Kernel) []routing.Rule {
	var rs []routing.Rule
	for _, r := range k.Rules {
		if r.Protocol != ours || r.Priority == strayPriority {
			rs = append(rs, r)
		}
	}
	return rs
}

func hasDefault(k *routing.Kernel, id routing.TableID, f routing.Family) bool {
	return slices.ContainsFunc(k.Routes, func(r routing.Route) bool {
		return r.Table == id && r.Dst == f.Default() && r.Type == routing.Unicast && r.Protocol == ours
	})
}

func fenced(k *routing.Kernel, id routing.TableID, net netip.Prefix) bool {
	return slices.ContainsFunc(k.Routes, func(r routing.Route) bool {
		return r.Table == id && r.Dst == net && r.Metric == routing.MetricFence && r.Type == routing.Unreachable && r.Protocol == ours
	})
}

// guarded reports whether a network's guard is in, as a route or as rules.
func (w *world) guarded(k *routing.Kernel, g netip.Prefix) bool {
	if w.inForce.Guard != nil && w.inForce.Guard.AsRules {
		halves := 0
		for _, r := range k.Rules {
			if r.To == g && r.Protocol == ours && (r.SuppressPrefixLen == g.Bits()-1 || r.Action == routing.ActionUnreachable && r.IIF == "") {
				halves++
			}
		}
		return halves >= 2
	}
	return slices.ContainsFunc(k.Routes, func(r routing.Route) bool {
		return r.Table == routing.MainID && r.Dst == g && r.Metric == routing.MetricGuard && r.Type == routing.Unreachable && r.Protocol == ours
	})
}
