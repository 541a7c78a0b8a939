package plan

import (
	"cmp"
	"slices"

	"netclass.dev/routing"
)

// Diff returns the ops that make the kernel what the plan wants, in the order of
// their stages. It looks only at what is ours, and while the plan holds it
// deletes nothing.
func Diff(p *routing.Plan, k *routing.Kernel) []routing.Op {
	ops := diffRoutes(nil, p, k)
	ops = diffRules(ops, p, k)
	slices.SortFunc(ops, func(a, b routing.Op) int { return order(&a, &b) })
	return ops
}

func diffRoutes(ops []routing.Op, p *routing.Plan, k *routing.Kernel) []routing.Op {
	wanted := make(map[key]int, len(p.Routes))
	for i := range p.Routes {
		wanted[keyOf(&p.Routes[i])] = i
	}
	const (
		missing = iota
		stale   // ours is at the key, but another
		present
	)
	state := make([]uint8, len(p.Routes))
	found, twins := 0, false
	opens := opening(p, k)
	for i := range k.Routes {
		r := &k.Routes[i]
		if !p.Own.HasRoute(r) {
			continue
		}
		at, ok := wanted[keyOf(r)]
		if ok {
			if state[at] == missing {
				found++
			} else {
				twins = true
			}
		}
		switch {
		case ok && *r == p.Routes[at] || ok && r.Wanted() == p.Routes[at]:
			state[at] = present
		case ok:
			state[at] = max(state[at], stale)
		case p.Hold == "" || slices.Contains(p.Unsafe, r.Key()):
			ops = append(ops, routing.Op{Stage: dropStage(p, r, opens), Verb: routing.Delete, Route: r.Wanted()})
		}
	}
	ops = slices.Grow(ops, len(p.Routes)-found)
	for i, s := range state {
		r := p.Routes[i]
		switch s {
		case missing:
			ops = append(ops, routing.Op{Stage: routing.RouteStage(r), Verb: routing.Add, Route: r})
		case stale:
			ops = append(ops, routing.Op{Stage: routing.RouteStage(r), Verb: routing.Replace, Route: r})
		}
	}
	if p.Hold != "" || !twins {
		return ops
	}
	return dropTwins(ops, p, k, wanted, func(at int) bool { return state[at] == present })
}

// opening returns the tables that no rule leads to yet, but one is about to.
func opening(p *routing.Plan, k *routing.Kernel) map[routing.TableID]bool {
	opens := make(map[routing.TableID]bool)
	for _, r := range p.Rules {
		if r.Action == routing.ActionLookup {
			opens[r.Table] = true
		}
	}
	for _, r := range k.Rules {
		if r.Action == routing.ActionLookup {
			delete(opens, r.Table)
		}
	}
	return opens
}

// dropStage is when a route is deleted: after everything new is in; but where no
// packet comes along yet, before the first does. What is to go could stop it, as a
// fence that the configuration no longer asks for. The default goes before all
// others all the same. An import always goes as soon as the fence is whole, without
// which the default would take its place: what it leads to a router may have become
// the cluster's own.
func dropStage(p *routing.Plan, r *routing.Route, opens map[routing.TableID]bool) routing.Stage {
	switch {
	case r.Metric == routing.MetricImport:
		return routing.StageBase
	case !opens[r.Table] || p.Own.Adopts(r):
		return routing.DropStage(routing.RouteStage(*r))
	case r.Dst.Bits() == 0:
		return routing.StageGuard
	}
	return routing.StagePeers
}

// dropTwins deletes what stands beside a route that is as it should be: IPv6
// lets two routes of ours share one prefix and metric, and would use both.
func dropTwins(ops []routing.Op, p *routing.Plan, k *routing.Kernel, wanted map[key]int, present func(int) bool) []routing.Op {
	for i := range k.Routes {
		r := &k.Routes[i]
		if r.Family() != routing.IPv6 || !p.Own.HasRoute(r) {
			continue
		}
		if at, ok := wanted[keyOf(r)]; ok && present(at) && r.Wanted() != p.Routes[at] {
			ops = append(ops, routing.Op{Stage: routing.DropStage(routing.RouteStage(*r)), Verb: routing.Delete, Route: r.Wanted()})
		}
	}
	return ops
}

func diffRules(ops []routing.Op, p *routing.Plan, k *routing.Kernel) []routing.Op {
	wanted := make(map[routing.Rule]bool, len(p.Rules))
	for _, r := range p.Rules {
		wanted[r] = true
	}
	for _, r := range k.Rules {
		if !p.Own.HasRule(&r) {
			continue
		}
		if wanted[r] {
			delete(wanted, r)
			continue
		}
		if p.Hold == "" || halfGuard(&r, p, k) {
			ops = append(ops, routing.Op{Stage: routing.DropStage(routing.RuleStage(r)), Verb: routing.Delete, Rule: r})
		}
	}
	for _, r := range p.Rules {
		if wanted[r] {
			ops = append(ops, routing.Op{Stage: routing.RuleStage(r), Verb: routing.Add, Rule: r})
		}
	}
	return ops
}

// halfGuard reports whether a rule is the second half of a guard whose first
// somebody has taken out. It must go even while held: alone it cuts off what
// main delivers.
func halfGuard(r *routing.Rule, p *routing.Plan, k *routing.Kernel) bool {
	if routing.RuleStage(*r) != routing.StageGuard {
		return false
	}
	return !slices.ContainsFunc(k.Rules, func(o routing.Rule) bool {
		return p.Own.HasRule(&o) && o.Family == r.Family && o.To == r.To && routing.RuleStage(o) == routing.StageGuardLookup
	})
}

// Flush returns the ops that take everything of ours out, in safe order.
func Flush(own routing.Ownership, k *routing.Kernel) []routing.Op {
	return Diff(&routing.Plan{Own: own}, k)
}

// order sorts ops by stage and, so that a plan always reads the same, by what
// they change. Rules come in from the first to be matched on and go out from the
// last: an exception is there before what it is an exception from, and after.
func order(a, b *routing.Op) int {
	if c := int(a.Stage) - int(b.Stage); c != 0 {
		return c
	}
	if a.IsRule() != b.IsRule() {
		if a.IsRule() {
			return 1
		}
		return -1
	}
	if !a.IsRule() {
		return orderRoutes(a, b)
	}
	if a.Verb == routing.Delete {
		a, b = b, a
	}
	return orderRules(&a.Rule, &b.Rule)
}

func orderRoutes(x, y *routing.Op) int {
	a, b := &x.Route, &y.Route
	if c := cmp.Compare(a.Table, b.Table); c != 0 {
		return c
	}
	if c := a.Dst.Addr().Compare(b.Dst.Addr()); c != 0 {
		return c
	}
	if a.Dst.Bits() == 0 && b.Dst.Bits() == 0 && x.Verb == routing.Delete && y.Verb == routing.Delete && a.Metric != b.Metric {
		return cmp.Compare(b.Metric, a.Metric) // what keeps the default's place must not be left alone in it
	}
	return cmp.Or(
		a.Dst.Bits()-b.Dst.Bits(),
		cmp.Compare(a.Metric, b.Metric),
		a.Via.Compare(b.Via),
		cmp.Compare(a.Link, b.Link),
	)
}

func orderRules(a, b *routing.Rule) int {
	return cmp.Or(
		int(a.Family)-int(b.Family),
		cmp.Compare(a.Priority, b.Priority),
		a.From.Compare(b.From),
		a.To.Compare(b.To),
		cmp.Compare(a.IIF, b.IIF),
		cmp.Compare(a.Table, b.Table),
		int(a.Protocol)-int(b.Protocol),
	)
}
