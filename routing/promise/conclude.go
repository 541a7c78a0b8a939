package promise

import (
	"fmt"
	"net/netip"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// maxTroubled bounds the flows that are checked again every time.
const maxTroubled = 100

// Conclude says how the promises stand by the kernel's answers.
func (v *View) Conclude(c *Checks, answers []routing.Answer) *routing.Verification {
	out := &routing.Verification{Flows: c.Flows, Checked: len(c.List)}
	for i := range v.promises {
		p := &v.promises[i]
		out.Promises = append(out.Promises, routing.Promise{
			Class: p.class.Name, Link: p.class.Link, Traffic: p.traffic, Family: p.family,
			State: routing.PromiseHeld, Flows: len(p.targets),
		})
		if p.why != "" {
			out.Promises[i].State, out.Promises[i].Reason = routing.PromiseWaiting, p.why
		}
	}
	out.Router = routing.RouterProof{Flows: c.proofs, Proven: true}
	why, choice := v.unguarded()
	if why != "" {
		out.Router.Proven, out.Router.Reason, out.Router.ByChoice = false, why, choice
	}
	for i := range c.List {
		check := &c.List[i]
		model := v.fib.Lookup(fib.Flow(check.Flow), fib.Stack)
		trouble := v.prove(&out.Router, check, answers[i], &model, choice)
		if check.promise != proofOnly {
			p := &out.Promises[check.promise]
			j := v.judge(v.promises[check.promise].class, check.Flow, answers[i], model)
			trouble = count(p, check, j) || trouble
		}
		if trouble && len(out.Troubled) < maxTroubled {
			out.Troubled = append(out.Troubled, check.Flow)
		}
	}
	out.Router.Covers = v.covered()
	return out
}

// count adds a judgement to a promise and reports whether it is none that holds.
func count(p *routing.Promise, check *Check, j judgement) bool {
	p.Checked++
	var state routing.PromiseState
	switch {
	case j.verdict == routing.VerdictOK:
		return false
	case j.verdict == routing.VerdictShared:
		state, p.Shared = routing.PromiseShared, p.Shared+1
	case j.verdict == routing.VerdictUnreachable && !j.due:
		state, p.Waiting = routing.PromiseWaiting, p.Waiting+1
	default:
		state, p.Violated = routing.PromiseViolated, p.Violated+1
	}
	if worse(state, p.State) {
		p.State, p.Reason = state, fmt.Sprintf("%s to %s %s", check.source(), check.target(), j.reason)
	}
	return true
}

// source and target name the ends of a flow with their addresses.
func (c *Check) source() string { return named(c.from, c.Flow.Src.IsValid(), c.Flow.Src.String()) }
func (c *Check) target() string { return named(c.to, true, c.Flow.Dst.String()) }

func named(what string, known bool, address string) string {
	if !known {
		return what
	}
	return what + " (" + address + ")"
}

var ranks = map[routing.PromiseState]int{
	routing.PromiseHeld: 0, routing.PromiseWaiting: 1, routing.PromiseShared: 2, routing.PromiseViolated: 3,
}

func worse(a, b routing.PromiseState) bool { return ranks[a] > ranks[b] }

// prove adds an answer to the router's proof and reports whether it speaks
// against it. Also what an eBPF datapath would do counts, for packets that
// arrive; and an answer that the routes do not explain proves nothing. Where by
// choice nothing is guarded, that packets to nobody go to the router is no news.
func (v *View) prove(proof *routing.RouterProof, check *Check, a routing.Answer, model *fib.Result, choice bool) bool {
	if check.promise != proofOnly && v.beyond(check.Flow.Dst) {
		return false
	}
	if check.promise == proofOnly {
		proof.Checked++
	}
	why := v.router(check.Flow, a, model)
	if why == "" && check.Flow.IIF != "" {
		datapath := v.fib.Lookup(fib.Flow(check.Flow), fib.BPF)
		if why = v.router(check.Flow, v.answer(datapath), &datapath); why != "" {
			why += ", by bpf_fib_lookup"
			if check.nobody && v.guardedByRules(check.Flow.Dst) {
				if proof.Proven {
					proof.Proven, proof.ByChoice = false, true
					proof.Reason = fmt.Sprintf("%s to %s: %s: no eBPF datapath obeys a guard as rules in IPv6", check.source(), check.target(), why)
				}
				return false
			}
		}
	}
	misrouted := why != ""
	if !misrouted {
		why = v.disagreement(check.Flow, *model, a)
	}
	if why == "" || misrouted && choice && check.nobody {
		return false
	}
	// The first that is misrouted says most, and any answer more than what is
	// missing by choice.
	if misrouted && !proof.Misrouted || proof.Proven || proof.ByChoice {
		proof.Proven, proof.Misrouted, proof.ByChoice = false, misrouted, false
		proof.Reason = fmt.Sprintf("%s to %s: %s", check.source(), check.target(), why)
	}
	return true
}

// guardedByRules reports whether by choice the guard of an address is rules that
// only the stack's own lookup obeys.
func (v *View) guardedByRules(a netip.Addr) bool {
	g := v.Config.Guard
	return a.Is6() && g != nil && g.AsRules && (within(v.linkNetworks(routing.IPv6), a) ||
		slices.ContainsFunc(g.Networks, func(name string) bool { return within(v.Config.Network(name), a) }))
}

// covered says in words what the proof asks for.
func (v *View) covered() []string {
	said := []string{fmt.Sprintf("every pod and address of %d peers", len(v.peers))}
	for _, name := range v.inside() {
		said = append(said, "addresses of "+name+" that no route leads to")
	}
	for i := range v.Config.Classes {
		if c := &v.Config.Classes[i]; !c.Delegated && !v.leadsOut(c.Link) {
			said = append(said, "the network of "+c.Link)
		}
	}
	for _, f := range routing.Families {
		if _, why := v.pod(f); why != "" {
			said = append(said, "not from pods in "+f.String()+": "+why)
		}
	}
	return said
}
