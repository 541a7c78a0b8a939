package servertest

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"netclass.dev/routing"
)

// What the seed's cluster looks like, by family.
var (
	networks = []routing.Network{
		{Name: "pods", Prefixes: prefixes("10.244.0.0/16 fd00:10:244::/48")},
		{Name: "services", Prefixes: prefixes("10.96.0.0/16 fd00:10:96::/112")},
		{Name: "nodes", Prefixes: prefixes("10.46.0.0/24 fd00:46::/64")},
		{Name: "loadBalancers", Prefixes: prefixes("10.47.64.0/24 fd00:47:64::/112")},
	}
	links = []struct {
		name     string
		vlan     int
		networks []netip.Prefix
		gateway  bool
	}{
		{"mgmt0", 40, prefixes("10.40.0.0/24 fd00:40::/64"), true},
		{"node0", 46, prefixes("10.46.0.0/24 fd00:46::/64"), false},
		{"ingress0", 47, prefixes("10.47.0.0/24 fd00:47::/64"), true},
		{"pod0", 48, prefixes("10.48.0.0/24 fd00:48::/64"), false},
	}
)

func prefixes(list string) []netip.Prefix {
	var all []netip.Prefix
	for _, s := range strings.Fields(list) {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

// address is the address of node n (or 254, the router) on a VLAN.
func address(vlan, n int, f routing.Family) netip.Addr {
	if f == routing.IPv4 {
		return netip.AddrFrom4([4]byte{10, byte(vlan), 0, byte(n)})
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:%d::%x", vlan, n))
}

func podCIDR(n int, f routing.Family) netip.Prefix {
	if f == routing.IPv4 {
		return netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", n))
	}
	return netip.MustParsePrefix(fmt.Sprintf("fd00:10:244:%d::/64", n))
}

func annotations(v4, v6 string) routing.PerFamily[routing.AddressRef] {
	return routing.PerFamily[routing.AddressRef]{IPv4: routing.AddressRef{Annotation: v4}, IPv6: routing.AddressRef{Annotation: v6}}
}

func config() *routing.Config {
	gateway := annotations("net.renner.uno/egress-gw-v4", "net.renner.uno/egress-gw-v6")
	return &routing.Config{
		Daemon:   routing.Daemon{Protocol: routing.ProtocolNetclass, OnExit: routing.ExitKeep, Resync: 30 * time.Second},
		Networks: networks,
		Classes: []routing.Class{
			{Name: "ceph-replication", Link: "ceph-san", VLAN: 49, Delegated: true},
			{Name: "pod-pod", Link: "pod0", VLAN: 48, Traffic: []routing.Traffic{{From: "pods", To: "pods"}}},
			{Name: "world-pod", Link: "ingress0", VLAN: 47, Traffic: []routing.Traffic{{From: "pods", To: "world"}, {From: "loadBalancers", To: "world"}}},
			{Name: "node-node", Link: "node0", VLAN: 46, Traffic: []routing.Traffic{{From: "nodes", To: "nodes"}, {From: "nodes", To: "pods"}}},
			{Name: "world-node", Link: "mgmt0", VLAN: 40, Traffic: []routing.Traffic{{From: "nodes", To: "world"}}},
		},
		Tables: []routing.Table{{
			Name: "pods", ID: PodsID,
			Rules: []routing.Selector{
				{From: "pods", Priority: routing.PerFamily[uint32]{IPv4: 1001, IPv6: 1000}},
				{From: "loadBalancers", Priority: routing.PerFamily[uint32]{IPv4: 1003, IPv6: 1002}},
			},
			Routes: routing.Sources{
				Connected: []string{"mgmt0", "ingress0", "pod0", "node0"},
				Own:       &routing.Own{Link: "cilium_host"},
				Peers:     &routing.Peers{Link: "pod0", Learn: routing.LearnBGP, NextHop: routing.HopLink, Accept: routing.AcceptAssigned, Fallback: routing.Fallback{Link: "node0", NextHop: routing.HopInternalIP}},
				Default:   &routing.Default{Link: "ingress0", Gateway: gateway, OnLinkDown: routing.LinkDownFallback},
			},
			Fence: []string{"pods", "services", "nodes", "loadBalancers"},
		}},
		Guard: &routing.Guard{Networks: []string{"pods", "nodes"}},
		Cluster: &routing.Cluster{
			NodesFile: "/etc/netclassd/nodes.yaml",
			Addresses: []routing.LinkAddress{{Link: "pod0", Ref: annotations("net.renner.uno/pod0-v4", "net.renner.uno/pod0-v6")}},
		},
		BGP: &routing.BGP{ASN: 64512, Port: 179, Listen: true, Mesh: &routing.Mesh{Link: "pod0", MaxPrefixes: 1000}, Upstreams: []routing.Upstream{{Name: "udm", Link: "ingress0", PeerASN: 64513, Address: gateway}}},
	}
}

func nodes() []routing.Node {
	var list []routing.Node
	for n := 1; n <= 3; n++ {
		node := routing.Node{Name: fmt.Sprintf("k8s-%d", n), Annotations: map[string]string{}}
		for _, f := range routing.Families {
			node.PodCIDRs = append(node.PodCIDRs, podCIDR(n, f))
			node.InternalIPs = append(node.InternalIPs, address(46, n, f))
			node.Annotations[fmt.Sprintf("net.renner.uno/pod0-v%d", f)] = address(48, n, f).String()
			node.Annotations[fmt.Sprintf("net.renner.uno/egress-gw-v%d", f)] = address(47, 254, f).String()
		}
		list = append(list, node)
	}
	return list
}

func plan(c *routing.Config) *routing.Plan {
	p := &routing.Plan{Own: routing.Ownership{
		Protocols: []routing.Protocol{routing.ProtocolNetclass}, Tables: []routing.TableID{PodsID, routing.MainID}, Priorities: []uint32{1000, 1001, 1002, 1003},
	}}
	for _, f := range routing.Families {
		p.Routes = append(p.Routes, routes(f)...)
		for i, set := range []string{"pods", "loadBalancers"} {
			p.Rules = append(p.Rules, routing.Rule{
				Family: f, Priority: c.Tables[0].Rules[i].Priority.Of(f), From: pick(c.Network(set), f), Table: PodsID,
				Protocol: routing.ProtocolNetclass, SuppressPrefixLen: routing.NoSuppress,
			})
		}
	}
	for _, class := range c.Classes {
		st := routing.ClassStatus{Class: class, Health: routing.Ready, KernelVLAN: class.VLAN}
		switch class.Name {
		case "ceph-replication":
			st.Health, st.Reason, st.KernelVLAN = routing.Delegated, "link ceph-san is in a pod's namespace", 0
		case "pod-pod":
			st.Peers, st.Separated = 4, 4
		}
		p.Classes = append(p.Classes, st)
	}
	table := routing.TableStatus{Name: "pods", ID: PodsID, Health: routing.Ready}
	for _, r := range p.Rules {
		table.RulesText = append(table.RulesText, r.String())
	}
	p.Tables = []routing.TableStatus{table}
	return p
}

func pick(list []netip.Prefix, f routing.Family) netip.Prefix {
	for _, p := range list {
		if routing.FamilyOf(p.Addr()) == f {
			return p
		}
	}
	return netip.Prefix{}
}

// routes are what table and guard hold in one family.
func routes(f routing.Family) []routing.Route {
	var list []routing.Route
	add := func(r routing.Route) {
		r.Protocol = routing.ProtocolNetclass
		if r.Table == 0 {
			r.Table = PodsID
		}
		list = append(list, r)
	}
	add(routing.Route{Dst: f.Default(), Metric: routing.MetricPath, Via: address(47, 254, f), Link: "ingress0"})
	for _, l := range links {
		add(routing.Route{Dst: pick(l.networks, f), Metric: routing.MetricPath, Link: l.name})
		if l.name != "node0" { // its network is among the named ones
			add(routing.Route{Dst: pick(l.networks, f), Metric: routing.MetricFence, Type: routing.Unreachable})
		}
		if !l.gateway {
			add(routing.Route{Table: routing.MainID, Dst: pick(l.networks, f), Metric: routing.MetricGuard, Type: routing.Unreachable})
		}
	}
	add(routing.Route{Dst: podCIDR(1, f), Metric: routing.MetricPath, Link: "cilium_host"})
	for n := 2; n <= 3; n++ {
		add(routing.Route{Dst: podCIDR(n, f), Metric: routing.MetricPath, Via: address(48, n, f), Link: "pod0"})
		add(routing.Route{Dst: podCIDR(n, f), Metric: routing.MetricFallback, Via: address(46, n, f), Link: "node0"})
	}
	for _, n := range networks {
		add(routing.Route{Dst: pick(n.Prefixes, f), Metric: routing.MetricFence, Type: routing.Unreachable})
	}
	add(routing.Route{Table: routing.MainID, Dst: pick(networks[0].Prefixes, f), Metric: routing.MetricGuard, Type: routing.Unreachable})
	return list
}

// kernel has what the plan wants and what a node has anyway.
func kernel(p *routing.Plan) *routing.Kernel {
	k := &routing.Kernel{}
	for i, l := range links {
		link := routing.Link{Name: l.name, Index: i + 2, Up: true, Carrier: true, MTU: 1500, Kind: "vlan", VLAN: l.vlan}
		for _, f := range routing.Families {
			link.Addrs = append(link.Addrs, routing.LinkAddr{Prefix: netip.PrefixFrom(address(l.vlan, 1, f), pick(l.networks, f).Bits())})
		}
		k.Links = append(k.Links, link)
	}
	k.Links = append(k.Links, routing.Link{Name: "cilium_host", Index: 9, Up: true, Carrier: true, MTU: 1500, Kind: "veth"})
	for _, f := range routing.Families {
		rule := func(priority uint32, table routing.TableID) {
			k.Rules = append(k.Rules, routing.Rule{Family: f, Priority: priority, Table: table, Protocol: routing.ProtocolKernel, SuppressPrefixLen: routing.NoSuppress})
		}
		rule(0, routing.LocalID)
		for _, r := range p.Rules {
			if r.Family == f {
				k.Rules = append(k.Rules, r)
			}
		}
		rule(32766, routing.MainID)
		if f == routing.IPv4 {
			rule(32767, routing.DefaultID)
		}
		k.Routes = append(k.Routes,
			routing.Route{Table: routing.MainID, Dst: f.Default(), Metric: 1024, Protocol: routing.ProtocolStatic, Via: address(40, 254, f), Link: "mgmt0"},
			routing.Route{Table: routing.MainID, Dst: podCIDR(2, f), Metric: 1024, Protocol: routing.ProtocolKernel, Via: address(46, 2, f), Link: "node0"},
		)
	}
	k.Routes = append(k.Routes, p.Routes...)
	return k
}

func session(peer string, f routing.Family) routing.PeerStatus {
	n := int(peer[len(peer)-1] - '0')
	key := routing.SessionKey{Peer: peer, Family: f}
	path := routing.Path{Prefix: podCIDR(n, f), NextHop: address(48, n, f)}
	return routing.PeerStatus{
		Neighbor: routing.Neighbor{
			Key: key, Link: "pod0", Local: address(48, 1, f), Remote: address(48, n, f), PeerASN: 64512, Timers: timers(),
			RestartTime: 10 * time.Second, MaxPrefixes: 1000,
		},
		Session: routing.Session{
			Key: key, State: routing.Established, Since: Now.Add(-3*time.Hour + 2*time.Second), EndOfRIB: true,
			PeerRestartTime: 10 * time.Second, Received: 1, Paths: []routing.Path{path},
		},
		Accepted: []routing.Path{path},
	}
}

func upstream(f routing.Family) routing.PeerStatus {
	key := routing.SessionKey{Peer: "udm", Family: f}
	return routing.PeerStatus{
		Neighbor: routing.Neighbor{Key: key, Upstream: true, Link: "ingress0", Local: address(47, 1, f), Remote: address(47, 254, f), PeerASN: 64513, Timers: timers()},
		Session:  routing.Session{Key: key, State: routing.Established, Since: Now.Add(-50 * time.Hour), EndOfRIB: true},
	}
}

func timers() routing.Timers {
	return routing.Timers{Hold: 9 * time.Second, Keepalive: 3 * time.Second, ConnectRetry: 2 * time.Second}
}
