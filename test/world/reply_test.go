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

// clients calls from everywhere. ownTable says that the replies have a table of
// their own.
func (c *cluster) clients(ownTable bool) {
	const wait = 3 * time.Second
	for _, f := range routing.Families {
		for _, vip := range []netip.Addr{vipEBPF.Of(f), vipNAT.Of(f)} {
			if err := call(c.Router.World, vip, wait); err != nil {
				c.t.Errorf("from the world to %s: %v", vip, err)
			}
		}
		got := c.replies(f)
		if got["ebpf-ingress0"] == 0 || got["nat-ingress0"] == 0 || got["ebpf-mgmt0"]+got["nat-mgmt0"] > 0 {
			c.t.Errorf("%s: replies to the world left by %v, want ingress0 alone", f, got)
		}
		// The node itself, whose first route is looked up before NAT rewrites it.
		for _, n := range c.Nodes {
			if err := call(n.Host, vipNAT.Of(f), wait); err != nil {
				c.t.Errorf("from %s itself to %s: %v", n.Name, vipNAT.Of(f), err)
			}
		}
		c.nearClient(f, ownTable)
	}
	// What nobody serves must not go back and forth.
	c.unused()
	c.routerSawNothing()
}

// nearClient calls from a client on VLAN 40, first with a router that keeps no
// state. Where the replies go straight to it, a router that does keep state has
// seen half of the connection and ends it.
func (c *cluster) nearClient(f routing.Family, ownTable bool) {
	vip := vipEBPF.Of(f)
	before := c.replies(f)
	if err := call(c.near, vip, 3*time.Second); err != nil {
		c.t.Errorf("from VLAN 40 to %s: %v", vip, err)
	}
	got, link := c.replies(f), lab.Mgmt
	if ownTable {
		link = lab.Ingress
	}
	if got["ebpf-"+link] == before["ebpf-"+link] {
		c.t.Errorf("%s: replies to VLAN 40 left by %v, want %s", f, got, link)
	}
	family := map[routing.Family]string{routing.IPv4: "ip", routing.IPv6: "ip6"}[f]
	rules := fmt.Sprintf("table %s stateful { chain through { type filter hook forward priority 0; ct state invalid drop; tcp flags & (syn|ack) != syn ct state new drop; }; }", family)
	_, err := c.Router.ExecInput(c.t.Context(), strings.NewReader(rules), "nft", "-f", "-")
	c.must(err)
	switch err := call(c.near, vip, 3*time.Second); {
	case ownTable && err != nil:
		c.t.Errorf("from VLAN 40 through a stateful router to %s: %v", vip, err)
	case !ownTable && err == nil:
		c.t.Errorf("from VLAN 40 through a stateful router to %s: it works, so that a table of its own is not needed for it", vip)
	}
	if err := call(c.Router.World, vip, 3*time.Second); err != nil {
		c.t.Errorf("from the world through a stateful router to %s: %v", vip, err)
	}
	_, err = c.Router.Exec(c.t.Context(), "nft", "delete", "table", family, "stateful")
	c.must(err)
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
