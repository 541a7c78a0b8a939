package plan_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"netclass.dev/routing"
	"netclass.dev/routing/plan"
)

// world is what one node sees: every input of the planner, for a test to bend.
type world struct{ routing.Inputs }

// seed is node k8s-1 of the example cluster with everything up, all sessions
// synced and nothing of ours in the kernel yet.
func seed() *world {
	w := &world{routing.Inputs{
		Config:    seedConfig(),
		Node:      "k8s-1",
		Inventory: &routing.Inventory{Nodes: seedNodes(), Synced: true, Source: "nodes.yaml"},
		Kernel:    &routing.Kernel{Links: seedLinks(), Rules: stockRules(), Routes: seedMain()},
		Ledger:    &routing.Ledger{},
		Passwords: map[string]routing.Secret{},
	}}
	w.converge()
	return w
}

// converge lets every peer announce its pod CIDRs and finish.
func (w *world) converge() {
	w.Peerings = nil
	for i := range w.Inventory.Nodes {
		n := &w.Inventory.Nodes[i]
		if n.Name == w.Node {
			continue
		}
		for _, f := range routing.Families {
			pg := routing.Peering{Key: routing.SessionKey{Peer: n.Name, Family: f}, Synced: true}
			for _, c := range n.PodCIDRs {
				if routing.FamilyOf(c.Addr()) == f {
					hop, _ := netip.ParseAddr(n.Annotations["net.renner.uno/pod0-v"+f.String()[3:]])
					pg.Paths = append(pg.Paths, routing.Path{Prefix: c, NextHop: hop})
				}
			}
			w.Peerings = append(w.Peerings, pg)
		}
	}
}

func (w *world) make() *routing.Plan { return plan.Make(&w.Inputs) }

// settle brings the kernel and the speaker to the plan, and remembers what the
// daemon remembers.
func (w *world) settle() *routing.Plan {
	p := w.make()
	for _, op := range plan.Diff(p, w.Kernel) {
		w.Kernel = applied(w.Kernel, op)
	}
	w.remember(p)
	return p
}

func (w *world) remember(p *routing.Plan) {
	w.Ledger = &routing.Ledger{
		Protocols: p.Own.Protocols, Tables: p.Own.Tables, Priorities: p.Own.Priorities, Links: p.Links, Holders: p.Holders,
		Drained: p.Drained, DrainPhases: p.DrainPhases,
	}
	w.Speaking = p.Speak
}

// restarted forgets what only a running daemon knows.
func (w *world) restarted() {
	w.Speaking = nil
	for i := range w.Peerings {
		w.Peerings[i] = routing.Peering{Key: w.Peerings[i].Key}
	}
}

func (w *world) link(name string) *routing.Link { return w.Kernel.Link(name) }

func (w *world) node(name string) *routing.Node { return w.Inventory.Node(name) }

func (w *world) removeLink(name string) {
	w.Kernel.Links = slices.DeleteFunc(w.Kernel.Links, func(l routing.Link) bool { return l.Name == name })
}

func (w *world) removeNode(name string) {
	w.Inventory.Nodes = slices.DeleteFunc(slices.Clone(w.Inventory.Nodes), func(n routing.Node) bool { return n.Name == name })
}

func (w *world) peering(peer string, f routing.Family) *routing.Peering {
	for i := range w.Peerings {
		if w.Peerings[i].Key == (routing.SessionKey{Peer: peer, Family: f}) {
			return &w.Peerings[i]
		}
	}
	w.Peerings = append(w.Peerings, routing.Peering{Key: routing.SessionKey{Peer: peer, Family: f}})
	return &w.Peerings[len(w.Peerings)-1]
}

func (w *world) addRoutes(rs ...routing.Route) { w.Kernel.Routes = append(w.Kernel.Routes, rs...) }

// applied returns the picture after one op, as the kernel would show it.
func applied(k *routing.Kernel, op routing.Op) *routing.Kernel {
	next := *k
	switch {
	case op.IsRule() && op.Verb == routing.Add:
		next.Rules = append(slices.Clone(k.Rules), op.Rule)
		slices.SortStableFunc(next.Rules, func(a, b routing.Rule) int {
			if a.Family != b.Family {
				return int(a.Family) - int(b.Family)
			}
			return int(int64(a.Priority) - int64(b.Priority))
		})
	case op.IsRule():
		next.Rules = slices.DeleteFunc(slices.Clone(k.Rules), func(r routing.Rule) bool { return r == op.Rule })
	case op.Verb == routing.Add:
		next.Routes = append(slices.Clone(k.Routes), op.Route)
	case op.Verb == routing.Replace:
		next.Routes = slices.DeleteFunc(slices.Clone(k.Routes), func(r routing.Route) bool {
			return r.Key() == op.Route.Key() && r.Protocol == op.Route.Protocol
		})
		next.Routes = append(next.Routes, op.Route)
	default:
		next.Routes = slices.DeleteFunc(slices.Clone(k.Routes), func(r routing.Route) bool { return r.Wanted() == op.Route })
	}
	return &next
}

