package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/intent"
)

// self is the node whose daemon is simulated.
const self = "k8s-1"

// node is the truth about one node, whatever the inventory says.
type node struct {
	name    string
	n       int
	says    routing.Node // what the inventory lists
	powered bool         // its next hops answer
	since   time.Time    // of that
	speaks  bool         // its daemon runs
	offers  int          // seconds of graceful restart
	extra   map[routing.Family][]routing.Path
	silent  map[routing.Family]bool // it announces nothing
}

func newNode(n int) *node {
	nd := &node{
		name: fmt.Sprintf("k8s-%d", n), n: n, powered: true, speaks: true, offers: 10,
		extra: map[routing.Family][]routing.Path{}, silent: map[routing.Family]bool{},
	}
	nd.says = routing.Node{
		Name:        nd.name,
		PodCIDRs:    podCIDRs(n),
		InternalIPs: []netip.Addr{addr(fmt.Sprintf("10.46.0.%d", n)), addr(fmt.Sprintf("fd00:46::%d", n))},
		Annotations: map[string]string{
			"net.renner.uno/pod0-v4": podAddr(n, routing.IPv4).String(), "net.renner.uno/pod0-v6": podAddr(n, routing.IPv6).String(),
			"net.renner.uno/egress-gw-v4": "10.47.0.254", "net.renner.uno/egress-gw-v6": "fd00:47::fe",
		},
	}
	return nd
}

// podCIDRs are a node's pod CIDRs.
func podCIDRs(n int) []netip.Prefix {
	return []netip.Prefix{prefix(fmt.Sprintf("10.244.%d.0/24", n)), prefix(fmt.Sprintf("fd00:10:244:%d::/64", n))}
}

// podAddr is a node's address on pod0.
func podAddr(n int, f routing.Family) netip.Addr {
	if f == routing.IPv4 {
		return addr(fmt.Sprintf("10.48.0.%d", n))
	}
	return addr(fmt.Sprintf("fd00:48::%d", n))
}

// nodeAddr is a node's address on node0.
func nodeAddr(n int, f routing.Family) netip.Addr {
	if f == routing.IPv4 {
		return addr(fmt.Sprintf("10.46.0.%d", n))
	}
	return addr(fmt.Sprintf("fd00:46::%d", n))
}

// paths is what the node announces.
func (n *node) paths(f routing.Family) []routing.Path {
	if n.silent[f] {
		return nil
	}
	var ps []routing.Path
	for _, c := range n.says.PodCIDRs {
		if routing.FamilyOf(c.Addr()) == f {
			ps = append(ps, routing.Path{Prefix: c, NextHop: podAddr(n.n, f)})
		}
	}
	return append(ps, n.extra[f]...)
}

// host is one of the node's own links with its addresses.
type host struct {
	name  string
	addrs []netip.Prefix
}

func hosts() []host {
	link := func(name string, addrs ...string) host {
		h := host{name: name}
		for _, a := range addrs {
			h.addrs = append(h.addrs, prefix(a))
		}
		return h
	}
	return []host{
		link("mgmt0", "10.40.0.1/24", "fd00:40::1/64"),
		link("node0", "10.46.0.1/24", "fd00:46::1/64"),
		link("ingress0", "10.47.0.1/24", "fd00:47::1/64"),
		link("pod0", "10.48.0.1/24", "fd00:48::1/64"),
		link("cilium_host", "10.244.1.1/32", "fd00:10:244:1::1/128"),
	}
}

// variant is a choice among the configurations, made by replacing text of the
// example cluster's.
type variant struct{ name, old, new string }

var variants = []variant{
	{"fallback main", "fallback: {link: node0, nextHop: internalIP}", "fallback: main"},
	{"no fallback", "        fallback: {link: node0, nextHop: internalIP}\n", ""},
	{"learn nodes", "learn: bgp", "learn: nodes"},
	{"hold default", "        link: ingress0\n        gateway:", "        link: ingress0\n        onLinkDown: hold\n        gateway:"},
	{"guard as rules", "guard: {networks: [pods, nodes]}", "guard: {networks: [pods, nodes], as: rules, priority: 32762}"},
	{"no guard", "guard: {networks: [pods, nodes]}\n", ""},
	{"narrow fence", "fence: [pods, services, nodes, loadBalancers]", "fence: [pods]"},
	{"other table", "id: 47\n", "id: 48\n"},
	{"other priorities", "priority: {ipv6: 1000, ipv4: 1001}", "priority: {ipv6: 1010, ipv4: 1011}"},
	{"imports", "      advertise: {networks: [loadBalancers]}\n", "      advertise: {networks: [loadBalancers]}\n      import: [{networks: [corp], table: pods}]\n"},
	{"no graceful restart", "  asn: 64512\n", "  asn: 64512\n  gracefulRestart: {restartTime: 0s}\n"},
}

// corp is what may be imported: it takes in the networks of links, of which a
// configuration does not know.
const corp = `
  corp: [172.16.0.0/12, 192.0.2.0/24, 10.40.0.0/14, 10.48.0.0/12, "2001:db8::/32", "fd00:40::/32", "fd00:48::/31"]`

// configure parses the example with some variants.
func configure(example string, chosen []variant) (*routing.Config, error) {
	text := strings.Replace(example, "kubernetes: {kubeconfig: /etc/netclassd/kubeconfig}", "nodesFile: nodes.yaml", 1)
	// No resync: what is found must be found because something happened.
	text = strings.Replace(text, "\nnetworks:", "\ndaemon: {resync: 24h}\nnetworks:"+corp, 1)
	for _, v := range chosen {
		if !strings.Contains(text, v.old) {
			return nil, fmt.Errorf("variant %s: the example does not say %q", v.name, v.old)
		}
		text = strings.Replace(text, v.old, v.new, 1)
	}
	c, problems := intent.Parse("config.yaml", []byte(text))
	if c == nil {
		return nil, fmt.Errorf("parse: %w", problems)
	}
	return c, nil
}

// mainRoutes are what the system and the CNI keep in main beside the connected
// networks.
func mainRoutes(nodes []*node) []routing.Route {
	rs := []routing.Route{
		{Table: routing.MainID, Dst: routing.IPv4.Default(), Metric: 100, Protocol: routing.ProtocolStatic, Via: addr("10.40.0.254"), Link: "mgmt0"},
		{Table: routing.MainID, Dst: routing.IPv6.Default(), Metric: 1024, Protocol: routing.ProtocolStatic, Via: addr("fd00:40::fe"), Link: "mgmt0"},
	}
	for _, n := range nodes {
		for _, c := range n.says.PodCIDRs {
			f := routing.FamilyOf(c.Addr())
			r := routing.Route{Table: routing.MainID, Dst: c, Metric: 100, Protocol: routing.ProtocolKernel, Link: "cilium_host"}
			if n.name != self {
				r.Via, r.Link = nodeAddr(n.n, f), "node0"
			}
			if !slices.ContainsFunc(rs, func(o routing.Route) bool { return o.Key() == r.Key() }) {
				rs = append(rs, r)
			}
		}
	}
	return rs
}

func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
