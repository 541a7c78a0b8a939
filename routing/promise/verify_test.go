package promise_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"netclass.dev/routing"
	"netclass.dev/routing/promise"
)

// tell writes a verification down: what is not held, and the proof.
func tell(found *routing.Verification) string {
	var b strings.Builder
	for _, p := range found.Promises {
		if p.State != routing.PromiseHeld {
			fmt.Fprintf(&b, "%s %s->%s %s %s: %s\n", p.Class, p.Traffic.From, p.Traffic.To, p.Family, p.State, p.Reason)
		}
	}
	switch {
	case found.Router.Proven:
		b.WriteString("PROVEN\n")
	case found.Router.Misrouted:
		b.WriteString("MISROUTED: " + found.Router.Reason + "\n")
	default:
		b.WriteString("NOT PROVEN: " + found.Router.Reason + "\n")
	}
	return b.String()
}

// TestVerify says for each thing that can happen to a node what becomes of its
// promises and of the proof.
func TestVerify(t *testing.T) {
	t.Parallel()
	const main, own = routing.MainID, routing.TableID(47)
	for _, c := range []struct {
		name    string
		replace []string
		nodes   int
		bend    func(w *world)
		want    string
	}{
		{name: "converged", want: "PROVEN\n"},
		{name: "alone", nodes: 1, want: `
pod-pod pods->pods ipv4 WAITING: no other node has an address in pods
pod-pod pods->pods ipv6 WAITING: no other node has an address in pods
node-node nodes->nodes ipv4 WAITING: no other node has an address in nodes
node-node nodes->nodes ipv6 WAITING: no other node has an address in nodes
node-node nodes->pods ipv4 WAITING: no other node has an address in pods
node-node nodes->pods ipv6 WAITING: no other node has an address in pods
PROVEN`},
		{name: "no session yet", bend: func(w *world) { w.kernel = bare(w.nodes.Nodes); w.converge(false) }, want: `
pod-pod pods->pods ipv4 SHARED: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6) leaves by node0 via 10.46.0.2: there is no path by pod0 (rule 1001: from 10.244.0.0/16 lookup 47)
pod-pod pods->pods ipv6 SHARED: pod of k8s-1 (fd00:10:244:1::6) to pod of k8s-2 (fd00:10:244:2::6) leaves by node0 via fd00:46::2: there is no path by pod0 (rule 1000: from fd00:10:244::/48 lookup 47)
PROVEN`},
		{name: "a peer is drained", bend: func(w *world) {
			w.kernel = bare(w.nodes.Nodes)
			w.converge(false)
			w.plan.Drained = []string{"k8s-2"}
		}, want: `
pod-pod pods->pods ipv4 SHARED: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6) leaves by node0 via 10.46.0.2: k8s-2 is drained
pod-pod pods->pods ipv6 SHARED: pod of k8s-1 (fd00:10:244:1::6) to pod of k8s-2 (fd00:10:244:2::6) leaves by node0 via fd00:46::2: k8s-2 is drained
PROVEN`},
		{name: "a peer is being drained", bend: func(w *world) {
			w.kernel = bare(w.nodes.Nodes)
			w.converge(false)
			w.plan.Drained, w.plan.DrainPhases = []string{"k8s-2"}, map[string]routing.DrainPhase{"k8s-2": routing.DrainGoing}
		}, want: `
pod-pod pods->pods ipv4 SHARED: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6) leaves by node0 via 10.46.0.2: k8s-2 is being drained
pod-pod pods->pods ipv6 SHARED: pod of k8s-1 (fd00:10:244:1::6) to pod of k8s-2 (fd00:10:244:2::6) leaves by node0 via fd00:46::2: k8s-2 is being drained
PROVEN`},
		{name: "pod0 down, nobody has planned", bend: func(w *world) { w.down("pod0") }, want: `
pod-pod pods->pods ipv4 SHARED: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6) leaves by node0 via 10.46.0.2: link pod0 is down
pod-pod pods->pods ipv6 SHARED: pod of k8s-1 (fd00:10:244:1::6) to pod of k8s-2 (fd00:10:244:2::6) leaves by node0 via fd00:46::2: link pod0 is down
PROVEN`},
		{name: "pod0 down", bend: func(w *world) { w.down("pod0"); w.converge(true) }, want: `
pod-pod pods->pods ipv4 SHARED: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6) leaves by node0 via 10.46.0.2: link pod0 is down
pod-pod pods->pods ipv6 SHARED: pod of k8s-1 (fd00:10:244:1::6) to pod of k8s-2 (fd00:10:244:2::6) leaves by node0 via fd00:46::2: link pod0 is down
PROVEN`},
		{name: "pod0 and node0 down", bend: func(w *world) { w.down("pod0"); w.down("node0"); w.converge(true) }, want: `
pod-pod pods->pods ipv4 WAITING: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6) unreachable: link pod0 is down
pod-pod pods->pods ipv6 WAITING: pod of k8s-1 (fd00:10:244:1::6) to pod of k8s-2 (fd00:10:244:2::6) unreachable: link pod0 is down
node-node nodes->nodes ipv4 WAITING: this node (10.46.0.1) to node k8s-2 (10.46.0.2) unreachable: link node0 is down
node-node nodes->nodes ipv6 WAITING: this node to node k8s-2 (fd00:46::2) unreachable: link node0 is down
node-node nodes->pods ipv4 WAITING: this node (10.46.0.1) to pod of k8s-2 (10.244.2.6) unreachable: link node0 is down
node-node nodes->pods ipv6 WAITING: this node to pod of k8s-2 (fd00:10:244:2::6) unreachable: link node0 is down
PROVEN`},
		{name: "drained", bend: func(w *world) { w.draining.Step = routing.DrainPaths; w.converge(true) }, want: `
pod-pod pods->pods ipv4 SHARED: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6) leaves by node0 via 10.46.0.2: a drain of this node has taken it off pod0
pod-pod pods->pods ipv6 SHARED: pod of k8s-1 (fd00:10:244:1::6) to pod of k8s-2 (fd00:10:244:2::6) leaves by node0 via fd00:46::2: a drain of this node has taken it off pod0
world-pod pods->world ipv4 SHARED: pod of k8s-1 (10.244.1.6) to the world (192.0.2.1) leaves by mgmt0 via 10.40.0.254: a drain of this node has taken it off ingress0
world-pod pods->world ipv6 SHARED: pod of k8s-1 (fd00:10:244:1::6) to the world (2001:db8::1) leaves by mgmt0 via fd00:40::fe: a drain of this node has taken it off ingress0
world-pod loadBalancers->world ipv4 SHARED: an address of loadBalancers (10.47.64.6) to the world (192.0.2.1) leaves by mgmt0 via 10.40.0.254: a drain of this node has taken it off ingress0
world-pod loadBalancers->world ipv6 SHARED: an address of loadBalancers (fd00:47:64::6) to the world (2001:db8::1) leaves by mgmt0 via fd00:40::fe: a drain of this node has taken it off ingress0
PROVEN`},
		{name: "ingress0 down", bend: func(w *world) { w.down("ingress0"); w.converge(true) }, want: `
world-pod pods->world ipv4 SHARED: pod of k8s-1 (10.244.1.6) to the world (192.0.2.1) leaves by mgmt0 via 10.40.0.254: link ingress0 is down
world-pod pods->world ipv6 SHARED: pod of k8s-1 (fd00:10:244:1::6) to the world (2001:db8::1) leaves by mgmt0 via fd00:40::fe: link ingress0 is down
world-pod loadBalancers->world ipv4 SHARED: an address of loadBalancers (10.47.64.6) to the world (192.0.2.1) leaves by mgmt0 via 10.40.0.254: link ingress0 is down
world-pod loadBalancers->world ipv6 SHARED: an address of loadBalancers (fd00:47:64::6) to the world (2001:db8::1) leaves by mgmt0 via fd00:40::fe: link ingress0 is down
PROVEN`},
		{name: "no pods here", bend: func(w *world) { w.down("cilium_host"); w.kernel.Links = w.kernel.Links[:5]; w.converge(true) }, want: `
pod-pod pods->pods ipv4 WAITING: no link leads to this node's pods
pod-pod pods->pods ipv6 WAITING: no link leads to this node's pods
world-pod pods->world ipv4 WAITING: no link leads to this node's pods
world-pod pods->world ipv6 WAITING: no link leads to this node's pods
world-pod loadBalancers->world ipv4 WAITING: no link leads to this node's pods
world-pod loadBalancers->world ipv6 WAITING: no link leads to this node's pods
PROVEN`},
		{name: "a rule sends pods to main", bend: func(w *world) { w.rule(500, "fd00:10:244::/48", main) }, want: `
pod-pod pods->pods ipv6 VIOLATED: pod of k8s-1 (fd00:10:244:1::6) to pod of k8s-2 (fd00:10:244:2::6) leaves by node0 via fd00:46::2, not pod0 (rule 500: from fd00:10:244::/48 lookup main)
world-pod pods->world ipv6 VIOLATED: pod of k8s-1 (fd00:10:244:1::6) to the world (2001:db8::1) leaves by mgmt0 via fd00:40::fe, not ingress0 (rule 500: from fd00:10:244::/48 lookup main)
MISROUTED: pod of k8s-1 (fd00:10:244:1::6) to no host of fd00:10:96::/112 (fd00:10:96::5fd3): goes to the router fd00:40::fe on mgmt0 (rule 500: from fd00:10:244::/48 lookup main)`},
		{name: "a rule sends everything to main", bend: func(w *world) {
			w.foreign(routing.Rule{Family: routing.IPv4, Priority: 500, Table: main})
		}, want: `
pod-pod pods->pods ipv4 VIOLATED: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6) leaves by node0 via 10.46.0.2, not pod0 (rule 500: from all lookup main)
world-pod pods->world ipv4 VIOLATED: pod of k8s-1 (10.244.1.6) to the world (192.0.2.1) leaves by mgmt0 via 10.40.0.254, not ingress0 (rule 500: from all lookup main)
world-pod loadBalancers->world ipv4 VIOLATED: an address of loadBalancers (10.47.64.6) to the world (192.0.2.1) leaves by mgmt0 via 10.40.0.254, not ingress0 (rule 500: from all lookup main)
MISROUTED: pod of k8s-1 (10.244.1.6) to no host of 10.96.0.0/16 (10.96.95.211): goes to the router 10.40.0.254 on mgmt0 (rule 500: from all lookup main)`},
		{name: "a rule takes half the pods to the router", bend: func(w *world) {
			w.route(99, "0.0.0.0/0", "10.47.0.254", "ingress0")
			w.rule(500, "10.244.1.128/25", 99)
		}, want: `
MISROUTED: pod of k8s-1 (10.244.1.134) to no host of 10.244.0.0/16 (10.244.95.211): goes to the router 10.47.0.254 on ingress0 (rule 500: from 10.244.1.128/25 lookup 99)`},
		{name: "a rule takes what is marked to the router", bend: func(w *world) {
			w.route(99, "0.0.0.0/0", "10.47.0.254", "ingress0")
			w.foreign(routing.Rule{Family: routing.IPv4, Priority: 500, Mark: 0x10, Mask: 0xffffffff, Table: 99})
		}, want: `
MISROUTED: this node to no host of 10.244.0.0/16 (10.244.95.211): goes to the router 10.47.0.254 on ingress0 (rule 500: from all fwmark 0x10/0xffffffff lookup 99)`},
		{name: "a rule takes what goes to half a peer's pods to the router", bend: func(w *world) {
			w.route(99, "0.0.0.0/0", "10.47.0.254", "ingress0")
			w.foreign(routing.Rule{Family: routing.IPv4, Priority: 500, IIF: "cilium_host", To: net("10.244.2.128/25"), Table: 99})
		}, want: `
MISROUTED: pod of k8s-1 (10.244.1.6) to a host of 10.244.2.128/25 (10.244.2.134): goes to the router 10.47.0.254 on ingress0 (rule 500: from all to 10.244.2.128/25 iif cilium_host lookup 99)`},
		{name: "services by the router, in the table of pods", bend: func(w *world) { w.route(own, "10.96.0.0/24", "10.47.0.254", "ingress0") }, want: `
MISROUTED: pod of k8s-1 (10.244.1.6) to a host of 10.96.0.0/24 (10.96.0.6): goes to the router 10.47.0.254 on ingress0 (rule 1001: from 10.244.0.0/16 lookup 47)`},
		{name: "a rule of the CNI that takes nothing to a router", bend: func(w *world) {
			w.foreign(routing.Rule{Family: routing.IPv4, Priority: 9, Mark: 0x200, Mask: 0xf00, Table: 2004})
		}, want: "PROVEN"},
		{name: "a route by the router is better", bend: func(w *world) { w.route(own, "10.244.2.0/25", "10.47.0.254", "ingress0") }, want: `
pod-pod pods->pods ipv4 VIOLATED: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6) goes to the router 10.47.0.254 on ingress0 (rule 1001: from 10.244.0.0/16 lookup 47)
MISROUTED: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6): goes to the router 10.47.0.254 on ingress0 (rule 1001: from 10.244.0.0/16 lookup 47)`},
		{name: "a route by the router, to nobody's pods", bend: func(w *world) { w.route(main, "10.244.128.0/17", "10.40.0.254", "mgmt0") },
			want: "MISROUTED: this node to a host of 10.244.128.0/17 (10.244.128.6): goes to the router 10.40.0.254 on mgmt0 (rule 32766: from all lookup main)"},
		{name: "a route by somebody who is no node", bend: func(w *world) { w.route(main, "10.46.0.2/32", "10.40.0.77", "mgmt0") }, want: `
node-node nodes->nodes ipv4 VIOLATED: this node (10.46.0.1) to node k8s-2 (10.46.0.2) goes to 10.40.0.77 on mgmt0, which is no node (rule 32766: from all lookup main)
MISROUTED: this node (10.46.0.1) to node k8s-2 (10.46.0.2): goes to 10.40.0.77 on mgmt0, which is no node (rule 32766: from all lookup main)`},
		{name: "a peer's pods on the router's link", bend: func(w *world) { w.route(main, "10.244.2.0/24", "", "mgmt0") }, want: `
node-node nodes->pods ipv4 VIOLATED: this node (10.46.0.1) to pod of k8s-2 (10.244.2.6) goes out by mgmt0, where only a router could take it (rule 32766: from all lookup main)
MISROUTED: this node (10.46.0.1) to pod of k8s-2 (10.244.2.6): goes out by mgmt0, where only a router could take it (rule 32766: from all lookup main)`},
		{name: "a peer's pods by another link of the cluster", bend: func(w *world) { w.route(own, "10.244.2.0/24", "10.40.0.2", "mgmt0") },
			want: "pod-pod pods->pods ipv4 VIOLATED: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6) goes to 10.40.0.2 on mgmt0, which is no node (rule 1001: from 10.244.0.0/16 lookup 47)\n" +
				"MISROUTED: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6): goes to 10.40.0.2 on mgmt0, which is no node (rule 1001: from 10.244.0.0/16 lookup 47)"},
		{name: "main prefers another default", bend: func(w *world) { w.route(main, "0.0.0.0/0", "10.47.0.254", "ingress0") }, want: `
world-node nodes->world ipv4 VIOLATED: this node (10.46.0.1) to the world (192.0.2.1) leaves by ingress0 via 10.47.0.254, not mgmt0 (rule 32766: from all lookup main)
PROVEN`},
		{name: "somebody blocks a peer", bend: func(w *world) {
			w.kernel = w.kernel.After([]routing.Op{{Verb: routing.Add, Route: routing.Route{Table: own, Dst: net("10.244.2.0/24"), Metric: 1, Type: routing.Unreachable}}})
		}, want: `
pod-pod pods->pods ipv4 VIOLATED: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6) unreachable (rule 1001: from 10.244.0.0/16 lookup 47), where pod0 via 10.48.0.2 is planned
PROVEN`},
		{name: "the guard is gone", bend: func(w *world) {
			w.without(func(r routing.Route) bool { return r.Dst == net("10.244.0.0/16") && r.Metric == routing.MetricGuard })
		}, want: "MISROUTED: this node to no host of 10.244.0.0/16 (10.244.95.211): goes to the router 10.40.0.254 on mgmt0 (rule 32766: from all lookup main)"},
		{name: "a guard that nothing needs now is gone", bend: func(w *world) {
			w.without(func(r routing.Route) bool { return r.Dst == net("10.48.0.0/24") && r.Metric == routing.MetricGuard })
		}, want: "NOT PROVEN: the guard of 10.48.0.0/24 is not in the kernel"},
		{name: "the fence is gone", bend: func(w *world) {
			w.without(func(r routing.Route) bool { return r.Dst == net("10.46.0.0/24") && r.Metric == routing.MetricFence })
		}, want: "NOT PROVEN: table pods has a default and no fence for 10.46.0.0/24"},
		{name: "no guard is configured", replace: []string{"guard: {networks: [pods, nodes]}", ""}, want: "NOT PROVEN: there is no guard for pods, nodes"},
		{name: "nodes are not guarded", replace: []string{"guard: {networks: [pods, nodes]}", "guard: {networks: [pods]}"}, want: "NOT PROVEN: there is no guard for nodes"},
		{name: "the guard is rules", replace: []string{"guard: {networks: [pods, nodes]}", "guard: {networks: [pods, nodes], as: rules}"},
			want: "PROVEN\n"},
		{name: "the guard is rules, and all there is", replace: []string{
			"guard: {networks: [pods, nodes]}", "guard: {networks: [pods, nodes], as: rules}", "fence: [pods, services, nodes, loadBalancers]", "fence: [pods, nodes]",
		}, bend: func(w *world) {
			w.kernel.Rules = slices.DeleteFunc(w.kernel.Rules, func(r routing.Rule) bool { return r.Priority == 1000 })
		}, want: `
pod-pod pods->pods ipv6 VIOLATED: pod of k8s-1 (fd00:10:244:1::6) to pod of k8s-2 (fd00:10:244:2::6) leaves by node0 via fd00:46::2, not pod0 (rule 32762: from all to fd00:10:244::/48 lookup main suppress_prefixlength 47)
world-pod pods->world ipv6 VIOLATED: pod of k8s-1 (fd00:10:244:1::6) to the world (2001:db8::1) leaves by mgmt0 via fd00:40::fe, not ingress0 (rule 32766: from all lookup main)
NOT PROVEN: pod of k8s-1 (fd00:10:244:1::6) to no host of fd00:10:244::/48 (fd00:10:244:cdaf:6342:1cf6:73c4:5fd3): goes to the router fd00:40::fe on mgmt0 (rule 32762: from all to fd00:10:244::/48 lookup main suppress_prefixlength 47), by bpf_fib_lookup: no eBPF datapath obeys a guard as rules in IPv6`},
		{name: "no fence is configured", replace: []string{"    fence: [pods, services, nodes, loadBalancers]\n", ""}, want: "NOT PROVEN: table pods has a default and no fence"},
		{name: "forwarding is off", bend: func(w *world) {
			w.real = w.kernel.After([]routing.Op{{Verb: routing.Add, Rule: routing.Rule{
				Family: routing.IPv4, Priority: 1, IIF: "cilium_host", Action: routing.ActionProhibit, SuppressPrefixLen: routing.NoSuppress,
			}}})
		}, want: `
pod-pod pods->pods ipv4 VIOLATED: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6) prohibit, where pod0 via 10.48.0.2 is planned
world-pod pods->world ipv4 VIOLATED: pod of k8s-1 (10.244.1.6) to the world (192.0.2.1) prohibit, where ingress0 via 10.47.0.254 is planned
world-pod loadBalancers->world ipv4 VIOLATED: an address of loadBalancers (10.47.64.6) to the world (192.0.2.1) prohibit, where ingress0 via 10.47.0.254 is planned
NOT PROVEN: pod of k8s-1 (10.244.1.6) to pod of k8s-2 (10.244.2.6): the kernel answers prohibit, its rules and routes give pod0 via 10.48.0.2`},
		{name: "a rule that is not modelled", bend: func(w *world) {
			w.rule(400, "10.244.0.0/16", main)
			for i := range w.kernel.Rules {
				if r := &w.kernel.Rules[i]; r.Priority == 400 {
					r.Opaque, r.Extra = true, "sport 53"
				}
			}
		}, want: "PROVEN\n"},
		{name: "traffic from the world", replace: []string{"traffic: [{from: pods, to: world}, {from: loadBalancers, to: world}]", "traffic: [{from: world, to: pods}]"}, want: `
world-pod world->pods ipv4 WAITING: by which link the world's packets come in is decided outside
world-pod world->pods ipv6 WAITING: by which link the world's packets come in is decided outside
PROVEN`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.nodes == 0 {
				c.nodes = 3
			}
			w := cluster(t, c.nodes, c.replace...)
			if c.bend != nil {
				c.bend(w)
			}
			found, _ := w.verify(promise.Round{})
			if diff := cmp.Diff(strings.TrimSpace(c.want), strings.TrimSpace(tell(found))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if found.Checked != found.Flows {
				t.Errorf("checked %d of %d flows", found.Checked, found.Flows)
			}
		})
	}
}

