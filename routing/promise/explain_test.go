package promise_test

import (
	"fmt"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// explain asks a question and completes the answers.
func (w *world) explain(q routing.Question) ([]*routing.Explanation, error) {
	v := w.view()
	list, err := v.Ask(q)
	real := w.real
	if real == nil {
		real = w.kernel
	}
	f := fib.New(real)
	for _, e := range list {
		v.Explain(e, w.answer(f, e.Flow))
	}
	return list, err
}

// TestAsk says what questions become, and what of them is refused.
func TestAsk(t *testing.T) {
	t.Parallel()
	w := cluster(t, 3)
	for _, c := range []struct {
		q    routing.Question
		want string // one line for each family, or the error
	}{
		{routing.Question{Dst: "pod", Src: "pod"}, "pod of k8s-1 10.244.1.6 in cilium_host to pod of k8s-2 10.244.2.6\npod of k8s-1 fd00:10:244:1::6 in cilium_host to pod of k8s-2 fd00:10:244:2::6"},
		{routing.Question{Dst: "pod", Src: "pod", Family: routing.IPv6}, "pod of k8s-1 fd00:10:244:1::6 in cilium_host to pod of k8s-2 fd00:10:244:2::6"},
		{routing.Question{Dst: "node", Family: routing.IPv4}, "this node to node k8s-2 10.46.0.2"},
		{routing.Question{Dst: "node", Src: "node", Family: routing.IPv4}, "this node 10.46.0.1 to node k8s-2 10.46.0.2"},
		{routing.Question{Dst: "k8s-3", Src: "k8s-1", Family: routing.IPv4}, "this node 10.46.0.1 to node k8s-3 10.46.0.3"},
		{routing.Question{Dst: "k8s-1", Src: "k8s-2", Family: routing.IPv4}, "node k8s-2 10.46.0.2 in node0 to node k8s-1 10.46.0.1"},
		{routing.Question{Dst: "world", Src: "vip", Family: routing.IPv4}, "an address of loadBalancers 10.47.64.6 in cilium_host to the world 192.0.2.1"},
		{routing.Question{Dst: "vip", Src: "world", Family: routing.IPv4}, "the world 192.0.2.1 in ingress0 to an address of loadBalancers 10.47.64.6"},
		{routing.Question{Dst: "10.244.1.9", Src: "10.244.2.9"}, "pod of k8s-2 10.244.2.9 in pod0 to pod of k8s-1 10.244.1.9"},
		{routing.Question{Dst: "10.244.2.9", Src: "10.244.1.9", In: "lxc1"}, `in: there is no link "lxc1"`},
		{routing.Question{Dst: "10.244.2.9", Src: "10.46.0.1", In: "pod0"}, "this node 10.46.0.1 in pod0 to pod of k8s-2 10.244.2.9"},
		{routing.Question{Dst: "8.8.8.8", Src: "10.47.64.99"}, "an address of loadBalancers 10.47.64.99 in cilium_host to the world 8.8.8.8"},
		{routing.Question{Dst: "10.47.0.254"}, "this node to a router 10.47.0.254"},
		{routing.Question{Dst: "10.40.0.9"}, "this node to an address of a link's network 10.40.0.9"},
		{routing.Question{}, "dst: is required"},
		{routing.Question{Dst: "k8s-9"}, `dst: "k8s-9" is no address, no node, and none of pod, node, world, vip`},
		{routing.Question{Dst: "pod", Src: "10.244.0.0/16"}, `src: "10.244.0.0/16" is no address, no node, and none of pod, node, world, vip`},
		{routing.Question{Dst: "10.1.1.1", Src: "fd00::1"}, "src: fd00::1 is of another family"},
		{routing.Question{Dst: "fd00::1", Family: routing.IPv4}, "dst: fd00::1 is of another family"},
		{routing.Question{Dst: "fe80::1%eth0"}, "dst: an address without a zone is wanted, IPv4 as such"},
		{routing.Question{Dst: "::ffff:10.1.1.1"}, "dst: an address without a zone is wanted, IPv4 as such"},
		{routing.Question{Dst: "10.1.1.1", In: "pod0"}, "src: a packet that arrives by a link has a source"},
		{routing.Question{Dst: "10.1.1.1", Src: "10.244.77.1"}, "src: no link leads to 10.244.77.1: say by --in where it arrives"},
	} {
		list, err := w.view().Ask(c.q)
		var lines []string
		for _, e := range list {
			line := e.Src
			if e.Flow.Src.IsValid() {
				line += " " + e.Flow.Src.String()
			}
			if e.Flow.IIF != "" {
				line += " in " + e.Flow.IIF
			}
			lines = append(lines, fmt.Sprintf("%s to %s %s", line, e.Dst, e.Flow.Dst))
		}
		got := strings.Join(lines, "\n")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.q, got, c.want)
		}
	}
}