// text is a plan's routes and rules of one family as `ip route` and `ip rule`
// show them, routes by destination and metric.
func text(p *routing.Plan, f routing.Family) []string {
	routes := slices.DeleteFunc(slices.Clone(p.Routes), func(r routing.Route) bool { return r.Family() != f })
	slices.SortFunc(routes, func(a, b routing.Route) int {
		if a.Table != b.Table {
			return int(a.Table) - int(b.Table)
		}
		if c := a.Dst.Compare(b.Dst); c != 0 {
			return c
		}
		return int(int64(a.Metric) - int64(b.Metric))
	})
	var lines []string
	for _, r := range routes {
		lines = append(lines, r.String())
	}
	for _, r := range p.Rules {
		if r.Family == f {
			lines = append(lines, r.String())
		}
	}
	return lines
}

// changes is what a plan has of one family that the other has not ("+"), and
// the other way round ("-").
func changes(from, to *routing.Plan, f routing.Family) string {
	before, after := text(from, f), text(to, f)
	var b strings.Builder
	for _, line := range before {
		if !slices.Contains(after, line) {
			b.WriteString("- " + line + "\n")
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			b.WriteString("+ " + line + "\n")
		}
	}
	return b.String()
}

// opsText is ops as text, each with its stage.
func opsText(ops []routing.Op) string {
	var b strings.Builder
	for _, op := range ops {
		b.WriteString(op.Stage.String() + ": " + op.String() + "\n")
	}
	return b.String()
}

