package plan_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/plan"
)

// Each source of a table alone: what it plans, and that it needs nothing else.
func TestSourceAlone(t *testing.T) {
	for _, tc := range []struct {
		name string
		bend func(table *routing.Table, w *world)
		want string
	}{
		{"nothing", func(*routing.Table, *world) {}, ""},
		{"connected", func(t *routing.Table, _ *world) { t.Routes.Connected = []string{"pod0", "mgmt0"} }, `
			10.40.0.0/24 dev mgmt0 table 47 metric 10
			10.48.0.0/24 dev pod0 table 47 metric 10`},
		{"connected, two links in one network", func(t *routing.Table, w *world) {
			t.Routes.Connected = []string{"pod0", "pod1"}
			w.Kernel.Links = append(w.Kernel.Links, upLink("pod1", "10.48.0.11/24", "10.50.0.1/24"))
		}, `
			10.48.0.0/24 dev pod0 table 47 metric 10
			10.50.0.0/24 dev pod1 table 47 metric 10`},
		{"connected, a host address makes no network", func(t *routing.Table, w *world) {
			t.Routes.Connected = []string{"cilium_host"}
		}, ""},
		{"connected, a second address in the network", func(t *routing.Table, w *world) {
			t.Routes.Connected = []string{"pod0"}
			w.link("pod0").Addrs = append(w.link("pod0").Addrs, routing.LinkAddr{Prefix: netip.MustParsePrefix("10.48.0.9/24"), Secondary: true})
		}, `10.48.0.0/24 dev pod0 table 47 metric 10`},
		{"own by link", func(t *routing.Table, _ *world) { t.Routes.Own = &routing.Own{Link: "cilium_host"} }, `
			10.244.1.0/24 dev cilium_host table 47 metric 10`},
		{"own as blackhole", func(t *routing.Table, _ *world) { t.Routes.Own = &routing.Own{Type: routing.Blackhole} }, `
			blackhole 10.244.1.0/24 table 47 metric 10`},
		{"own by a link that is not there", func(t *routing.Table, _ *world) { t.Routes.Own = &routing.Own{Link: "cni0"} }, `
			throw 10.244.1.0/24 table 47 metric 10`},
		{"own, several CIDRs", func(t *routing.Table, w *world) {
			t.Routes.Own = &routing.Own{Link: "cilium_host"}
			w.node("k8s-1").PodCIDRs = prefixes("10.244.1.0/24", "10.244.7.0/24")
		}, `
			10.244.1.0/24 dev cilium_host table 47 metric 10
			10.244.7.0/24 dev cilium_host table 47 metric 10`},
		{"peers by BGP", func(t *routing.Table, _ *world) {
			t.Routes.Peers = &routing.Peers{Link: "pod0", Learn: routing.LearnBGP, NextHop: routing.HopLink, Accept: routing.AcceptAssigned}
		}, `
			10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
			10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10`},
		{"peers by nodes", func(t *routing.Table, w *world) {
			t.Routes.Peers = &routing.Peers{Link: "pod0", Learn: routing.LearnNodes, NextHop: routing.HopLink}
			w.Config.BGP, w.Peerings = nil, nil
		}, `
			10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
			10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10`},
		{"peers by nodes and InternalIP", func(t *routing.Table, w *world) {
			t.Routes.Peers = &routing.Peers{Link: "node0", Learn: routing.LearnNodes, NextHop: routing.HopInternalIP}
		}, `
			10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 10
			10.244.3.0/24 via 10.46.0.3 dev node0 table 47 metric 10`},
		{"peers by nodes, a link without cluster.addresses", func(t *routing.Table, w *world) {
			t.Routes.Peers = &routing.Peers{Link: "node0", Learn: routing.LearnNodes, NextHop: routing.HopLink}
		}, `
			10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 10
			10.244.3.0/24 via 10.46.0.3 dev node0 table 47 metric 10`},
		{"peers on-link with an MTU", func(t *routing.Table, w *world) {
			t.Routes.Peers = &routing.Peers{Link: "tunl0", Learn: routing.LearnNodes, NextHop: routing.HopInternalIP, OnLink: true, MTU: 1480}
			w.Kernel.Links = append(w.Kernel.Links, upLink("tunl0", "10.244.1.0/32"))
		}, `
			10.244.2.0/24 via 10.46.0.2 dev tunl0 table 47 metric 10 mtu 1480 onlink
			10.244.3.0/24 via 10.46.0.3 dev tunl0 table 47 metric 10 mtu 1480 onlink`},
		{"peers with a fallback by link", func(t *routing.Table, w *world) {
			t.Routes.Peers = &routing.Peers{Link: "pod0", Learn: routing.LearnBGP, NextHop: routing.HopLink, Accept: routing.AcceptAssigned,
				Fallback: routing.Fallback{Link: "node0", NextHop: routing.HopInternalIP}}
			w.Peerings = nil
		}, `
			10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 2000
			10.244.3.0/24 via 10.46.0.3 dev node0 table 47 metric 2000`},
		{"peers with main as fallback", func(t *routing.Table, w *world) {
			t.Routes.Peers = &routing.Peers{Link: "pod0", Learn: routing.LearnBGP, NextHop: routing.HopLink, Accept: routing.AcceptAssigned,
				Fallback: routing.Fallback{Main: true}}
		}, `
			10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
			throw 10.244.2.0/24 table 47 metric 2000
			10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10
			throw 10.244.3.0/24 table 47 metric 2000`},
		{"peers without a fallback, no session", func(t *routing.Table, w *world) {
			t.Routes.Peers = &routing.Peers{Link: "pod0", Learn: routing.LearnBGP, NextHop: routing.HopLink, Accept: routing.AcceptAssigned}
			w.Peerings = nil
		}, ""},
		{"default by annotation", func(t *routing.Table, w *world) { t.Routes.Default = seedConfig().Tables[0].Routes.Default }, `
			default via 10.47.0.254 dev ingress0 table 47 metric 10`},
		{"default by address", func(t *routing.Table, w *world) {
			t.Routes.Default = &routing.Default{Link: "ingress0", Gateway: routing.PerFamily[routing.AddressRef]{IPv4: routing.AddressRef{Addr: addr("10.47.0.9")}}}
			w.Inventory.Nodes, w.Peerings = nil, nil
		}, `default via 10.47.0.9 dev ingress0 table 47 metric 10`},
		{"default, held", func(t *routing.Table, w *world) {
			t.Routes.Default = seedConfig().Tables[0].Routes.Default
			t.Routes.Default.OnLinkDown = routing.LinkDownHold
		}, `
			default via 10.47.0.254 dev ingress0 table 47 metric 10
			unreachable default table 47 metric 5000`},
		{"default, held, link down", func(t *routing.Table, w *world) {
			t.Routes.Default = seedConfig().Tables[0].Routes.Default
			t.Routes.Default.OnLinkDown = routing.LinkDownHold
			w.link("ingress0").Up = false
		}, `unreachable default table 47 metric 5000`},
		{"default, link down", func(t *routing.Table, w *world) {
			t.Routes.Default = seedConfig().Tables[0].Routes.Default
			w.link("ingress0").Up = false
		}, ""},
		{"fence", func(t *routing.Table, w *world) {
			t.Fence = []string{"services"}
		}, `
			unreachable 10.46.0.0/24 table 47 metric 4000
			unreachable 10.48.0.0/24 table 47 metric 4000
			unreachable 10.96.0.0/16 table 47 metric 4000`},
		{"fence, a link with a gateway that is connected", func(t *routing.Table, w *world) {
			t.Fence, t.Routes.Connected = []string{"services"}, []string{"ingress0"}
			w.link("ingress0").Up = false
		}, `
			unreachable 10.46.0.0/24 table 47 metric 4000
			unreachable 10.47.0.0/24 table 47 metric 4000
			unreachable 10.48.0.0/24 table 47 metric 4000
			unreachable 10.96.0.0/16 table 47 metric 4000`},
		{"fence, no class link", func(t *routing.Table, w *world) {
			t.Fence, w.Config.Classes = []string{"services"}, nil
		}, `unreachable 10.96.0.0/16 table 47 metric 4000`},
		{"rules, from and to", func(t *routing.Table, w *world) {
			t.Rules = []routing.Selector{
				{From: "pods", To: "services", Priority: routing.PerFamily[uint32]{IPv4: 900}},
				{To: "nodes", Priority: routing.PerFamily[uint32]{IPv4: 901, IPv6: 902}},
			}
		}, `
			900: from 10.244.0.0/16 to 10.96.0.0/16 lookup 47
			901: from all to 10.46.0.0/24 lookup 47`},
		{"rules, one of each prefix", func(t *routing.Table, w *world) {
			w.Config.Networks[0].Prefixes = prefixes("10.244.0.0/17", "10.244.128.0/17")
			t.Rules = []routing.Selector{{From: "pods", Priority: routing.PerFamily[uint32]{IPv4: 900}}}
		}, `
			900: from 10.244.0.0/17 lookup 47
			900: from 10.244.128.0/17 lookup 47`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := seed()
			w.Config.Guard, w.Config.BGP.Upstreams = nil, nil
			w.Config.Tables = []routing.Table{{Name: "pods", ID: 47}}
			tc.bend(&w.Config.Tables[0], w)
			p := w.make()
			wantText(t, "plan", strings.Join(text(p, routing.IPv4), "\n"), tc.want)
			w.settle()
			if ops := plan.Diff(w.make(), w.Kernel); len(ops) != 0 {
				t.Errorf("a second pass writes:\n%s", opsText(ops))
			}
		})
	}
}

