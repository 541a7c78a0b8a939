package promise

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// Explain completes an explanation of Ask with the kernel's answer.
func (v *View) Explain(e *routing.Explanation, kernel routing.Answer) {
	r := v.fib.Trace(fib.Flow(e.Flow), fib.Stack)
	for _, s := range r.Steps {
		e.Steps = append(e.Steps, routing.LookupStep{Rule: s.Rule, Match: s.Match, Why: s.Why, Route: s.Route, Beat: s.Beat})
	}
	e.Model, e.Kernel = v.withMTU(v.answer(r)), v.withMTU(kernel)
	if e.Model.Outcome == routing.OutcomeForward && agree(r, kernel) {
		e.Model.Src = e.Kernel.Src // rules and routes only suggest it
	}
	if everybody(e.Flow.Dst) {
		// The kernel sends these by rules of its own, which a look-up does not show.
		e.Steps, e.Model, e.EBPF = nil, e.Kernel, routing.Answer{Outcome: routing.OutcomeNoAnswer}
		e.Verdict = routing.VerdictOK
		e.Reason = "multicast and broadcast are no class's: they stay on their link"
		return
	}
	e.Disagreement = v.disagreement(e.Flow, r, kernel)
	e.EBPF = routing.Answer{Outcome: routing.OutcomeNoAnswer}
	var datapath fib.Result
	if e.Flow.IIF != "" {
		datapath = v.fib.Lookup(fib.Flow(e.Flow), fib.BPF)
		e.EBPF = v.withMTU(v.answer(datapath))
	}
	c, t := v.classOf(e.Flow)
	if c != nil {
		e.Class, e.Link, e.Traffic = c.Name, c.Link, t
	}
	v.verdict(e, c, r)
	if e.Flow.IIF != "" && e.Verdict != routing.VerdictWrongLink && !v.beyond(e.Flow.Dst) {
		if why := v.router(e.Flow, v.answer(datapath), &datapath); why != "" {
			e.Verdict, e.Reason, e.Failed = routing.VerdictWrongLink, why+", by bpf_fib_lookup", true
		}
	}
	if e.Disagreement != "" {
		e.Failed = true
	}
}

func (v *View) verdict(e *routing.Explanation, c *routing.Class, model fib.Result) {
	a := e.Kernel
	if a.Outcome == routing.OutcomeNoAnswer {
		a = e.Model
	}
	if c != nil {
		j := v.judge(c, e.Flow, a, model)
		e.Verdict, e.Reason = j.verdict, j.reason
		switch j.verdict {
		case routing.VerdictOK:
			e.Reason = "leaves by " + c.Link + ", the link of " + c.Name
		case routing.VerdictUnreachable:
			if !v.somebody(e.Flow.Dst) {
				e.Reason = v.nobody(e.Flow.Dst, "nobody has this address, and it is stopped here") + by(&model, a)
			}
			e.Failed = j.due || v.somebody(e.Flow.Dst)
		case routing.VerdictWrongLink:
			e.Failed = true
		}
		return
	}
	e.Verdict, e.Reason = routing.VerdictOK, "no class promises anything about it"
	switch a.Outcome {
	case routing.OutcomeForward:
		if v.beyond(e.Flow.Dst) {
			return
		}
		if v.translated(e.Flow) {
			e.Reason = "a service proxy is to translate this; as it is, it leaves by " + a.String()
			return
		}
		if why := v.router(e.Flow, a, &model); why != "" {
			e.Verdict, e.Reason, e.Failed = routing.VerdictWrongLink, why, true
		}
	case routing.OutcomeLocal:
		e.Reason = "is delivered on this node"
	default:
		want := v.intended().Lookup(fib.Flow(e.Flow), fib.Stack)
		e.Verdict, e.Reason = routing.VerdictUnreachable, v.nobody(e.Flow.Dst, "it is stopped here")+by(&model, a)
		e.Failed = want.Action == fib.Forward || v.somebody(e.Flow.Dst)
	}
}

// nobody is what is said of a packet that is stopped, where its address is that of a
// Service: whether that is wrong depends on who has seen it before.
func (v *View) nobody(dst netip.Addr, said string) string {
	if v.service(dst) {
		return "a service proxy is to translate this before it is looked up; as it is, it is stopped here"
	}
	return said
}

// everybody reports whether an address is that of several hosts at once.
func everybody(a netip.Addr) bool {
	return a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// withMTU fills in the link's MTU where the route has none.
func (v *View) withMTU(a routing.Answer) routing.Answer {
	if l := v.links[a.Link]; l != nil && a.Outcome == routing.OutcomeForward && a.MTU == 0 {
		a.MTU = l.MTU
	}
	return a
}

// somebody reports whether an address is a node's, a node's pod's, or one behind a
// router.
func (v *View) somebody(a netip.Addr) bool {
	return v.nodes[a] != "" || v.podAddress(a) || v.beyond(a)
}

// classOf returns the class that a flow belongs to, and the traffic of it. One
// between two networks goes before one with the world; what stays on this node
// is no class's.
func (v *View) classOf(flow routing.Flow) (*routing.Class, routing.Traffic) {
	src := flow.Src
	if !src.IsValid() && flow.IIF == "" && v.self != nil {
		src = v.self.InternalIP(routing.FamilyOf(flow.Dst))
	}
	if v.own[flow.Dst] || v.self != nil && within(v.self.PodCIDRs, flow.Dst) || !src.IsValid() {
		return nil, routing.Traffic{}
	}
	for _, world := range []bool{false, true} {
		for i := range v.Config.Classes {
			c := &v.Config.Classes[i]
			if c.Delegated {
				continue
			}
			at := slices.IndexFunc(c.Traffic, func(t routing.Traffic) bool {
				return world == (t.From == routing.World || t.To == routing.World) && v.in(t.From, src) && v.in(t.To, flow.Dst)
			})
			if at >= 0 {
				return c, c.Traffic[at]
			}
		}
	}
	return nil, routing.Traffic{}
}

// in reports whether an address is in a named network.
func (v *View) in(network string, a netip.Addr) bool {
	if network == routing.World {
		return v.outside(a)
	}
	return within(v.Config.Network(network), a)
}
