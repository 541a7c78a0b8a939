package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// The router's links: one on each VLAN that has a gateway, one to the world.
const (
	routerMgmt    = "vlan40"
	routerIngress = "vlan47"
	routerWorld   = "wan0"
)

// Router is the upstream router. It forwards between the nodes and the world,
// and counts and drops every packet for the inside of the cluster that the nodes
// send it: none should come.
type Router struct {
	*Host
	World *Host
}

func (l *Lab) makeRouter() error {
	h, err := l.newHost("udm")
	if err != nil {
		return err
	}
	world, err := l.newHost("world")
	if err != nil {
		return err
	}
	l.Router = &Router{Host: h, World: world}
	for _, host := range []*Host{h, world} {
		if err := host.setUp(); err != nil {
			return err
		}
	}
	if err := l.plug(h, routerMgmt, Mgmt, routerNumber); err != nil {
		return err
	}
	if err := l.plug(h, routerIngress, Ingress, routerNumber); err != nil {
		return err
	}
	if err := wire(h, routerWorld, world, "eth0"); err != nil {
		return err
	}
	for _, f := range routing.Families {
		length := map[routing.Family]int{routing.IPv4: 24, routing.IPv6: 64}[f]
		if err := h.AddAddr(routerWorld, netip.PrefixFrom(routerWorldAddr.Of(f), length)); err != nil {
			return err
		}
		if err := world.AddAddr("eth0", netip.PrefixFrom(WorldAddr.Of(f), length)); err != nil {
			return err
		}
		back := static{dst: f.Default(), via: routerWorldAddr.Of(f), link: "eth0", proto: unix.RTPROT_STATIC}
		if err := world.addRoute(back); err != nil {
			return err
		}
		// Replies to pods. A real cluster masquerades them; here they go back by
		// ingress0, so that what arrives shows who sent it.
		for n := 1; n <= l.opts.Nodes; n++ {
			to := static{dst: podCIDR(n, f), via: linkPrefix(Ingress, n, f).Addr(), link: routerIngress, proto: unix.RTPROT_STATIC}
			if err := h.addRoute(to); err != nil {
				return err
			}
		}
	}
	return l.Router.installCounters()
}

// RouterCounts is what the router has seen on its links to the nodes.
type RouterCounts struct {
	// Cluster counts packets for pods, nodes or a class link without a gateway,
	// whatever their source. The hard constraint says that it stays 0.
	Cluster routing.PerFamily[uint64]
	// ByLink splits them by the router's link, both families together.
	ByLink map[string]uint64
	// World counts packets for the world.
	World routing.PerFamily[uint64]
}

// Total returns the cluster packets of both families.
func (c RouterCounts) Total() uint64 { return c.Cluster.IPv4 + c.Cluster.IPv6 }

// routerRules counts before anything else looks at a packet. The drop makes a
// misrouted packet a lost one, as at a router that has no route to it; the set
// remembers which ones they were.
const routerRules = `
table inet lab {
	set offenders4 { type ifname . ipv4_addr . ipv4_addr . inet_proto; flags dynamic; size 1000; }
	set offenders6 { type ifname . ipv6_addr . ipv6_addr . inet_proto; flags dynamic; size 1000; }
	%[1]s
	chain cluster4 {
		add @offenders4 { iifname . ip saddr . ip daddr . meta l4proto }
		iifname vlan40 counter name cluster/vlan40/ipv4 drop
		counter name cluster/vlan47/ipv4 drop
	}
	chain cluster6 {
		add @offenders6 { iifname . ip6 saddr . ip6 daddr . meta l4proto }
		iifname vlan40 counter name cluster/vlan40/ipv6 drop
		counter name cluster/vlan47/ipv6 drop
	}
	chain arrivals {
		type filter hook prerouting priority raw;
		iifname != { vlan40, vlan47 } return
		ip daddr { %[2]s } jump cluster4
		ip6 daddr { %[3]s } jump cluster6
		ip daddr %[4]s counter name world/ipv4
		ip6 daddr %[5]s counter name world/ipv6
	}
}
`

func (r *Router) installCounters() error {
	var counters, inside4, inside6 []string
	for _, f := range routing.Families {
		counters = append(counters, "world/"+f.String())
		for _, link := range []string{routerMgmt, routerIngress} {
			counters = append(counters, "cluster/"+link+"/"+f.String())
		}
	}
	inside4 = append(inside4, Pods.IPv4.String(), Nodes.IPv4.String(), LinkNetwork(PodNet, routing.IPv4).String())
	inside6 = append(inside6, Pods.IPv6.String(), Nodes.IPv6.String(), LinkNetwork(PodNet, routing.IPv6).String())
	return r.nft(fmt.Sprintf(routerRules, declare(counters),
		strings.Join(inside4, ", "), strings.Join(inside6, ", "), WorldAddr.IPv4, WorldAddr.IPv6))
}

// Counts returns what the router has seen so far.
func (r *Router) Counts() (RouterCounts, error) {
	c := RouterCounts{ByLink: map[string]uint64{}}
	all, err := r.nftCounters()
	if err != nil {
		return c, err
	}
	for _, f := range routing.Families {
		c.World.Set(f, all["world/"+f.String()])
		for _, link := range []string{routerMgmt, routerIngress} {
			n := all["cluster/"+link+"/"+f.String()]
			c.Cluster.Set(f, c.Cluster.Of(f)+n)
			c.ByLink[link] += n
		}
	}
	return c, nil
}

// Offenders names the cluster packets that the router has seen, once for each
// link, source, destination and protocol: "vlan47: 10.244.1.7 -> 10.244.2.7 icmp".
func (r *Router) Offenders() ([]string, error) {
	var out []string
	for _, set := range []string{"offenders4", "offenders6"} {
		text, err := r.Exec(context.Background(), "nft", "-j", "list", "set", "inet", "lab", set)
		if err != nil {
			return nil, err
		}
		var doc struct {
			Nftables []struct {
				Set struct {
					Elem []struct {
						Concat [4]any `json:"concat"` // protocols without a name are numbers
					} `json:"elem"`
				} `json:"set"`
			} `json:"nftables"`
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			return nil, fmt.Errorf("read set %s: %w", set, err)
		}
		for _, item := range doc.Nftables {
			for _, e := range item.Set.Elem {
				out = append(out, fmt.Sprintf("%v: %v -> %v %v", e.Concat[0], e.Concat[1], e.Concat[2], e.Concat[3]))
			}
		}
	}
	return out, nil
}

// StartBGP starts BIRD on the router, as AS 64513: it takes what the nodes, AS
// 64512, announce to it over ingress0, and tells them nothing. It installs
// nothing in the kernel; ask it with Ctl.
func (r *Router) StartBGP() (*BIRD, error) {
	return r.StartBIRD(fmt.Sprintf(`
log stderr all;
router id %[1]s;
protocol device {}
protocol bgp nodes4 {
	local %[1]s as 64513;
	neighbor range %[2]s as 64512;
	dynamic name "node4_";
	error wait time 1, 4;
	ipv4 { import all; export none; };
}
protocol bgp nodes6 {
	local %[3]s as 64513;
	neighbor range %[4]s as 64512;
	dynamic name "node6_";
	error wait time 1, 4;
	ipv6 { import all; export none; };
}
`, linkPrefix(Ingress, routerNumber, routing.IPv4).Addr(), LinkNetwork(Ingress, routing.IPv4),
		linkPrefix(Ingress, routerNumber, routing.IPv6).Addr(), LinkNetwork(Ingress, routing.IPv6)))
}