// TestNobodyToAsk asks where there is nothing that the words stand for.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	w := cluster(t, 1, "  loadBalancers: [10.47.64.0/24, \"fd00:47:64::/112\"]\n", "  loadBalancers: [10.46.0.1/32]\n",
		"advertise: {networks: [loadBalancers]}", "advertise: {}")
	for _, c := range []struct{ dst, src, want string }{
		{"pod", "", "dst: no other node has an ipv4 address for pod"},
		{"node", "", "dst: no other node has an ipv4 address for node"},
		{"vip", "", "dst: no network of load balancers has ipv4 addresses: name theirs in networks: loadBalancers"},
		{"world", "vip", "src: no network of load balancers has ipv4 addresses: name theirs in networks: loadBalancers"},
	} {
		if _, err := w.view().Ask(routing.Question{Dst: c.dst, Src: c.src}); err == nil || err.Error() != c.want {
			t.Errorf("%s from %s: %v, want %s", c.dst, c.src, err, c.want)
		}
	}
	w.nodes = &routing.Inventory{}
	if _, err := w.view().Ask(routing.Question{Dst: "world", Src: "pod"}); err == nil || err.Error() != "src: this node is not known yet" {
		t.Error(err)
	}
}

// TestVerdicts gives each verdict its reasons.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	const main, own = routing.MainID, routing.TableID(47)
	for _, c := range []struct {
		name     string
		bend     func(w *world)
		dst, src string
		want     string
	}{
		{"by its class's link", nil, "10.244.2.5", "pod", "OK pod-pod: leaves by pod0, the link of pod-pod"},
		{"no class's", nil, "10.48.0.2", "", "OK : no class promises anything about it"},
		{"pods to nodes are no class's", nil, "10.46.0.2", "pod", "OK : no class promises anything about it"},
		{"to this node", nil, "10.46.0.1", "pod", "OK : is delivered on this node"},
		{"to its own pods", nil, "10.244.1.9", "", "OK : no class promises anything about it"},
		{"never translated", nil, "10.96.0.10", "pod", "UNREACHABLE : a service proxy is to translate this before it is looked up; as it is, it is stopped here (rule 1001: from 10.244.0.0/16 lookup 47)"},
		{"a load balancer's, from the world", nil, "vip", "world",
			"UNREACHABLE : a service proxy is to translate this before it is looked up; as it is, it is stopped here (rule 32761: from all to 10.47.64.0/24 iif ingress0 unreachable)"},
		{"a pod of this node, stopped", func(w *world) {
			w.kernel = w.kernel.After([]routing.Op{{Verb: routing.Add, Rule: routing.Rule{
				Family: routing.IPv4, Priority: 900, To: net("10.244.1.0/24"), IIF: "ingress0", Action: routing.ActionUnreachable, SuppressPrefixLen: routing.NoSuppress,
			}}})
		}, "10.244.1.9", "world", "UNREACHABLE : it is stopped here (rule 900: from all to 10.244.1.0/24 iif ingress0 unreachable), failed"},
		{"multicast", nil, "224.0.0.1", "pod", "OK : multicast and broadcast are no class's: they stay on their link"},
		{"multicast in IPv6", nil, "ff02::1", "", "OK : multicast and broadcast are no class's: they stay on their link"},
		{"broadcast", nil, "255.255.255.255", "", "OK : multicast and broadcast are no class's: they stay on their link"},
		{"a service's, from this node", nil, "10.96.0.10", "", "OK : a service proxy is to translate this; as it is, it leaves by mgmt0 via 10.40.0.254"},
		{"a load balancer's, from this node", nil, "10.47.64.10", "node", "OK : a service proxy is to translate this; as it is, it leaves by mgmt0 via 10.40.0.254"},
		{"nobody's pod, from this node", func(w *world) { w.route(main, "10.244.9.0/24", "10.40.0.254", "mgmt0") }, "10.244.9.9", "",
			"WRONG LINK node-node: goes to the router 10.40.0.254 on mgmt0 (rule 32766: from all lookup main), failed"},
		{"nobody's pod", nil, "10.244.9.9", "pod", "UNREACHABLE pod-pod: nobody has this address, and it is stopped here (rule 1001: from 10.244.0.0/16 lookup 47)"},
		{"a peer's pod with every link down", func(w *world) { w.down("pod0"); w.down("node0") }, "10.244.2.5", "pod",
			"UNREACHABLE pod-pod: unreachable: link pod0 is down, failed"},
		{"the fallback", func(w *world) { w.down("pod0") }, "10.244.2.5", "pod", "SHARED pod-pod: leaves by node0 via 10.46.0.2: link pod0 is down"},
		{"another link for the world", func(w *world) { w.down("ingress0"); w.converge(true) }, "192.0.2.1", "pod",
			"SHARED world-pod: leaves by mgmt0 via 10.40.0.254: link ingress0 is down"},
		{"a foreign rule", func(w *world) { w.rule(500, "10.244.0.0/16", main) }, "10.244.2.5", "pod",
			"WRONG LINK pod-pod: leaves by node0 via 10.46.0.2, not pod0 (rule 500: from 10.244.0.0/16 lookup main), failed"},
		{"a foreign route to the router", func(w *world) { w.route(own, "10.46.0.2/32", "10.47.0.254", "ingress0") }, "10.46.0.2", "pod",
			"WRONG LINK : goes to the router 10.47.0.254 on ingress0 (rule 1001: from 10.244.0.0/16 lookup 47), failed"},
		{"only eBPF would go wrong", func(w *world) { w.throw("fd00:10:244:2::/64") }, "fd00:10:244:2::5", "pod",
			"WRONG LINK pod-pod: leaves by node0 via fd00:46::2, not pod0 (rule 32766: from all lookup main), failed"},
		{"the kernel says otherwise", func(w *world) {
			other := *w
			other.rule(1, "10.244.0.0/16", main)
			w.real = other.kernel
		}, "10.244.2.5", "pod", "WRONG LINK pod-pod: leaves by node0 via 10.46.0.2, not pod0, failed; the kernel answers node0 via 10.46.0.2, its rules and routes give pod0 via 10.48.0.2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := cluster(t, 3)
			if c.bend != nil {
				c.bend(w)
			}
			list, err := w.explain(routing.Question{Dst: c.dst, Src: c.src})
			if err != nil {
				t.Fatal(err)
			}
			e := list[0]
			got := fmt.Sprintf("%s %s: %s", e.Verdict, e.Class, e.Reason)
			if e.Failed {
				got += ", failed"
			}
			if e.Disagreement != "" {
				got += "; " + e.Disagreement
			}
			if got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			if e.Dst == "several hosts at once" {
				return
			}
			if len(e.Steps) == 0 || e.Steps[0].Rule.Table != routing.LocalID {
				t.Errorf("steps %+v", e.Steps)
			}
		})
	}
}

// throw puts a throw route before ours.
func (w *world) throw(dst string) {
	w.kernel = w.kernel.After([]routing.Op{{Verb: routing.Add, Route: routing.Route{
		Table: 47, Dst: net("%s", dst), Metric: 1, Type: routing.Throw, Protocol: routing.ProtocolBoot,
	}}})
}
