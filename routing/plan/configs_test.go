package plan_test

import (
	"net/netip"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/plan"
)

// The seed's older design: peers in one table, egress in another, exceptions as
// rules of main, no fence and no guard.
func TestTwoTables(t *testing.T) {
	w := seed()
	c := w.Config
	c.Guard = nil
	c.BGP.Upstreams = nil
	c.Networks = []routing.Network{
		{Name: "pods", Prefixes: prefixes("10.244.0.0/16", "fd00:10:244::/48")},
		{Name: "native", Prefixes: prefixes("10.0.0.0/8", "fd00::/8")},
	}
	c.Classes = append(c.Classes[:1:1], c.Classes[2], c.Classes[1])
	c.Tables = []routing.Table{
		{
			Name: "peers", ID: 48,
			Rules: []routing.Selector{{From: "pods", To: "pods", Priority: routing.PerFamily[uint32]{IPv6: 980, IPv4: 981}}},
			Routes: routing.Sources{Peers: &routing.Peers{
				Link: "pod0", Learn: routing.LearnBGP, NextHop: routing.HopLink, Accept: routing.AcceptAssigned,
			}},
		},
		{
			Name: routing.MainTable, ID: routing.MainID,
			Rules: []routing.Selector{{To: "native", Priority: routing.PerFamily[uint32]{IPv6: 990, IPv4: 991}}},
		},
		{
			Name: "egress", ID: 47,
			Rules: []routing.Selector{{From: "pods", Priority: routing.PerFamily[uint32]{IPv6: 1000, IPv4: 1001}}},
			Routes: routing.Sources{Default: &routing.Default{Link: "ingress0", Gateway: routing.PerFamily[routing.AddressRef]{
				IPv4: routing.AddressRef{Addr: addr("10.47.0.254")}, IPv6: routing.AddressRef{Addr: addr("fd00:47::fe")},
			}}},
		},
	}
	p := w.make()
	wantText(t, "IPv4", strings.Join(text(p, routing.IPv4), "\n"), `
		default via 10.47.0.254 dev ingress0 table 47 metric 10
		10.244.2.0/24 via 10.48.0.2 dev pod0 table 48 metric 10
		10.244.3.0/24 via 10.48.0.3 dev pod0 table 48 metric 10
		981: from 10.244.0.0/16 to 10.244.0.0/16 lookup 48
		991: from all to 10.0.0.0/8 lookup main
		1001: from 10.244.0.0/16 lookup 47`)
	wantText(t, "IPv6", strings.Join(text(p, routing.IPv6), "\n"), `
		default via fd00:47::fe dev ingress0 table 47 metric 10
		fd00:10:244:2::/64 via fd00:48::2 dev pod0 table 48 metric 10
		fd00:10:244:3::/64 via fd00:48::3 dev pod0 table 48 metric 10
		980: from fd00:10:244::/48 to fd00:10:244::/48 lookup 48
		990: from all to fd00::/8 lookup main
		1000: from fd00:10:244::/48 lookup 47`)
	if s := said(p); s != "" {
		t.Errorf("something is said:\n%s", s)
	}
	// The exceptions come in before and go out after what they are exceptions
	// from.
	var in, out []string
	ops := plan.Diff(p, w.Kernel)
	w.settle()
	for _, op := range append(ops, plan.Flush(p.Own, w.Kernel)...) {
		if op.IsRule() && op.Family() == routing.IPv4 {
			if op.Verb == routing.Add {
				in = append(in, op.Rule.String())
			} else {
				out = append(out, op.Rule.String())
			}
		}
	}
	wantText(t, "rules in", strings.Join(in, "\n"), `
		981: from 10.244.0.0/16 to 10.244.0.0/16 lookup 48
		991: from all to 10.0.0.0/8 lookup main
		1001: from 10.244.0.0/16 lookup 47`)
	wantText(t, "rules out", strings.Join(out, "\n"), `
		1001: from 10.244.0.0/16 lookup 47
		991: from all to 10.0.0.0/8 lookup main
		981: from 10.244.0.0/16 to 10.244.0.0/16 lookup 48`)
}