// A default waits for the fence: while a link without a gateway has never shown
// its network, what would have to be fenced is not known.
func TestDefaultWaitsForUnknownNetwork(t *testing.T) {
	w := seed()
	w.link("pod0").Addrs = nil
	p := w.make()
	for _, f := range routing.Families {
		if lines := strings.Join(text(p, f), "\n"); strings.Contains(lines, "default ") {
			t.Errorf("there is a default:\n%s", lines)
		}
	}
	wantSaid(t, p, "ipv4 default: the ipv4 network of pod0 is not known yet, so it cannot be fenced")

	// In one family alone: this node is said to have an IPv6 address there.
	w = seed()
	w.link("pod0").Addrs = w.link("pod0").Addrs[:1]
	p = w.make()
	if lines := strings.Join(text(p, routing.IPv6), "\n"); strings.Contains(lines, "default ") {
		t.Errorf("there is a default:\n%s", lines)
	}
	if lines := strings.Join(text(p, routing.IPv4), "\n"); !strings.Contains(lines, "default ") {
		t.Errorf("there is no default:\n%s", lines)
	}
	wantSaid(t, p, "ipv6 default: the ipv6 network of pod0 is not known yet, so it cannot be fenced")

	// A tunnel has an address and no network: there is nothing to wait for.
	w = seed()
	w.link("pod0").Addrs = upLink("pod0", "10.244.1.9/32", "fd00:10:244:1::9/128").Addrs
	for _, f := range routing.Families {
		if lines := strings.Join(text(w.make(), f), "\n"); !strings.Contains(lines, "default ") {
			t.Errorf("there is no default:\n%s", lines)
		}
	}

	// What was seen once is known for good.
	w = seed()
	w.settle()
	w.link("pod0").Addrs = nil
	if lines := strings.Join(text(w.make(), routing.IPv4), "\n"); !strings.Contains(lines, "default ") {
		t.Errorf("a flap takes the default:\n%s", lines)
	}
}

