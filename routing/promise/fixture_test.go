package promise_test

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
	"netclass.dev/routing/intent"
	"netclass.dev/routing/plan"
	"netclass.dev/routing/promise"
)

// world is node k8s-1 of the example cluster, converged, for a test to bend.
type world struct {
	config *routing.Config
	nodes  *routing.Inventory
	kernel *routing.Kernel // the picture
	plan   *routing.Plan
	ledger *routing.Ledger
	// real is the kernel that answers; nil: as the picture has it.
	real *routing.Kernel
	// imports are what the router on ingress0 tells of, by its own address.
	imports []netip.Prefix
	// draining is how far the node is taken out.
	draining routing.Draining
}

// cluster makes a world of so many nodes. The configuration is the seed's with
// texts replaced.
func cluster(t testing.TB, n int, replace ...string) *world {
	t.Helper()
	text, err := os.ReadFile("../../examples/seed/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	replace = append([]string{"kubernetes: {kubeconfig: /etc/netclassd/kubeconfig}", "nodesFile: nodes.yaml"}, replace...)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(text), replace[i]) {
			t.Fatalf("the example does not say %q", replace[i])
		}
	}
	c, problems := intent.Parse("config.yaml", []byte(strings.NewReplacer(replace...).Replace(string(text))))
	if c == nil {
		t.Fatal(problems)
	}
	w := &world{config: c, nodes: &routing.Inventory{Synced: true}, ledger: &routing.Ledger{}}
	for i := 1; i <= n; i++ {
		w.nodes.Nodes = append(w.nodes.Nodes, node(i))
	}
	w.kernel = bare(w.nodes.Nodes)
	w.converge(true)
	return w
}

func ip(format string, args ...any) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf(format, args...))
}
func net(format string, args ...any) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf(format, args...))
}

// node is node i. Its numbers fit the seed's networks for the first few only.
func node(i int) routing.Node {
	hi, lo := i>>8, i&255
	name := fmt.Sprintf("k8s-%d", i)
	if i > 9 {
		name = fmt.Sprintf("node-%d", i)
	}
	return routing.Node{
		Name: name, PodCIDRs: []netip.Prefix{pods(i, routing.IPv4), pods(i, routing.IPv6)},
		InternalIPs: []netip.Addr{ip("10.46.%d.%d", hi, lo), ip("fd00:46::%x", i)},
		Annotations: map[string]string{
			"net.renner.uno/pod0-v4": fmt.Sprintf("10.48.%d.%d", hi, lo), "net.renner.uno/pod0-v6": fmt.Sprintf("fd00:48::%x", i),
			"net.renner.uno/egress-gw-v4": "10.47.0.254", "net.renner.uno/egress-gw-v6": "fd00:47::fe",
		},
	}
}

func pods(i int, f routing.Family) netip.Prefix {
	if f == routing.IPv6 {
		return net("fd00:10:244:%x::/64", i)
	}
	if i > 250 {
		return net("10.%d.%d.0/24", 100+i>>8, i&255)
	}
	return net("10.244.%d.0/24", i)
}

// bare is the kernel as system and CNI have it.
func bare(nodes []routing.Node) *routing.Kernel {
	k := &routing.Kernel{Links: []routing.Link{{Name: "lo", Up: true, Carrier: true}}}
	for _, f := range routing.Families {
		for _, r := range []struct {
			priority uint32
			table    routing.TableID
		}{{0, routing.LocalID}, {32766, routing.MainID}} {
			k.Rules = append(k.Rules, routing.Rule{Family: f, Priority: r.priority, Table: r.table, Protocol: routing.ProtocolKernel, SuppressPrefixLen: routing.NoSuppress})
		}
	}
	for _, l := range []struct {
		name  string
		addrs []netip.Prefix
	}{
		{"mgmt0", []netip.Prefix{net("10.40.0.1/24"), net("fd00:40::1/64")}}, {"node0", []netip.Prefix{net("10.46.0.1/24"), net("fd00:46::1/64")}},
		{"ingress0", []netip.Prefix{net("10.47.0.1/24"), net("fd00:47::1/64")}}, {"pod0", []netip.Prefix{net("10.48.0.1/24"), net("fd00:48::1/64")}},
		{"cilium_host", []netip.Prefix{net("10.244.1.1/32"), net("fd00:10:244:1::1/128")}},
	} {
		link := routing.Link{Name: l.name, Up: true, Carrier: true, MTU: 1500}
		for _, a := range l.addrs {
			link.Addrs = append(link.Addrs, routing.LinkAddr{Prefix: a})
			k.Routes = append(k.Routes,
				routing.Route{Table: routing.LocalID, Dst: netip.PrefixFrom(a.Addr(), a.Addr().BitLen()), Type: routing.Local, Link: l.name},
				routing.Route{Table: routing.MainID, Dst: a.Masked(), Metric: 256, Link: l.name, Protocol: routing.ProtocolKernel})
		}
		k.Links = append(k.Links, link)
	}
	for _, n := range nodes[1:] {
		for i, c := range n.PodCIDRs {
			k.Routes = append(k.Routes, routing.Route{Table: routing.MainID, Dst: c, Metric: 1024, Via: n.InternalIPs[i], Link: "node0", Protocol: routing.ProtocolKernel})
		}
	}
	for _, c := range nodes[0].PodCIDRs {
		k.Routes = append(k.Routes, routing.Route{Table: routing.MainID, Dst: c, Metric: 1024, Link: "cilium_host", Protocol: routing.ProtocolKernel})
	}
	k.Routes = append(k.Routes,
		routing.Route{Table: routing.MainID, Dst: routing.IPv4.Default(), Metric: 1024, Via: ip("10.40.0.254"), Link: "mgmt0", Protocol: routing.ProtocolStatic},
		routing.Route{Table: routing.MainID, Dst: routing.IPv6.Default(), Metric: 1024, Via: ip("fd00:40::fe"), Link: "mgmt0", Protocol: routing.ProtocolStatic})
	return k
}

