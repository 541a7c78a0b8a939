package world

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// TestReplies has clients in the world and on the nodes' own VLAN call services
// through the router, with each kind of datapath, and looks by which link the
// replies leave.
func TestReplies(t *testing.T) {
	for _, kind := range []string{"bgpd", "bird"} {
		for _, config := range []string{"config.yaml", "config-vip-table.yaml"} {
			t.Run(kind+"/"+config, func(t *testing.T) {
				t.Parallel()
				c := start(t, example(t, config), kind)
				c.within(convergence, "the router's routes", func() error { return c.routerKnows(lab.LoadBalancers, 3) })
				if out, err := c.daemons[0].Ctl(t.Context(), "verify", "--all"); err != nil {
					t.Errorf("verify: %v\n%s", err, out)
				}
				c.masquerade()
				for _, h := range []*lab.Host{c.near, c.Node(2).Host} {
					c.serve(h, servicePort)
				}
				c.clients(config == "config-vip-table.yaml")
			})
		}
	}
}

// routerKnows says whether the router's kernel has a route for a prefix by that
// many nodes.
func (c *cluster) routerKnows(prefixes routing.PerFamily[netip.Prefix], nodes int) error {
	for _, f := range routing.Families {
		out, err := c.Router.Exec(c.t.Context(), "ip", "-"+strings.TrimPrefix(f.String(), "ipv"), "route", "show", prefixes.Of(f).String())
		if err != nil {
			return err
		}
		if got := strings.Count(out, "via "); got != nodes {
			return fmt.Errorf("%s by %d nodes, want %d: %s", prefixes.Of(f), got, nodes, out)
		}
	}
	return nil
}

// patience is how long a call may take on a busy machine.
const patience = 5 * time.Second

// clients calls from everywhere. byRouter says that replies go back by the router, to
// whomever.
func (c *cluster) clients(byRouter bool) {
	for _, f := range routing.Families {
		for _, vip := range []netip.Addr{vipEBPF.Of(f), vipNAT.Of(f)} {
			if err := call(c.Router.World, vip, patience); err != nil {
				c.t.Errorf("from the world to %s: %v", vip, err)
			}
		}
		got := c.replies(f)
		if got["ebpf-ingress0"] == 0 || got["nat-ingress0"] == 0 || got["ebpf-mgmt0"]+got["nat-mgmt0"] > 0 {
			c.t.Errorf("%s: replies to the world left by %v, want ingress0 alone", f, got)
		}
		// The node itself, whose first route is looked up before NAT rewrites it.
		for _, n := range c.Nodes {
			if err := call(n.Host, vipNAT.Of(f), patience); err != nil {
				c.t.Errorf("from %s itself to %s: %v", n.Name, vipNAT.Of(f), err)
			}
		}
		c.nearClient(f, byRouter)
	}
	c.withoutIngress()
	// What nobody serves must not go back and forth.
	c.unused()
	c.routerSawNothing()
}

// nearClient calls from a client on VLAN 40, through a router that keeps no state and
// through one that does. Where the replies go straight to it, the second has seen
// half of the connection and ends it.
func (c *cluster) nearClient(f routing.Family, byRouter bool) {
	link, other, datapaths := lab.Mgmt, lab.Ingress, map[string]netip.Addr{"ebpf": vipEBPF.Of(f), "nat": vipNAT.Of(f)}
	if byRouter {
		link, other = other, link
	}
	for datapath, vip := range datapaths {
		before := c.replies(f)
		if err := call(c.near, vip, patience); err != nil {
			c.t.Errorf("from VLAN 40 to %s (%s): %v", vip, datapath, err)
		}
		got := c.replies(f)
		if got[datapath+"-"+link] == before[datapath+"-"+link] || got[datapath+"-"+other] > before[datapath+"-"+other] {
			c.t.Errorf("replies of %s (%s) to VLAN 40 left by %v, before by %v, want %s", vip, datapath, got, before, link)
		}
	}
	mend := c.stateful(f)
	for datapath, vip := range datapaths {
		switch err := call(c.near, vip, c.hope(byRouter)); {
		case byRouter && err != nil:
			c.t.Errorf("from VLAN 40 through a stateful router to %s (%s): %v", vip, datapath, err)
		case !byRouter && err == nil:
			c.t.Errorf("from VLAN 40 through a stateful router to %s (%s): it works, so that no other configuration is needed for it", vip, datapath)
		}
		if err := call(c.Router.World, vip, patience); err != nil {
			c.t.Errorf("from the world through a stateful router to %s (%s): %v", vip, datapath, err)
		}
	}
	c.nearHosts(f, link)
	mend()
}