func TestGuardAsRules(t *testing.T) {
	w := seed()
	w.Config.Guard.AsRules = true
	p := w.make()
	var guard []string
	for _, line := range text(p, routing.IPv4) {
		if strings.HasPrefix(line, "3276") || strings.Contains(line, "4294967295") {
			guard = append(guard, line)
		}
	}
	wantText(t, "guard", strings.Join(guard, "\n"), `
		32762: from all to 10.244.0.0/16 lookup main suppress_prefixlength 15
		32763: from all to 10.244.0.0/16 unreachable
		32762: from all to 10.46.0.0/24 lookup main suppress_prefixlength 23
		32763: from all to 10.46.0.0/24 unreachable
		32762: from all to 10.48.0.0/24 lookup main suppress_prefixlength 23
		32763: from all to 10.48.0.0/24 unreachable
		32761: from all to 10.47.64.0/24 iif ingress0 unreachable`)

	// The lookup half comes first and goes last.
	w.settle()
	var ops []string
	for _, op := range plan.Flush(p.Own, w.Kernel) {
		if op.IsRule() && op.Rule.Priority >= 32762 && op.Family() == routing.IPv4 {
			ops = append(ops, op.Stage.String()+" "+op.Rule.Action.String())
		}
	}
	wantText(t, "flush", strings.Join(ops, "\n"), `
		drop guard unreachable
		drop guard unreachable
		drop guard unreachable
		drop guard lookup lookup
		drop guard lookup lookup
		drop guard lookup lookup`)

	// Where one half cannot be, neither is: the other alone would cut off what
	// main delivers.
	w = seed()
	w.Config.Guard.AsRules = true
	for i := range w.Kernel.Rules {
		if w.Kernel.Rules[i].Table == routing.LocalID {
			w.Kernel.Rules[i].Priority = 32762
		}
	}
	for _, r := range w.make().Rules {
		t.Errorf("planned at or before local delivery, or without its half: %s", r)
	}
}