// TestRounds wants every flow to have its turn, and those in trouble or of nodes
// that changed every time.
func TestRounds(t *testing.T) {
	t.Parallel()
	w := cluster(t, 120)
	v := w.view()
	all := v.Round(promise.Round{})
	const budget = 100
	changed := pods(77, routing.IPv4)
	trouble := all.List[len(all.List)-1].Flow
	seen := map[routing.Flow]bool{}
	cursor, rounds := 0, 0
	for {
		r := v.Round(promise.Round{Cursor: cursor, Budget: budget, Always: []routing.Flow{trouble}, Changed: map[netip.Prefix]bool{changed: true}})
		if r.Flows != all.Flows || len(r.List) > 3*budget {
			t.Fatalf("a round of %d of %d flows", len(r.List), r.Flows)
		}
		flows := r.Questions()
		if !slices.Contains(flows, trouble) || !slices.ContainsFunc(flows, func(f routing.Flow) bool { return changed.Contains(f.Dst) }) {
			t.Fatalf("round %d leaves out what changed or is in trouble", rounds)
		}
		found := v.Conclude(r, make([]routing.Answer, len(r.List)))
		for _, p := range found.Promises {
			if p.Checked == 0 {
				t.Fatalf("round %d looks at nothing of %+v", rounds, p)
			}
		}
		for _, f := range flows {
			seen[f] = true
		}
		rounds++
		if cursor = r.Cursor; rounds == r.Rounds {
			break
		}
	}
	for _, f := range all.Questions() {
		if !seen[f] {
			t.Fatalf("%d rounds leave out %+v", rounds, f)
		}
	}
	if found, _ := w.verify(promise.Round{Budget: budget}); found.Checked >= found.Flows {
		t.Errorf("checked %d of %d flows", found.Checked, found.Flows)
	}
}

// TestTroubled wants what stands badly to be named, so that it is looked at
// again, and to be bounded.
func TestTroubled(t *testing.T) {
	t.Parallel()
	w := cluster(t, 200)
	if found, _ := w.verify(promise.Round{}); len(found.Troubled) != 0 {
		t.Fatal(found.Troubled)
	}
	w.route(47, "10.244.2.0/25", "10.47.0.254", "ingress0")
	found, _ := w.verify(promise.Round{})
	if len(found.Troubled) == 0 || !net("10.244.2.0/25").Contains(found.Troubled[0].Dst) {
		t.Fatal(found.Troubled)
	}
	w.down("pod0")
	if found, _ = w.verify(promise.Round{}); len(found.Troubled) != 100 {
		t.Fatal(len(found.Troubled))
	}
}

func BenchmarkRound(b *testing.B) {
	for _, n := range []int{3, 500, 5000} {
		w := cluster(b, n, "10.244.0.0/16", "10.0.0.0/9", "10.46.0.0/24", "10.46.0.0/16")
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v := w.view()
				checks := v.Round(promise.Round{Budget: 200})
				v.Conclude(checks, make([]routing.Answer, len(checks.List)))
			}
		})
	}
}
