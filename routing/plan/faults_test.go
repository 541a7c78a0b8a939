package plan_test

import (
	"net/netip"
	"testing"

	"netclass.dev/routing"
)

// What one fault changes against the healthy node, in one family, and what is
// said about it. The kernel is as planned when the fault comes.
func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		name   string
		bend   func(w *world)
		family routing.Family // IPv4 unless given
		want   string
		says   []string
		both   bool // the other family changes too
	}{
		{
			name: "pod0 is down: the fallback alone", bend: func(w *world) { w.link("pod0").Up = false }, both: true,
			want: `
				- 10.48.0.0/24 dev pod0 table 47 metric 10
				- 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
				- 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10`,
			says: []string{"class/pod-pod Waiting: link pod0 is down", "waiting pods: connected pod0: link pod0 is down"},
		},
		{
			name: "pod0 is down and has lost its IPv6 addresses: fence and guard of its network stay", family: routing.IPv6, both: true,
			bend: func(w *world) {
				l := w.link("pod0")
				l.Up, l.Carrier = false, false
				l.Addrs = l.Addrs[:1]
			},
			want: `
				- fd00:48::/64 dev pod0 table 47 metric 10
				- fd00:10:244:2::/64 via fd00:48::2 dev pod0 table 47 metric 10
				- fd00:10:244:3::/64 via fd00:48::3 dev pod0 table 47 metric 10`,
		},
		{
			name: "pod0 has no carrier", bend: func(w *world) { w.link("pod0").Carrier = false }, both: true,
			want: `
				- 10.48.0.0/24 dev pod0 table 47 metric 10
				- 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
				- 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10`,
			says: []string{"class/pod-pod Waiting: link pod0 has no carrier"},
		},
		{
			name: "pod0 does not exist any more", bend: func(w *world) { w.removeLink("pod0") }, both: true,
			want: `
				- 10.48.0.0/24 dev pod0 table 47 metric 10
				- 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
				- 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10`,
			says: []string{"class/pod-pod Waiting: link pod0 does not exist", "waiting pods: connected pod0: link pod0 does not exist"},
		},
		{
			name: "pod0 has lost its IPv4 address", bend: func(w *world) { l := w.link("pod0"); l.Addrs = l.Addrs[1:] },
			want: `
				- 10.48.0.0/24 dev pod0 table 47 metric 10
				- 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
				- 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10`,
			says: []string{
				"waiting pods: connected pod0: link pod0 has no ipv4 address",
				"class/pod-pod OnFallback: 2 of 4 pod CIDRs of peers are not reached over pod0",
			},
		},
		{
			name: "pod0's IPv6 address is tentative", family: routing.IPv6,
			bend: func(w *world) { w.link("pod0").Addrs[1].Tentative = true },
			want: `
				- fd00:48::/64 dev pod0 table 47 metric 10
				- fd00:10:244:2::/64 via fd00:48::2 dev pod0 table 47 metric 10
				- fd00:10:244:3::/64 via fd00:48::3 dev pod0 table 47 metric 10`,
			says: []string{"connected pod0: link pod0 address fd00:48::1 is tentative"},
		},
		{
			name: "pod0's IPv6 address is a duplicate", family: routing.IPv6,
			bend: func(w *world) { w.link("pod0").Addrs[1].DADFailed = true },
			want: `
				- fd00:48::/64 dev pod0 table 47 metric 10
				- fd00:10:244:2::/64 via fd00:48::2 dev pod0 table 47 metric 10
				- fd00:10:244:3::/64 via fd00:48::3 dev pod0 table 47 metric 10`,
			says: []string{"connected pod0: link pod0 address fd00:48::1 is a duplicate (DAD failed)"},
		},
		{
			name: "pod0 is renumbered", bend: func(w *world) { w.link("pod0").Addrs[0].Prefix = netip.MustParsePrefix("10.49.0.1/24") },
			want: `
				- unreachable 10.48.0.0/24 metric 4294967295
				+ unreachable 10.49.0.0/24 metric 4294967295
				- 10.48.0.0/24 dev pod0 table 47 metric 10
				+ 10.49.0.0/24 dev pod0 table 47 metric 10
				- unreachable 10.48.0.0/24 table 47 metric 4000
				+ unreachable 10.49.0.0/24 table 47 metric 4000
				- 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
				- 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10`,
		},
		{
			name: "node0 is down: no fallback", bend: func(w *world) { w.link("node0").Up = false }, both: true,
			want: `
				- 10.46.0.0/24 dev node0 table 47 metric 10
				- 10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 2000
				- 10.244.3.0/24 via 10.46.0.3 dev node0 table 47 metric 2000`,
			says: []string{"waiting pods: fallback to 10.244.2.0/24: link node0 is down", "class/node-node Waiting"},
		},
		{
			name: "ingress0 is down: no default, the fence stays", bend: func(w *world) { w.link("ingress0").Up = false }, both: true,
			want: `
				- default via 10.47.0.254 dev ingress0 table 47 metric 10
				- 10.47.0.0/24 dev ingress0 table 47 metric 10`,
			says: []string{"waiting pods: ipv4 default: link ingress0 is down", "class/world-pod Waiting: link ingress0 is down"},
		},
		{
			name: "own link is missing: main delivers", bend: func(w *world) { w.removeLink("cilium_host") }, both: true,
			want: `
				- 10.244.1.0/24 dev cilium_host table 47 metric 10
				+ throw 10.244.1.0/24 table 47 metric 10`,
			says: []string{"waiting pods: own 10.244.1.0/24: link cilium_host does not exist"},
		},
		{
			name: "own link is down: main delivers", bend: func(w *world) { w.link("cilium_host").Up = false }, both: true,
			want: `
				- 10.244.1.0/24 dev cilium_host table 47 metric 10
				+ throw 10.244.1.0/24 table 47 metric 10`,
			says: []string{"own 10.244.1.0/24: link cilium_host is down"},
		},
		{
			name: "this node has no pod CIDR", bend: func(w *world) { w.node("k8s-1").PodCIDRs = nil }, both: true,
			want: `- 10.244.1.0/24 dev cilium_host table 47 metric 10`,
			says: []string{"waiting pods: own: node k8s-1 has no pod CIDR yet"},
		},
		{
			name: "a peer has no pod CIDR", both: true,
			bend: func(w *world) { w.node("k8s-2").PodCIDRs = nil; w.converge() },
			want: `
				- 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
				- 10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 2000`,
			says: []string{"waiting pods: peer k8s-2: it has no pod CIDR yet"},
		},
		{
			name: "a peer leaves the inventory while it still announces: the inventory beats the session", both: true,
			bend: func(w *world) { w.removeNode("k8s-3"); w.peering("k8s-3", routing.IPv4).Held = true },
			want: `
				- 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10
				- 10.244.3.0/24 via 10.46.0.3 dev node0 table 47 metric 2000`,
		},
		{
			name: "a peer's pod CIDR moves to another node", bend: func(w *world) {
				w.removeNode("k8s-3")
				w.node("k8s-2").PodCIDRs = prefixes("10.244.2.0/24", "fd00:10:244:2::/64", "10.244.3.0/24")
				w.converge()
			}, both: true,
			want: `
				- 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10
				- 10.244.3.0/24 via 10.46.0.3 dev node0 table 47 metric 2000
				+ 10.244.3.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
				+ 10.244.3.0/24 via 10.46.0.2 dev node0 table 47 metric 2000`,
		},
		{
			name: "a peer has no InternalIP", bend: func(w *world) { w.node("k8s-2").InternalIPs = []netip.Addr{addr("fd00:46::2")} },
			want: `- 10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 2000`,
			says: []string{"fallback to 10.244.2.0/24: node k8s-2 has no ipv4 InternalIP"},
		},
		{
			name: "a peer's InternalIP is not on node0", bend: func(w *world) { w.node("k8s-2").InternalIPs[0] = addr("10.99.0.2") },
			want: `- 10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 2000`,
			says: []string{"fallback to 10.244.2.0/24: next hop 10.99.0.2 is in no network of node0"},
		},
		{
			name: "a peer's InternalIP is ours", bend: func(w *world) { w.node("k8s-2").InternalIPs[0] = addr("10.46.0.1") },
			want: `- 10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 2000`,
			says: []string{"fallback to 10.244.2.0/24: next hop 10.46.0.1 is this node's own address"},
		},
		{
			name: "a peer's annotation is missing", bend: func(w *world) { delete(w.node("k8s-2").Annotations, "net.renner.uno/pod0-v4") },
			want: `- 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10`,
			says: []string{"peer/k8s-2/ipv4 NoSession: no session with k8s-2: node k8s-2 has no annotation net.renner.uno/pod0-v4"},
		},
		{
			name: "a peer's annotation is mistyped: the last good value stays", want: "",
			bend: func(w *world) { w.node("k8s-2").Annotations["net.renner.uno/pod0-v4"] = "10.48.0.2/24" },
			says: []string{`node/k8s-2 MalformedAnnotation: node k8s-2: annotation net.renner.uno/pod0-v4: not an address: "10.48.0.2/24"; the last good value 10.48.0.2 stays`},
		},
		{
			name: "a peer's annotation is of the other family: the last good value stays", want: "",
			bend: func(w *world) { w.node("k8s-2").Annotations["net.renner.uno/pod0-v4"] = "fd00:48::2" },
			says: []string{`not an ipv4 address: "fd00:48::2"; the last good value 10.48.0.2 stays`},
		},
		{
			name: "a peer's annotation is mistyped after a restart: what the kernel has stays", want: "",
			bend: func(w *world) {
				w.node("k8s-2").Annotations["net.renner.uno/pod0-v4"] = "10.48.0"
				w.Speaking = nil
			},
			says: []string{"the last good value 10.48.0.2 stays"},
		},
		{
			name: "the gateway's annotation is missing", bend: func(w *world) { delete(w.node("k8s-1").Annotations, "net.renner.uno/egress-gw-v4") },
			want: `
				- default via 10.47.0.254 dev ingress0 table 47 metric 10
				- 32761: from all to 10.47.64.0/24 iif ingress0 unreachable`,
			says: []string{
				"waiting pods: ipv4 default: node k8s-1 has no annotation net.renner.uno/egress-gw-v4",
				"peer/udm/ipv4 NoSession", "class/world-pod Waiting: ipv4 default: ",
			},
		},
		{
			name: "the gateway's annotation is mistyped: the last good value stays", want: "",
			bend: func(w *world) { w.node("k8s-1").Annotations["net.renner.uno/egress-gw-v4"] = "router" },
			says: []string{`not an address: "router"; the last good value 10.47.0.254 stays`},
		},
		{
			name: "the gateway is not on its link", bend: func(w *world) { w.node("k8s-1").Annotations["net.renner.uno/egress-gw-v4"] = "10.99.0.1" },
			want: `
				- default via 10.47.0.254 dev ingress0 table 47 metric 10
				- 32761: from all to 10.47.64.0/24 iif ingress0 unreachable`,
			says: []string{"ipv4 default: next hop 10.99.0.1 is in no network of ingress0"},
		},
		{
			name: "the gateway is this node", bend: func(w *world) { w.node("k8s-1").Annotations["net.renner.uno/egress-gw-v4"] = "10.47.0.1" },
			want: `
				- default via 10.47.0.254 dev ingress0 table 47 metric 10
				- 32761: from all to 10.47.64.0/24 iif ingress0 unreachable`,
			says: []string{"ipv4 default: next hop 10.47.0.1 is this node's own address", "its address 10.47.0.1 is our own"},
		},
		{
			name: "a class link is on another VLAN", want: "",
			bend: func(w *world) { w.link("pod0").VLAN = 49 },
			says: []string{"class/pod-pod OtherVLAN: link pod0 is on VLAN 49, not 48"},
		},
		{
			name: "ceph-san is back in this namespace: its network is fenced and guarded", both: true,
			bend: func(w *world) {
				w.Kernel.Links = append(w.Kernel.Links, upLink("ceph-san", "10.49.0.1/24", "fd00:49::1/64"))
			},
			want: `
				+ unreachable 10.49.0.0/24 metric 4294967295
				+ unreachable 10.49.0.0/24 table 47 metric 4000`,
		},
		{
			name: "a node without node0 does not guard nodes: it must still reach them", both: true,
			bend: func(w *world) { w.removeLink("node0"); w.Ledger.Links = nil },
			want: `
				- unreachable 10.46.0.0/24 metric 4294967295
				- 10.46.0.0/24 dev node0 table 47 metric 10
				- 10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 2000
				- 10.244.3.0/24 via 10.46.0.3 dev node0 table 47 metric 2000`,
			says: []string{"guard/nodes NoClassLink: nodes is not guarded here: this node has no link node0"},
		},
		{
			name: "node0 is gone for the moment: the guard stays", both: true,
			bend: func(w *world) { w.removeLink("node0") },
			want: `
				- 10.46.0.0/24 dev node0 table 47 metric 10
				- 10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 2000
				- 10.244.3.0/24 via 10.46.0.3 dev node0 table 47 metric 2000`,
		},
		{
			name: "a foreign route stands in the fence's place: no default", bend: func(w *world) {
				w.addRoutes(routing.Route{Table: 47, Dst: netip.MustParsePrefix("10.96.0.0/16"), Metric: routing.MetricFence,
					Via: addr("10.40.0.254"), Link: "mgmt0", Protocol: routing.ProtocolStatic})
			},
			want: `
				- default via 10.47.0.254 dev ingress0 table 47 metric 10
				- unreachable 10.96.0.0/16 table 47 metric 4000`,
			says: []string{"table/pods ForeignRoute", "ipv4 default: the fence of 10.96.0.0/16 cannot be installed"},
		},
		{
			name: "a foreign route stands in a path's place", bend: func(w *world) {
				w.addRoutes(routing.Route{Table: 47, Dst: netip.MustParsePrefix("10.244.2.0/24"), Metric: routing.MetricPath,
					Via: addr("10.48.0.2"), Link: "pod0", Protocol: routing.ProtocolBIRD})
			},
			want: `- 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10`,
			says: []string{"table/pods ForeignRoute", "protocol bird (12) has"},
		},
		{
			name: "a pod CIDR is a connected network", bend: func(w *world) {
				w.node("k8s-2").PodCIDRs[0] = netip.MustParsePrefix("10.48.0.0/24")
				w.converge()
			},
			want: `
				+ 10.48.0.0/24 via 10.46.0.2 dev node0 table 47 metric 2000
				- 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
				- 10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 2000`,
			says: []string{"table/pods SamePrefix"},
		},
		{
			name: "the rule that delivers local packets has moved to 100", want: "",
			bend: func(w *world) { w.Kernel.Rules[0].Priority = 100 },
		},
		{
			name: "the rule that delivers local packets stands after ours",
			bend: func(w *world) { w.Kernel.Rules[0].Priority = 1002 },
			want: `- 1001: from 10.244.0.0/16 lookup 47`,
			says: []string{"BeforeLocal", "waiting pods: rule 1001: from 10.244.0.0/16 lookup 47: it would come before local delivery"},
		},
		{
			name: "there is a second rule for local packets: the first counts", want: "",
			bend: func(w *world) {
				second := w.Kernel.Rules[0]
				second.Priority = 5000
				w.Kernel.Rules = append(w.Kernel.Rules, second)
			},
		},
		{
			name: "the VRF rule stands at a priority of ours", want: "", family: routing.IPv6,
			bend: func(w *world) {
				for _, f := range routing.Families {
					w.Kernel.Rules = append(w.Kernel.Rules, routing.Rule{Family: f, Priority: 1000, L3MDev: true, Protocol: routing.ProtocolKernel, SuppressPrefixLen: routing.NoSuppress})
				}
			},
			says: []string{`ForeignRule: protocol kernel (2) has the rule "1000: from all [l3mdev-table]" at the same priority`},
		},
		{
			name: "a static twin of our rule costs nothing", want: "",
			bend: func(w *world) {
				w.Kernel.Rules = append(w.Kernel.Rules, routing.Rule{Family: routing.IPv4, Priority: 1001, From: netip.MustParsePrefix("10.244.0.0/16"),
					Table: 47, Protocol: routing.ProtocolStatic, SuppressPrefixLen: routing.NoSuppress})
			},
		},
		{
			name: "a rule's set contains this node's own address", bend: func(w *world) {
				w.Config.Networks[0].Prefixes = prefixes("10.0.0.0/8", "fd00:10:244::/48")
			},
			want: `
				- unreachable 10.244.0.0/16 metric 4294967295
				+ unreachable 10.0.0.0/8 table 47 metric 4000
				- unreachable 10.244.0.0/16 table 47 metric 4000
				- 1001: from 10.244.0.0/16 lookup 47
				- 32761: from all to 10.47.64.0/24 iif ingress0 unreachable`,
			says: []string{
				"peer/udm/ipv4 NotAdvertised: 10.47.64.0/24 is not advertised: it overlaps 10.0.0.0/8 of pods, which no router may lead to",
				"table/pods FromContainsNodeAddress: the rule from 10.0.0.0/8 is not installed: it contains this node's own address 10.48.0.1",
				"guard/10.0.0.0/8 GuardTooWide", "FenceTooWide",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := seed()
			healthy := w.settle()
			tc.bend(w)
			p := w.make()
			f := tc.family
			if f == 0 {
				f = routing.IPv4
			}
			wantChanges(t, "changes", changes(healthy, p, f), tc.want)
			other := routing.IPv4 + routing.IPv6 - f
			if c := changes(healthy, p, other); c != "" && !tc.both {
				t.Errorf("%s changes too:\n%s", other, c)
			}
			wantSaid(t, p, tc.says...)
			if tc.want == "" && len(tc.says) == 0 && said(p) != "" {
				t.Errorf("something is said:\n%s", said(p))
			}
		})
	}
}