// kindnet's routing: one route per peer in main, straight from the nodes.
func TestKindnet(t *testing.T) {
	w := &world{routing.Inputs{
		Config: &routing.Config{
			Daemon:   routing.Daemon{Protocol: routing.ProtocolNetclass},
			Networks: []routing.Network{{Name: "pods", Prefixes: prefixes("10.244.0.0/16")}},
			Classes:  []routing.Class{{Name: "pod-pod", Link: "eth0", Traffic: []routing.Traffic{{From: "pods", To: "pods"}}}},
			Tables: []routing.Table{{Name: routing.MainTable, ID: routing.MainID, Routes: routing.Sources{
				Peers: &routing.Peers{Link: "eth0", Learn: routing.LearnNodes, NextHop: routing.HopInternalIP, Accept: routing.AcceptAssigned},
			}}},
			Cluster: &routing.Cluster{Kubernetes: &routing.Kubernetes{}, PodCIDRs: "node"},
		},
		Node: "a",
		Inventory: &routing.Inventory{Synced: true, Nodes: []routing.Node{
			{Name: "a", PodCIDRs: prefixes("10.244.0.0/24"), InternalIPs: []netip.Addr{addr("192.168.8.2")}},
			{Name: "b", PodCIDRs: prefixes("10.244.1.0/24"), InternalIPs: []netip.Addr{addr("192.168.8.3")}},
			{Name: "c", PodCIDRs: prefixes("10.244.2.0/24"), InternalIPs: []netip.Addr{addr("192.168.8.4")}},
		}},
		Kernel: &routing.Kernel{Links: []routing.Link{upLink("eth0", "192.168.8.2/24")}, Rules: stockRules(), Routes: []routing.Route{
			{Table: routing.MainID, Dst: netip.MustParsePrefix("0.0.0.0/0"), Via: addr("192.168.8.1"), Link: "eth0", Protocol: routing.ProtocolBoot},
			{Table: routing.MainID, Dst: netip.MustParsePrefix("192.168.8.0/24"), Link: "eth0", Protocol: routing.ProtocolKernel},
		}},
		Ledger: &routing.Ledger{},
	}}
	wantText(t, "plan", strings.Join(text(w.settle(), routing.IPv4), "\n"), `
		10.244.1.0/24 via 192.168.8.3 dev eth0 metric 10
		10.244.2.0/24 via 192.168.8.4 dev eth0 metric 10`)
	if s := said(w.make()); s != "" {
		t.Errorf("something is said:\n%s", s)
	}
	// A node that comes back with another address is a replace.
	w.node("b").InternalIPs[0] = addr("192.168.8.9")
	wantText(t, "ops", opsText(plan.Diff(w.make(), w.Kernel)), `
		peers: replace route 10.244.1.0/24 via 192.168.8.9 dev eth0 metric 10`)
	w.removeNode("c")
	wantText(t, "ops", opsText(plan.Diff(w.make(), w.Kernel)), `
		peers: replace route 10.244.1.0/24 via 192.168.8.9 dev eth0 metric 10
		drop peers: delete route 10.244.2.0/24 via 192.168.8.4 dev eth0 metric 10`)
}