func wantText(t *testing.T, what, got, want string) {
	t.Helper()
	if d := cmp.Diff(block(want), block(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// wantChanges compares what changes returned, in any order.
func wantChanges(t *testing.T, what, got, want string) {
	t.Helper()
	g, w := block(got), block(want)
	slices.Sort(g)
	slices.Sort(w)
	wantText(t, what, strings.Join(g, "\n"), strings.Join(w, "\n"))
}

func block(s string) []string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// said is every condition and everything that waits, one a line.
func said(p *routing.Plan) string {
	var b strings.Builder
	for _, c := range p.Conditions {
		b.WriteString(c.Object + " " + c.Reason + ": " + c.Message + "\n")
	}
	for _, t := range p.Tables {
		for _, w := range t.Waiting {
			b.WriteString("waiting " + t.Name + ": " + w + "\n")
		}
	}
	return b.String()
}

func wantSaid(t *testing.T, p *routing.Plan, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(said(p), w) {
			t.Errorf("nothing says %q in:\n%s", w, said(p))
		}
	}
}

func peerStatus(t *testing.T, p *routing.Plan, peer string, f routing.Family) routing.PeerStatus {
	t.Helper()
	for _, s := range p.Peers {
		if s.Neighbor.Key == (routing.SessionKey{Peer: peer, Family: f}) {
			return s
		}
	}
	t.Fatalf("no status of %s/%s", peer, f)
	return routing.PeerStatus{}
}

func class(t *testing.T, p *routing.Plan, name string) routing.ClassStatus {
	t.Helper()
	for _, c := range p.Classes {
		if c.Class.Name == name {
			return c
		}
	}
	t.Fatalf("no class %s", name)
	return routing.ClassStatus{}
}

func neighbor(p *routing.Plan, peer string, f routing.Family) *routing.Neighbor {
	if p.Speak == nil {
		return nil
	}
	for i := range p.Speak.Neighbors {
		if p.Speak.Neighbors[i].Key == (routing.SessionKey{Peer: peer, Family: f}) {
			return &p.Speak.Neighbors[i]
		}
	}
	return nil
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func prefixes(ss ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, s := range ss {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

func seedConfig() *routing.Config {
	ref := func(key string) routing.AddressRef { return routing.AddressRef{Annotation: "net.renner.uno/" + key} }
	gateway := routing.PerFamily[routing.AddressRef]{IPv4: ref("egress-gw-v4"), IPv6: ref("egress-gw-v6")}
	timers := routing.Timers{Hold: 9 * time.Second, Keepalive: 3 * time.Second, ConnectRetry: 2 * time.Second}
	return &routing.Config{
		Daemon: routing.Daemon{Protocol: routing.ProtocolNetclass, OnExit: routing.ExitKeep, Resync: 30 * time.Second},
		Networks: []routing.Network{
			{Name: "pods", Prefixes: prefixes("10.244.0.0/16", "fd00:10:244::/48")},
			{Name: "services", Prefixes: prefixes("10.96.0.0/16", "fd00:10:96::/112")},
			{Name: "nodes", Prefixes: prefixes("10.46.0.0/24", "fd00:46::/64")},
			{Name: "loadBalancers", Prefixes: prefixes("10.47.64.0/24", "fd00:47:64::/112")},
		},
		Classes: []routing.Class{
			{Name: "ceph-replication", Link: "ceph-san", VLAN: 49, Delegated: true},
			{Name: "pod-pod", Link: "pod0", VLAN: 48, Traffic: []routing.Traffic{{From: "pods", To: "pods"}}},
			{Name: "world-pod", Link: "ingress0", VLAN: 47, Traffic: []routing.Traffic{{From: "pods", To: "world"}, {From: "loadBalancers", To: "world"}}},
			{Name: "node-node", Link: "node0", VLAN: 46, Traffic: []routing.Traffic{{From: "nodes", To: "nodes"}, {From: "nodes", To: "pods"}}},
			{Name: "world-node", Link: "mgmt0", VLAN: 40, Traffic: []routing.Traffic{{From: "nodes", To: "world"}}},
		},
		Tables: []routing.Table{{
			Name: "pods", ID: 47,
			Rules: []routing.Selector{
				{From: "pods", Priority: routing.PerFamily[uint32]{IPv6: 1000, IPv4: 1001}},
				{From: "loadBalancers", Priority: routing.PerFamily[uint32]{IPv6: 1002, IPv4: 1003}},
			},
			Routes: routing.Sources{
				Connected: []string{"mgmt0", "ingress0", "pod0", "node0"},
				Own:       &routing.Own{Link: "cilium_host"},
				Peers: &routing.Peers{
					Link: "pod0", Learn: routing.LearnBGP, NextHop: routing.HopLink, Accept: routing.AcceptAssigned,
					Fallback: routing.Fallback{Link: "node0", NextHop: routing.HopInternalIP},
				},
				Default: &routing.Default{Link: "ingress0", Gateway: gateway, OnLinkDown: routing.LinkDownFallback},
			},
			Fence: []string{"pods", "services", "nodes", "loadBalancers"},
		}},
		Guard: &routing.Guard{Networks: []string{"pods", "nodes"}, Priority: 32762},
		Cluster: &routing.Cluster{
			NodesFile: "/etc/netclassd/nodes.yaml", PodCIDRs: "node", Publish: "off",
			Addresses: []routing.LinkAddress{{Link: "pod0", Ref: routing.PerFamily[routing.AddressRef]{IPv4: ref("pod0-v4"), IPv6: ref("pod0-v6")}}},
		},
		BGP: &routing.BGP{
			ASN: 64512, Port: 179, Listen: true, Timers: timers, GracefulRestart: 10 * time.Second,
			Mesh: &routing.Mesh{Link: "pod0", Address: routing.HopLink, MaxPrefixes: 1000},
			Upstreams: []routing.Upstream{{
				Name: "udm", Link: "ingress0", PeerASN: 64513, Address: gateway, Timers: timers,
				Advertise: routing.Advertise{Networks: []string{"loadBalancers"}},
			}},
		},
	}
}

func seedNodes() []routing.Node {
	var nodes []routing.Node
	for _, n := range []string{"1", "2", "3"} {
		nodes = append(nodes, routing.Node{
			Name:        "k8s-" + n,
			PodCIDRs:    prefixes("10.244."+n+".0/24", "fd00:10:244:"+n+"::/64"),
			InternalIPs: []netip.Addr{addr("10.46.0." + n), addr("fd00:46::" + n)},
			Annotations: map[string]string{
				"net.renner.uno/pod0-v4":      "10.48.0." + n,
				"net.renner.uno/pod0-v6":      "fd00:48::" + n,
				"net.renner.uno/egress-gw-v4": "10.47.0.254",
				"net.renner.uno/egress-gw-v6": "fd00:47::fe",
			},
		})
	}
	return nodes
}

// upLink is a link that works, with addresses given as ADDRESS/LENGTH.
func upLink(name string, addrs ...string) routing.Link {
	l := routing.Link{Name: name, Up: true, Carrier: true, MTU: 1500, Kind: "veth"}
	for _, p := range prefixes(addrs...) {
		l.Addrs = append(l.Addrs, routing.LinkAddr{Prefix: p})
	}
	l.Addrs = append(l.Addrs, routing.LinkAddr{Prefix: netip.MustParsePrefix("fe80::1/64")})
	return l
}

func seedLinks() []routing.Link {
	lo := routing.Link{Name: "lo", Up: true, Carrier: true, MTU: 65536}
	for _, p := range prefixes("127.0.0.1/8", "::1/128") {
		lo.Addrs = append(lo.Addrs, routing.LinkAddr{Prefix: p})
	}
	links := []routing.Link{
		lo,
		upLink("mgmt0", "10.40.0.1/24", "fd00:40::1/64"),
		upLink("node0", "10.46.0.1/24", "fd00:46::1/64"),
		upLink("ingress0", "10.47.0.1/24", "fd00:47::1/64"),
		upLink("pod0", "10.48.0.1/24", "fd00:48::1/64"),
		upLink("cilium_host", "10.244.1.1/32", "fd00:10:244:1::1/128"),
	}
	for i := range links {
		links[i].Index = i + 1
	}
	return links
}

func stockRules() []routing.Rule {
	rule := func(f routing.Family, priority uint32, t routing.TableID) routing.Rule {
		return routing.Rule{Family: f, Priority: priority, Table: t, Protocol: routing.ProtocolKernel, SuppressPrefixLen: routing.NoSuppress}
	}
	return []routing.Rule{
		rule(routing.IPv4, 0, routing.LocalID), rule(routing.IPv4, 32766, routing.MainID), rule(routing.IPv4, 32767, routing.DefaultID),
		rule(routing.IPv6, 0, routing.LocalID), rule(routing.IPv6, 32766, routing.MainID),
	}
}

// seedMain is what the host, the CNI and the kernel itself have put into main.
func seedMain() []routing.Route {
	var rs []routing.Route
	add := func(p routing.Protocol, dst, via, link string) {
		r := routing.Route{Table: routing.MainID, Dst: netip.MustParsePrefix(dst), Link: link, Protocol: p}
		if r.Family() == routing.IPv6 {
			r.Metric = 1024
		}
		if via != "" {
			r.Via = addr(via)
		}
		rs = append(rs, r)
	}
	add(routing.ProtocolBoot, "0.0.0.0/0", "10.40.0.254", "mgmt0")
	add(routing.ProtocolBoot, "::/0", "fd00:40::fe", "mgmt0")
	for vlan, link := range map[string]string{"40": "mgmt0", "46": "node0", "47": "ingress0", "48": "pod0"} {
		add(routing.ProtocolKernel, "10."+vlan+".0.0/24", "", link)
		add(routing.ProtocolKernel, "fd00:"+vlan+"::/64", "", link)
	}
	for _, n := range []string{"2", "3"} {
		add(routing.ProtocolStatic, "10.244."+n+".0/24", "10.46.0."+n, "node0")
		add(routing.ProtocolStatic, "fd00:10:244:"+n+"::/64", "fd00:46::"+n, "node0")
	}
	add(routing.ProtocolStatic, "10.244.1.0/24", "", "cilium_host")
	add(routing.ProtocolStatic, "fd00:10:244:1::/64", "", "cilium_host")
	slices.SortFunc(rs, func(a, b routing.Route) int { return a.Dst.Compare(b.Dst) })
	return rs
}

// only takes everything of the other family out of the cluster.
func (w *world) only(f routing.Family) {
	other := func(p netip.Prefix) bool { return routing.FamilyOf(p.Addr()) != f }
	none := routing.IPv4 + routing.IPv6 - f
	for i := range w.Config.Networks {
		w.Config.Networks[i].Prefixes = slices.DeleteFunc(w.Config.Networks[i].Prefixes, other)
	}
	for i := range w.Config.Tables {
		if d := w.Config.Tables[i].Routes.Default; d != nil {
			d.Gateway.Set(none, routing.AddressRef{})
		}
	}
	for i := range w.Config.Cluster.Addresses {
		w.Config.Cluster.Addresses[i].Ref.Set(none, routing.AddressRef{})
	}
	if b := w.Config.BGP; b != nil {
		for i := range b.Upstreams {
			b.Upstreams[i].Address.Set(none, routing.AddressRef{})
		}
	}
	for i := range w.Inventory.Nodes {
		n := &w.Inventory.Nodes[i]
		n.PodCIDRs = slices.DeleteFunc(n.PodCIDRs, other)
		n.InternalIPs = slices.DeleteFunc(n.InternalIPs, func(a netip.Addr) bool { return routing.FamilyOf(a) != f })
	}
	for i := range w.Kernel.Links {
		l := &w.Kernel.Links[i]
		l.Addrs = slices.DeleteFunc(l.Addrs, func(a routing.LinkAddr) bool { return other(a.Prefix) && !a.Prefix.Addr().IsLinkLocalUnicast() })
	}
	w.converge()
}