// nearHosts calls hosts on VLAN 40 from pods, through a router that keeps state. What
// a node has an address of there answers without the router.
func (c *cluster) nearHosts(f routing.Family, link string) {
	c.t.Helper()
	one, two := c.Node(1), c.Node(2)
	host := netip.MustParseAddr(lab.ClientAddr(lab.Mgmt, nearNumber, f))
	if hop, err := one.FromPod(host); err != nil || hop.Link != link {
		c.t.Errorf("a pod reaches %s by %v, %v, want %s", host, hop, err, link)
	}
	if err := call(one.Pod, host, patience); err != nil {
		c.t.Errorf("from a pod to a host on VLAN 40: %v", err)
	}
	direct := link == lab.Mgmt
	switch err := call(one.Pod, two.Addr(lab.Mgmt, f), c.hope(direct)); {
	case direct && err != nil:
		c.t.Errorf("from a pod to another node's address on VLAN 40: %v", err)
	case !direct && err == nil:
		c.t.Error("a pod reaches another node's address on VLAN 40 through a stateful router: the documentation may say so")
	}
	if err := call(one.Pod, two.Addr(lab.NodeNet, f), patience); err != nil {
		c.t.Errorf("from a pod to another node's address on the node network: %v", err)
	}
}

// withoutIngress takes a node's ingress0 down and up: meanwhile its pods, and replies,
// reach VLAN 40 without the router.
func (c *cluster) withoutIngress() {
	c.t.Helper()
	one := c.Node(1)
	c.must(one.LinkDown(lab.Ingress))
	for _, f := range routing.Families {
		host := netip.MustParseAddr(lab.ClientAddr(lab.Mgmt, nearNumber, f))
		for _, from := range []netip.Addr{one.PodAddr(f), vipEBPF.Of(f)} {
			c.within(convergence, fmt.Sprintf("from %s to %s without ingress0", from, host), func() error {
				hop, err := one.Lookup(host, from, lab.CNILink)
				if err == nil && hop.Link != lab.Mgmt {
					err = fmt.Errorf("it leaves by %v", hop)
				}
				return err
			})
		}
	}
	c.must(one.LinkUp(lab.Ingress))
}

// hope is how long a call may take that should succeed, or should not.
func (c *cluster) hope(good bool) time.Duration {
	if good {
		return patience
	}
	return time.Second
}

// stateful has the router drop what belongs to no connection that it has seen begin,
// until the returned function is called.
func (c *cluster) stateful(f routing.Family) (mend func()) {
	c.t.Helper()
	family := map[routing.Family]string{routing.IPv4: "ip", routing.IPv6: "ip6"}[f]
	rules := fmt.Sprintf("table %s stateful { chain through { type filter hook forward priority 0; ct state invalid drop; tcp flags & (syn|ack) != syn ct state new drop; }; }", family)
	_, err := c.Router.ExecInput(c.t.Context(), strings.NewReader(rules), "nft", "-f", "-")
	c.must(err)
	return func() {
		c.t.Helper()
		_, err := c.Router.Exec(c.t.Context(), "nft", "delete", "table", family, "stateful")
		c.must(err)
	}
}

// unused sends packets to an address that is announced and that nobody serves,
// and counts what comes back to the router.
func (c *cluster) unused() {
	c.t.Helper()
	for _, f := range routing.Families {
		family := map[routing.Family]string{routing.IPv4: "ip", routing.IPv6: "ip6"}[f]
		rules := fmt.Sprintf("table %[1]s unused { counter back { }; chain in { type filter hook prerouting priority raw; iifname { vlan40, vlan47 } %[1]s daddr %[2]s counter name back; }; }", family, vipUnused.Of(f))
		_, err := c.Router.ExecInput(c.t.Context(), strings.NewReader(rules), "nft", "-f", "-")
		c.must(err)
		r, err := c.Router.World.Ping(vipUnused.Of(f), 10)
		c.must(err)
		if r.Received > 0 {
			c.t.Errorf("%s answers", vipUnused.Of(f))
		}
		out, err := c.Router.Exec(c.t.Context(), "nft", "list", "counter", family, "unused", "back")
		c.must(err)
		if !strings.Contains(out, "packets 0 ") {
			c.t.Errorf("packets for the unused %s came back to the router: %s", vipUnused.Of(f), out)
		}
	}
}