// Calico's routing: IPAM blocks over a mesh between InternalIPs, own blocks as
// blackholes, peers' through a tunnel, the guard as rules.
func TestCalico(t *testing.T) {
	w := &world{routing.Inputs{
		Config: &routing.Config{
			Daemon:   routing.Daemon{Protocol: routing.ProtocolNetclass},
			Networks: []routing.Network{{Name: "pods", Prefixes: prefixes("192.168.0.0/16")}},
			Classes:  []routing.Class{{Name: "pod-pod", Link: "tunl0", Traffic: []routing.Traffic{{From: "pods", To: "pods"}}}},
			Tables: []routing.Table{{Name: routing.MainTable, ID: routing.MainID, Routes: routing.Sources{
				Own: &routing.Own{Type: routing.Blackhole},
				Peers: &routing.Peers{Link: "tunl0", Learn: routing.LearnBGP, NextHop: routing.HopInternalIP,
					Accept: routing.AcceptWithin, OnLink: true, MTU: 1480},
			}}},
			Cluster: &routing.Cluster{Kubernetes: &routing.Kubernetes{}, PodCIDRs: "calico"},
			Guard:   &routing.Guard{Networks: []string{"pods"}, AsRules: true, Priority: 32762},
			BGP: &routing.BGP{ASN: 64512, Port: 179, Listen: true,
				Mesh: &routing.Mesh{Link: "eth0", Address: routing.HopInternalIP}},
		},
		Node: "a",
		Inventory: &routing.Inventory{Synced: true, Nodes: []routing.Node{
			{Name: "a", PodCIDRs: prefixes("192.168.5.0/26", "192.168.9.64/26"), InternalIPs: []netip.Addr{addr("172.18.0.2")}},
			{Name: "b", PodCIDRs: prefixes("192.168.6.0/26"), InternalIPs: []netip.Addr{addr("172.18.0.3")}},
		}},
		Kernel: &routing.Kernel{Rules: stockRules(), Links: []routing.Link{
			upLink("eth0", "172.18.0.2/16"), upLink("tunl0", "192.168.5.0/32"),
		}},
		Ledger: &routing.Ledger{},
		Peerings: []routing.Peering{{Key: routing.SessionKey{Peer: "b", Family: routing.IPv4}, Synced: true, Paths: []routing.Path{
			path("192.168.6.0/26", "172.18.0.3"), path("192.168.7.0/26", "172.18.0.3"), path("192.168.5.64/26", "172.18.0.9"), path("10.0.0.0/8", "172.18.0.3"),
		}}},
	}}
	p := w.settle()
	wantText(t, "plan", strings.Join(text(p, routing.IPv4), "\n"), `
		blackhole 192.168.5.0/26 metric 10
		192.168.6.0/26 via 172.18.0.3 dev tunl0 metric 10 mtu 1480 onlink
		192.168.7.0/26 via 172.18.0.3 dev tunl0 metric 10 mtu 1480 onlink
		blackhole 192.168.9.64/26 metric 10
		32762: from all to 192.168.0.0/16 lookup main suppress_prefixlength 15
		32763: from all to 192.168.0.0/16 unreachable`)
	wantText(t, "the speaker's order", spoken(p), `
		AS64512 id 172.18.0.2 port 179
		listen 172.18.0.2 eth0
		b/ipv4 eth0 172.18.0.2 -> 172.18.0.3 AS64512 dials restart 0s max 0`)
	wantText(t, "announcements", announced(p), `
		192.168.5.0/26 to mesh via 172.18.0.2 once [blackhole 192.168.5.0/26 metric 10]
		192.168.9.64/26 to mesh via 172.18.0.2 once [blackhole 192.168.9.64/26 metric 10]`)
	// After a restart the blocks that only the peer knows of stay.
	w.Peerings, w.Speaking = nil, nil
	if ops := plan.Diff(w.make(), w.Kernel); len(ops) != 0 {
		t.Errorf("a restart writes:\n%s", opsText(ops))
	}
}

// Two tables lead to the peers: each has the routes, and nothing is counted or
// shown twice.
func TestTwoTablesOfPeers(t *testing.T) {
	w := seed()
	second := seedConfig().Tables[0]
	second.Name, second.ID, second.Rules = "vips", 49, nil
	w.Config.Tables = append(w.Config.Tables, second)
	p := w.make()
	if c := class(t, p, "pod-pod"); c.Peers != 4 || c.Separated != 4 {
		t.Errorf("%d peers, %d separated; want 4 and 4", c.Peers, c.Separated)
	}
	if s := peerStatus(t, p, "k8s-2", routing.IPv4); len(s.Accepted) != 1 {
		t.Errorf("accepted %v", s.Accepted)
	}
	lines := strings.Join(text(p, routing.IPv4), "\n")
	for _, table := range []string{"47", "49"} {
		if !strings.Contains(lines, "10.244.2.0/24 via 10.48.0.2 dev pod0 table "+table+" metric 10") {
			t.Errorf("table %s has no path to k8s-2:\n%s", table, lines)
		}
	}
}