// converge makes a plan and brings the kernel to it. Sessions say everything, or
// nothing yet.
func (w *world) converge(sessions bool) {
	in := &routing.Inputs{Config: w.config, Node: "k8s-1", Inventory: w.nodes, Kernel: w.kernel, Ledger: w.ledger, Draining: w.draining}
	for _, n := range w.nodes.Nodes[1:] {
		for _, f := range routing.Families {
			p := routing.Peering{Key: routing.SessionKey{Peer: n.Name, Family: f}, Synced: true}
			if sessions {
				at := map[routing.Family]int{routing.IPv4: 0, routing.IPv6: 1}[f]
				p.Paths = []routing.Path{{Prefix: n.PodCIDRs[at], NextHop: ip("%s", n.Annotations[fmt.Sprintf("net.renner.uno/pod0-v%d", f)])}}
			}
			in.Peerings = append(in.Peerings, p)
		}
	}
	if len(w.imports) > 0 {
		p := routing.Peering{Key: routing.SessionKey{Peer: "udm", Family: routing.IPv4}, Synced: true}
		for _, dst := range w.imports {
			p.Paths = append(p.Paths, routing.Path{Prefix: dst, NextHop: ip("10.47.0.254")})
		}
		in.Peerings = append(in.Peerings, p)
	}
	w.plan = plan.Make(in)
	w.kernel = w.kernel.After(plan.Diff(w.plan, w.kernel))
	w.ledger = &routing.Ledger{Protocols: w.plan.Own.Protocols, Tables: w.plan.Own.Tables, Priorities: w.plan.Own.Priorities, Links: w.plan.Links}
}

// down takes a link down as the kernel does: its routes and IPv6 addresses go.
// Nobody has planned since.
func (w *world) down(name string) {
	k := *w.kernel
	k.Links = slices.Clone(k.Links)
	l := k.Link(name)
	l.Up, l.Carrier = false, false
	l.Addrs = slices.DeleteFunc(slices.Clone(l.Addrs), func(a routing.LinkAddr) bool { return routing.FamilyOf(a.Prefix.Addr()) == routing.IPv6 })
	k.Routes = slices.DeleteFunc(slices.Clone(k.Routes), func(r routing.Route) bool {
		return r.Link == name && (r.Table != routing.LocalID || r.Family() == routing.IPv6)
	})
	w.kernel = &k
}

// route puts somebody else's route in.
func (w *world) route(table routing.TableID, dst, via, link string) {
	r := routing.Route{Table: table, Dst: net("%s", dst), Metric: 5, Link: link, Protocol: routing.ProtocolBoot}
	if via != "" {
		r.Via = ip("%s", via)
	}
	w.kernel = w.kernel.After([]routing.Op{{Verb: routing.Add, Route: r}})
}

// rule puts somebody else's rule in.
func (w *world) rule(priority uint32, from string, table routing.TableID) {
	p := net("%s", from)
	w.kernel = w.kernel.After([]routing.Op{{Verb: routing.Add, Rule: routing.Rule{
		Family: routing.FamilyOf(p.Addr()), Priority: priority, From: p, Table: table, Protocol: routing.ProtocolBoot, SuppressPrefixLen: routing.NoSuppress,
	}}})
}

// foreign puts somebody else's rule of any kind in.
func (w *world) foreign(r routing.Rule) {
	r.Protocol, r.SuppressPrefixLen = routing.ProtocolBoot, routing.NoSuppress
	w.kernel = w.kernel.After([]routing.Op{{Verb: routing.Add, Rule: r}})
}

// without takes routes out of the kernel.
func (w *world) without(which func(r routing.Route) bool) {
	k := *w.kernel
	k.Routes = slices.DeleteFunc(slices.Clone(k.Routes), which)
	w.kernel = &k
}

func (w *world) view() *promise.View {
	return promise.New(promise.Inputs{Config: w.config, Node: "k8s-1", Inventory: w.nodes, Kernel: w.kernel, Plan: w.plan})
}

// answer is the kernel's.
func (w *world) answer(f *fib.FIB, flow routing.Flow) routing.Answer {
	if flow.IIF != "" && w.kernel.Link(flow.IIF) == nil {
		return routing.Answer{Outcome: routing.OutcomeNoAnswer}
	}
	r := f.Lookup(fib.Flow(flow), fib.Stack)
	a := routing.Answer{Outcome: routing.Outcome(r.Action), Table: r.Route.Table}
	if r.Action == fib.Forward {
		a.Link, a.Via = r.Route.Link, r.Route.Via
	}
	if r.Action == fib.Unreachable && !r.Route.Dst.IsValid() {
		a.Outcome = routing.OutcomeNoRoute
	}
	return a
}

// verify looks at the flows of a round.
func (w *world) verify(r promise.Round) (*routing.Verification, *promise.Checks) {
	v := w.view()
	checks := v.Round(r)
	real := w.real
	if real == nil {
		real = w.kernel
	}
	f := fib.New(real)
	var answers []routing.Answer
	for _, flow := range checks.Questions() {
		answers = append(answers, w.answer(f, flow))
	}
	return v.Conclude(checks, answers), checks
}
