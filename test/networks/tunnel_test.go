package networks

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// podLink is where the lab's pod is when cilium_host is the way into the tunnel.
const podLink = "lxc1"

// tunnelAddr is a node's address on cilium_host.
func tunnelAddr(n *lab.Node, f routing.Family) netip.Addr {
	return netip.MustParseAddr(map[routing.Family]string{
		routing.IPv4: fmt.Sprintf("10.244.%d.254", n.Number), routing.IPv6: fmt.Sprintf("fd00:10:244:%d::fe", n.Number),
	}[f])
}

// tunnel gives each node a cilium_host that leads into a tunnel between the
// InternalIPs. A VXLAN device stands in for Cilium's, which has a program in the
// place of its neighbours. The pod goes to a link of its own.
func (c *cluster) tunnel() {
	c.t.Helper()
	for _, n := range c.Nodes {
		c.ip(n, "link set cilium_host down")
		c.ip(n, "link set cilium_host name "+podLink)
		c.ip(n, "link set "+podLink+" up")
		for _, f := range routing.Families {
			// What the kernel took away with the link.
			c.must(n.AddAddr(podLink, netip.PrefixFrom(n.PodCIDR(f).Addr().Next(), f.Bits())))
			c.ip(n, fmt.Sprintf("route replace %s dev %s", n.PodCIDR(f), podLink))
		}
		vxlan := &netlink.Vxlan{
			LinkAttrs: netlink.LinkAttrs{Name: lab.CNILink, MTU: 1500}, VxlanId: 2, Port: 8472, Learning: true,
			SrcAddr: n.Addr(lab.NodeNet, routing.IPv4).AsSlice(),
		}
		c.must(n.Netlink().LinkAdd(vxlan))
		c.ip(n, "link set cilium_host up")
		for _, f := range routing.Families {
			c.must(n.AddAddr(lab.CNILink, netip.PrefixFrom(tunnelAddr(n, f), f.Bits())))
		}
		for _, peer := range c.Nodes {
			if peer != n {
				c.must(n.Netlink().NeighAppend(&netlink.Neigh{
					LinkIndex: vxlan.Attrs().Index, Family: 7 /* AF_BRIDGE */, Flags: netlink.NTF_SELF, State: netlink.NUD_PERMANENT,
					IP: peer.Addr(lab.NodeNet, routing.IPv4).AsSlice(), HardwareAddr: make(net.HardwareAddr, 6),
				}))
			}
		}
	}
}

// TestCiliumTunnel routes as Cilium's tunnel mode does: main leads to each peer's
// pods through cilium_host, with an MTU that leaves room for the tunnel.
func TestCiliumTunnel(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.withoutCNI()
	c.tunnel()
	c.defineCiliumNodes()
	for _, n := range c.Nodes {
		o := object(n)
		o.podCIDRs = nil
		o.annotations = map[string]string{}
		if n == c.Node(1) { // the others' netclassd says it
			for _, f := range routing.Families {
				o.annotations["network.cilium.io/"+f.String()+"-cilium-host"] = tunnelAddr(n, f).String()
			}
		}
		c.create(n, o)
	}
	for _, n := range c.Nodes {
		c.give(n, false)
	}
	c.run(example(t, "cilium-tunnel.yaml", "kubernetes: {}", c.source()))

	one, two := c.Node(1), c.Node(2)
	c.hasRoutes(one, "main",
		"10.244.2.0/24 via 10.244.2.254 dev cilium_host metric 10 onlink mtu 1450",
		"10.244.3.0/24 via 10.244.3.254 dev cilium_host metric 10 onlink mtu 1450",
		"fd00:10:244:2::/64 via fd00:10:244:2::fe dev cilium_host metric 10 onlink mtu 1450",
		"fd00:10:244:3::/64 via fd00:10:244:3::fe dev cilium_host metric 10 onlink mtu 1450")
	c.within(patience, "k8s-2 and k8s-3 have theirs", func() error {
		for _, n := range c.Nodes[1:] {
			if have := c.ours(n, "main"); len(have) != 4 {
				return fmt.Errorf("%s has %s", n.Name, strings.Join(have, ", "))
			}
		}
		return nil
	})

	c.healthy()
	before, err := one.Counts()
	c.must(err)
	for _, f := range routing.Families {
		c.ping(one.Pod, two.PodAddr(f).String(), c.Node(3).PodAddr(f).String())
		c.ping(one.Host, two.PodAddr(f).String()) // the node itself, too
	}
	after, err := one.Counts()
	c.must(err)
	sent := after.Since(before)
	// In the tunnel, pods' packets are the node's own, on the node network.
	if n := sent.Out(lab.NodeNet, lab.ZoneNode, lab.ZoneNode); n < 18 {
		t.Errorf("the tunnel's packets on node0: %d, want 18", n)
	}
	for _, link := range lab.ClassLinks {
		if n := sent.Out(link, lab.ZonePod, lab.ZonePod); n > 0 {
			t.Errorf("%d packets between pods left by %s outside of the tunnel", n, link)
		}
	}
	// The device would take 1,500 bytes: it is the route that tells pods what fits.
	for _, f := range routing.Families {
		c.within(patience, "path MTU of "+f.String(), func() (err error) {
			var mtu int
			err = one.Pod.Do(func() (err error) { mtu, err = discover(two.PodAddr(f)); return err })
			if err == nil && mtu != 1450 {
				err = fmt.Errorf("the path MTU to %s is %d, want 1450", two.PodAddr(f), mtu)
			}
			return err
		})
	}
	m := c.monitor(one)
	c.give(two, true)
	c.within(patience, "another pool", func() error {
		hop, err := one.Lookup(pool(two, routing.IPv4).Addr().Next(), one.PodAddr(routing.IPv4), podLink)
		if err == nil && hop.Via != tunnelAddr(two, routing.IPv4) {
			err = fmt.Errorf("leaves by %s", hop)
		}
		return err
	})
	c.changed(m, "another pool", "10.244.102.0/24 via 10.244.2.254", "fd00:10:244:102::/64 via fd00:10:244:2::fe")
	c.routerSawNothing()
}
