package promise

import (
	"fmt"
	"net/netip"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// outcomes translates the model's actions.
var outcomes = map[fib.Action]routing.Outcome{
	fib.NoRoute: routing.OutcomeNoRoute, fib.Forward: routing.OutcomeForward, fib.Local: routing.OutcomeLocal,
	fib.Unreachable: routing.OutcomeUnreachable, fib.Blackhole: routing.OutcomeBlackhole, fib.Prohibit: routing.OutcomeProhibit,
}

// answer gives the model's result the form of the kernel's answer.
func (v *View) answer(r fib.Result) routing.Answer {
	a := routing.Answer{Outcome: outcomes[r.Action], Table: r.Route.Table}
	if r.Action == fib.Forward || r.Action == fib.Local {
		a.Link, a.Via, a.Src, a.MTU = r.Route.Link, r.Route.Via, r.Route.Src, r.Route.MTU
	}
	return a
}

// disagreement says how the kernel's answer is another than its rules and routes
// give, as far as the kernel tells; empty: it is not.
//
// The kernel says ENETUNREACH for a rule of type unreachable as for no route. It
// ignores routes without carrier where a sysctl says so, which the picture does
// not show. What rules with selectors that are not modelled do, and which next
// hop of several is taken, nobody can say.
func (v *View) disagreement(flow routing.Flow, r fib.Result, kernel routing.Answer) string {
	if agree(r, kernel) || v.unsure(flow, r) {
		return ""
	}
	if slices.ContainsFunc(v.Kernel.Links, func(l routing.Link) bool { return l.Up && !l.Carrier }) &&
		agree(v.carrier().Lookup(fib.Flow(flow), fib.Stack), kernel) {
		return ""
	}
	said := fmt.Sprintf("the kernel answers %s", kernel)
	if kernel.Code != "" && kernel.Outcome != routing.OutcomeNoAnswer {
		said += " (" + kernel.Code + ")"
	}
	said += fmt.Sprintf(", its rules and routes give %s", v.answer(r))
	if flow.IIF != "" && r.Action == fib.Forward {
		switch kernel.Code {
		case "EHOSTUNREACH":
			said += "; is forwarding on for " + flow.IIF + "?"
		case "EINVAL":
			said += "; is rp_filter strict on " + flow.IIF + ", or the source one of this node's own?"
		}
	}
	return said
}

// outcome is what the kernel answers by the model: of a rule of type unreachable it
// says what it says of no route.
func outcome(r *fib.Result) routing.Outcome {
	if !r.Route.Dst.IsValid() && r.Action == fib.Unreachable {
		return routing.OutcomeNoRoute
	}
	return outcomes[r.Action]
}

func agree(r fib.Result, k routing.Answer) bool {
	want := outcome(&r)
	if k.Outcome == routing.OutcomeNoAnswer {
		return false
	}
	if k.Outcome != want {
		return false
	}
	return want != routing.OutcomeForward || k.Link == r.Route.Link && k.Via == r.Route.Via
}

// unsure reports whether the model cannot know: a rule on the way has selectors
// that it does not know, or a route has several next hops.
func (v *View) unsure(flow routing.Flow, r fib.Result) bool {
	if r.Route.Multipath {
		return true
	}
	for i := range v.Kernel.Rules {
		rule := &v.Kernel.Rules[i]
		if (rule.Opaque || rule.L3MDev) && rule.Family == routing.FamilyOf(flow.Dst) && (r.Rule.Family == 0 || rule.Priority <= r.Rule.Priority) {
			return true
		}
	}
	return false
}

// judgement is what an answer means for a promise.
type judgement struct {
	verdict routing.Verdict
	reason  string
	// due reports that there should have been a way, so that being unreachable is
	// a fault.
	due bool
}

// judge says what an answer means for a flow of a class.
func (v *View) judge(c *routing.Class, flow routing.Flow, a routing.Answer, model fib.Result) judgement {
	inside := !v.beyond(flow.Dst)
	if inside {
		if why := v.router(flow, a, &model); why != "" {
			return judgement{routing.VerdictWrongLink, why, true}
		}
	}
	switch {
	case a.Outcome == routing.OutcomeForward && a.Link == c.Link:
		return judgement{verdict: routing.VerdictOK}
	case a.Outcome == routing.OutcomeLocal:
		return judgement{routing.VerdictWrongLink, "it is delivered on this node" + by(&model, a), true}
	}
	if why := v.misled(c, a, &model); why != "" {
		return judgement{routing.VerdictWrongLink, why, true}
	}
	want := v.intended().Lookup(fib.Flow(flow), fib.Stack)
	due := want.Action == fib.Forward
	switch {
	case a.Outcome != routing.OutcomeForward && due:
		return judgement{routing.VerdictUnreachable, fmt.Sprintf("%s%s, where %s is planned", a, by(&model, a), v.answer(want)), true}
	case a.Outcome != routing.OutcomeForward:
		return judgement{routing.VerdictUnreachable, v.away(c, flow.Dst, a, by(&model, a)), false}
	case due && want.Route.Link == c.Link:
		return judgement{routing.VerdictWrongLink, fmt.Sprintf("leaves by %s, not %s%s", a, c.Link, by(&model, a)), true}
	case due && want.Route.Link != a.Link:
		return judgement{routing.VerdictWrongLink, fmt.Sprintf("leaves by %s, where %s is planned%s", a, v.answer(want), by(&model, a)), true}
	case v.passedOver(c, flow):
		return judgement{routing.VerdictWrongLink, fmt.Sprintf("leaves by %s, not %s%s", a, c.Link, by(&model, a)), true}
	}
	return judgement{routing.VerdictShared, v.away(c, flow.Dst, a, by(&model, a)), false}
}

// passedOver reports whether main has a way by the class's link and prefers
// another.
func (v *View) passedOver(c *routing.Class, flow routing.Flow) bool {
	r := v.fib.Trace(fib.Flow(flow), fib.Stack)
	if r.Route.Table != routing.MainID || len(r.Steps) == 0 {
		return false
	}
	return slices.ContainsFunc(r.Steps[len(r.Steps)-1].Beat, func(b routing.Route) bool {
		return b.Type == routing.Unicast && b.Link == c.Link && !b.Dead && !b.LinkDown && v.links[b.Link].Usable()
	})
}

// away says why a class's own path is not there.
func (v *View) away(c *routing.Class, dst netip.Addr, a routing.Answer, decided string) string {
	said := a.String()
	if a.Outcome == routing.OutcomeForward {
		said = "leaves by " + said
	}
	switch l := v.links[c.Link]; {
	case v.drained(c):
		return said + ": a drain of this node has taken it off " + c.Link
	case l == nil:
		return said + ": link " + c.Link + " does not exist"
	case !l.Up:
		return said + ": link " + c.Link + " is down"
	case !l.Carrier:
		return said + ": link " + c.Link + " has no carrier"
	}
	if peer := v.drainedPeer(dst); peer != "" {
		return said + ": " + peer + " is " + v.Plan.DrainPhase(peer).Doing()
	}
	return said + ": there is no path by " + c.Link + decided
}

// drained reports whether a drain of this node takes a class out.
func (v *View) drained(c *routing.Class) bool {
	return slices.ContainsFunc(v.Plan.Classes, func(st routing.ClassStatus) bool {
		return st.Class.Name == c.Name && st.Health.TakenOut()
	})
}

// drainedPeer names the other node whose pod has an address, if it is drained or on its
// way there or back; empty: it is not.
func (v *View) drainedPeer(a netip.Addr) string {
	for _, n := range v.peers {
		if within(n.PodCIDRs, a) && slices.Contains(v.Plan.Drained, n.Name) {
			return n.Name
		}
	}
	return ""
}

// by names the rule that sent a packet where it goes.
func by(model *fib.Result, a routing.Answer) string {
	if model.Rule.Family == 0 || outcome(model) != a.Outcome && outcomes[model.Action] != a.Outcome || model.Route.Link != a.Link {
		return ""
	}
	return " (rule " + model.Rule.String() + ")"
}

// router says how an answer carries a packet of the cluster to a router; empty:
// it does not. It does when the next hop is a gateway that the configuration
// names or that a default route leads to; when the next hop is nobody of the
// cluster and the link may have a router on it; and when, on such a link, the
// destination is taken to be a neighbour without being in the link's network. On
// a class link that carries nothing of the world there is no router.
func (v *View) router(flow routing.Flow, a routing.Answer, model *fib.Result) string {
	if a.Outcome != routing.OutcomeForward {
		return ""
	}
	switch {
	case v.gateways[hopOf(a.Via, a.Link)]:
		return fmt.Sprintf("goes to the router %s on %s%s", a.Via, a.Link, by(model, a))
	case a.Via.IsValid() && (v.nodes[a.Via] != "" || v.own[a.Via] || v.podAddress(a.Via)):
		return ""
	case v.others[hopOf(a.Via, a.Link)]:
		return fmt.Sprintf("goes to the router %s on %s%s", a.Via, a.Link, by(model, a))
	case !v.leadsOut(a.Link) || v.cni(a.Link):
		return ""
	case a.Via.IsValid():
		if v.linkClass(a.Link) == nil && model.Route.Dst.Bits() > 0 {
			return "" // a tunnel's next hop, or the like
		}
		return fmt.Sprintf("goes to %s on %s, which is no node%s", a.Via, a.Link, by(model, a))
	case v.neighbour(a.Link, flow.Dst):
		return ""
	case v.linkClass(a.Link) != nil || model.Route.Dst.Bits() == 0 && model.Route.Link == a.Link:
		return fmt.Sprintf("goes out by %s, where only a router could take it%s", a.Link, by(model, a))
	}
	return ""
}

// translated reports whether this node's packet is to an address that nobody has:
// one of a Service. Its proxy gives it another before it leaves, be it ahead of the
// lookup, so that this one never is, or behind it.
func (v *View) translated(flow routing.Flow) bool {
	own := flow.IIF == "" && (!flow.Src.IsValid() || v.own[flow.Src])
	return own && v.service(flow.Dst)
}

// service reports whether an address may be one of a Service: nobody has it.
func (v *View) service(a netip.Addr) bool {
	return v.nodes[a] == "" && !v.own[a] && slices.ContainsFunc([]string{"services", "loadBalancers"}, func(network string) bool {
		return within(v.Config.Network(network), a)
	})
}

// podAddress reports whether an address is in some node's pod CIDR or in the
// network of pods: a tunnel's other end.
func (v *View) podAddress(a netip.Addr) bool {
	for i := range v.Inventory.Nodes {
		if within(v.Inventory.Nodes[i].PodCIDRs, a) {
			return true
		}
	}
	return false
}

// cni reports whether a link is that of this node's pods.
func (v *View) cni(link string) bool {
	return slices.ContainsFunc(v.Config.Tables, func(t routing.Table) bool { return t.Routes.Own != nil && t.Routes.Own.Link == link })
}

// neighbour reports whether an address is in a network of the link, as it is or
// was last seen.
func (v *View) neighbour(link string, a netip.Addr) bool {
	if l := v.links[link]; l != nil && slices.ContainsFunc(l.Addrs, func(n routing.LinkAddr) bool { return n.Prefix.Contains(a) }) {
		return true
	}
	return within(v.Plan.Links[link], a)
}
