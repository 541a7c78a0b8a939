package cli_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
	"netclass.dev/routing/promise"
	"netclass.dev/server/servertest"
)

var errNothing = errors.New("there is no configuration to hold the kernel against")

// answers makes a source answer Explain and Verify by the picture of its state.
// Its kernel answers as the picture has it, but for one address, about which the
// two are not of one mind.
func answers(source *servertest.Source) {
	if source.State().Config.Config == nil {
		source.OnExplain = func(context.Context, routing.Question) ([]*routing.Explanation, error) { return nil, errNothing }
		source.OnVerify = func(context.Context, bool) (*routing.Verification, error) { return nil, errNothing }
		return
	}
	kernel := settled(source.State())
	view := func() *promise.View {
		st := source.State()
		plan := *st.Plan
		plan.Links = map[string][]netip.Prefix{}
		for _, l := range kernel.Links {
			for _, a := range l.Addrs {
				plan.Links[l.Name] = append(plan.Links[l.Name], a.Prefix.Masked())
			}
		}
		return promise.New(promise.Inputs{Config: st.Config.Config, Node: st.Node, Inventory: &st.Inventory, Kernel: kernel, Plan: &plan})
	}
	lookup := func(f routing.Flow) routing.Answer {
		if f.Dst == netip.MustParseAddr("10.244.3.99") {
			return routing.Answer{Outcome: routing.OutcomeUnreachable, Code: "EHOSTUNREACH"}
		}
		r := fib.New(kernel).Lookup(fib.Flow(f), fib.Stack)
		a := routing.Answer{Outcome: routing.Outcome(r.Action)}
		switch r.Action {
		case fib.Forward:
			a.Link, a.Via, a.Table = r.Route.Link, r.Route.Via, r.Route.Table
			for _, l := range kernel.Link(a.Link).Addrs {
				if f.IIF == "" && routing.FamilyOf(l.Prefix.Addr()) == routing.FamilyOf(f.Dst) {
					a.Src = l.Prefix.Addr()
				}
			}
		case fib.Unreachable:
			a.Code = "EHOSTUNREACH"
		}
		return a
	}
	source.OnExplain = func(_ context.Context, q routing.Question) ([]*routing.Explanation, error) {
		v := view()
		list, err := v.Ask(q)
		for _, e := range list {
			v.Explain(e, lookup(e.Flow))
		}
		return list, err
	}
	source.OnVerify = func(_ context.Context, all bool) (*routing.Verification, error) {
		v := view()
		checks := v.Round(promise.Round{Budget: 200})
		var said []routing.Answer
		for _, f := range checks.Questions() {
			said = append(said, lookup(f))
		}
		found := v.Conclude(checks, said)
		found.At, found.Took = servertest.Now.Add(-4*time.Second), 1300*time.Microsecond
		if !all {
			found.Flows, found.Within = 10000, 25*time.Minute // as of a large cluster
		}
		return found, nil
	}
}

// settled is the state's kernel with what every kernel adds by itself: what is
// local, the networks of its links in main, and the CNI's routes.
func settled(st *routing.State) *routing.Kernel {
	k := *st.Kernel
	k.Routes = slices.Clone(k.Routes)
	for _, l := range k.Links {
		for _, a := range l.Addrs {
			own := netip.PrefixFrom(a.Prefix.Addr(), a.Prefix.Addr().BitLen())
			k.Routes = append(k.Routes,
				routing.Route{Table: routing.LocalID, Dst: own, Type: routing.Local, Link: l.Name, Protocol: routing.ProtocolKernel},
				routing.Route{Table: routing.MainID, Dst: a.Prefix.Masked(), Link: l.Name, Protocol: routing.ProtocolKernel})
		}
	}
	for _, n := range st.Inventory.Nodes {
		for i, c := range n.PodCIDRs {
			if n.Name != st.Node {
				k.Routes = append(k.Routes, routing.Route{Table: routing.MainID, Dst: c, Via: n.InternalIPs[i], Link: "node0", Protocol: routing.ProtocolKernel})
			}
		}
	}
	return &k
}

// violated is the healthy node after somebody has put a rule before ours that
// sends pods to main, and a route to a peer's pods by the router into our table.
func violated() *routing.State {
	st := servertest.Healthy()
	rule := routing.Rule{
		Family: routing.IPv4, Priority: 500, From: netip.MustParsePrefix("10.244.0.0/16"), Table: routing.MainID,
		Protocol: routing.ProtocolBoot, SuppressPrefixLen: routing.NoSuppress,
	}
	st.Kernel.Rules = slices.Insert(st.Kernel.Rules, 1, rule)
	st.Kernel.Routes = append(st.Kernel.Routes, routing.Route{
		Table: servertest.PodsID, Dst: netip.MustParsePrefix("fd00:10:244:2::/80"), Metric: 1024, Protocol: routing.ProtocolBoot,
		Via: netip.MustParseAddr("fd00:47::fe"), Link: "ingress0",
	})
	return st
}