// From routes to rules and back: the new guard is in before the old goes.
func TestGuardChangesItsForm(t *testing.T) {
	w := seed()
	w.settle()
	for _, rules := range []bool{true, false} {
		w.Config.Guard.AsRules = rules
		ops := plan.Diff(w.make(), w.Kernel)
		added := slices.IndexFunc(ops, func(o routing.Op) bool { return o.Verb == routing.Delete })
		for i, op := range ops {
			if (op.Verb == routing.Delete) != (i >= added) {
				t.Errorf("rules=%v: break before make:\n%s", rules, opsText(ops))
				break
			}
		}
		w.settle()
		if ops := plan.Diff(w.make(), w.Kernel); len(ops) != 0 {
			t.Errorf("rules=%v: a second pass writes:\n%s", rules, opsText(ops))
		}
	}
}

// A guard prefix does not fall because this node's pod CIDR is unknown or its
// CNI bridge has a network of its own.
func TestGuardStandsBesideTheCNI(t *testing.T) {
	for name, bend := range map[string]func(w *world){
		"bridge of the own CIDR": func(w *world) {
			w.Kernel.Links = append(w.Kernel.Links, upLink("cni0", "10.244.1.1/24"))
		},
		"bridge, no pod CIDR": func(w *world) {
			w.Kernel.Links = append(w.Kernel.Links, upLink("cni0", "10.244.1.1/24"))
			w.node("k8s-1").PodCIDRs = nil
		},
		"bridge, own node missing": func(w *world) {
			w.Kernel.Links = append(w.Kernel.Links, upLink("cni0", "10.244.1.1/24"))
			w.removeNode("k8s-1")
		},
		"bridge is the own link, the pod CIDR has moved": func(w *world) {
			w.Config.Tables[0].Routes.Own.Link = "cni0"
			w.Kernel.Links = append(w.Kernel.Links, upLink("cni0", "10.244.9.1/24"))
		},
	} {
		w := seed()
		bend(w)
		if lines := text(w.make(), routing.IPv4); !slices.Contains(lines, "unreachable 10.244.0.0/16 metric 4294967295") {
			t.Errorf("%s: pods are not guarded:\n%s", name, strings.Join(lines, "\n"))
		}
	}
}

// Only what the configuration names is needed.
func TestMinimal(t *testing.T) {
	for _, tc := range []struct {
		name string
		bend func(w *world)
	}{
		{"no guard", func(w *world) { w.Config.Guard = nil }},
		{"no fence", func(w *world) { w.Config.Tables[0].Fence = nil }},
		{"no bgp", func(w *world) { w.Config.BGP = nil }},
		{"no upstreams", func(w *world) { w.Config.BGP.Upstreams = nil }},
		{"no mesh", func(w *world) { w.Config.BGP.Mesh = nil }},
		{"no bgp, peerings left over", func(w *world) { w.Config.BGP = nil; w.converge() }},
		{"no networks", func(w *world) { w.Config.Networks = nil }},
		{"no classes", func(w *world) { w.Config.Classes = nil }},
		{"no cluster", func(w *world) { w.Config.Cluster = nil }},
		{"no tables", func(w *world) { w.Config.Tables = nil }},
		{"no rules", func(w *world) { w.Config.Tables[0].Rules = nil }},
		{"IPv4 only", func(w *world) { w.only(routing.IPv4) }},
		{"IPv6 only", func(w *world) { w.only(routing.IPv6) }},
		{"no InternalIPs", func(w *world) {
			for i := range w.Inventory.Nodes {
				w.Inventory.Nodes[i].InternalIPs = nil
			}
		}},
		{"no annotations", func(w *world) {
			for i := range w.Inventory.Nodes {
				w.Inventory.Nodes[i].Annotations = nil
			}
		}},
		{"no nodes", func(w *world) { w.Inventory.Nodes, w.Peerings = nil, nil }},
		{"no links", func(w *world) { w.Kernel.Links = nil }},
		{"no rules of the kernel", func(w *world) { w.Kernel.Rules = nil }},
		{"only a guard", func(w *world) {
			*w.Config = routing.Config{Daemon: w.Config.Daemon, Networks: w.Config.Networks, Guard: w.Config.Guard}
		}},
		{"nothing", func(w *world) { *w.Config = routing.Config{Daemon: w.Config.Daemon} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := seed()
			tc.bend(w)
			w.settle()
			if ops := plan.Diff(w.make(), w.Kernel); len(ops) != 0 {
				t.Errorf("a second pass writes:\n%s", opsText(ops))
			}
			if p := w.make(); p.Speak != nil && (!p.Speak.RouterID.Is4() || slices.ContainsFunc(p.Speak.Neighbors, func(n routing.Neighbor) bool {
				return !n.Local.IsValid() || !n.Remote.IsValid()
			})) {
				t.Errorf("the speaker is told:\n%s", spoken(p))
			}
		})
	}
}
