package networks

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// promptly is how soon a change of the API is in every kernel: about a second,
// and a busy machine's share.
const promptly = 3 * time.Second

// TestCalico runs examples/calico.yaml beside a node that still has Calico's BIRD.
func TestCalico(t *testing.T) {
	t.Parallel()
	c := newCalico(t, false)
	monitor := c.begin()
	c.affinities()
	c.birdRestarts()
	c.guardRemoved(monitor)
	c.routerSawNothing()
}

// TestCalicoVXLAN is the same in both families, as Calico routes where it does not
// use IPIP: the next hop is the address of the peer's tunnel.
func TestCalicoVXLAN(t *testing.T) {
	t.Parallel()
	c := newCalico(t, true)
	monitor := c.begin()
	c.daemonRestarts()
	c.guardRemoved(monitor)
	c.routerSawNothing()
}

// begin starts everything and wants it to be as it should.
func (c *calico) begin() *monitor {
	c.t.Helper()
	c.loops()
	c.startBIRD()
	monitor := c.monitor(c.Node(2))
	c.run(c.config, c.Node(2), c.Node(3))
	c.converged()
	c.guardInOrder(monitor.changes(), "")
	c.delivered()
	c.noLoops()
	c.pathMTU()
	c.held()
	c.secondBlock()
	return monitor
}

// converged waits until every node has everybody's blocks.
func (c *calico) converged() {
	c.t.Helper()
	for _, f := range c.families {
		for _, peer := range []int{2, 3} {
			c.within(patience, "BIRD hears of "+blockOf(peer, 0, f).String(), func() error { return c.birdHas(peer, 0, f, true) })
		}
		for _, n := range []int{2, 3} {
			for peer := 1; peer <= 3; peer++ {
				c.within(patience, fmt.Sprintf("%s on %s", blockOf(peer, 0, f), lab.NodeName(n)), func() error { return c.has(n, peer, 0, f, true) })
			}
		}
	}
}

// has wants a node to have a block of a peer, or of its own, as the example says,
// or not to have it.
func (c *calico) has(node, peer, number int, f routing.Family, has bool) error {
	block := blockOf(peer, number, f).String()
	words := []string{block, "via " + c.hop(peer, f).String(), "dev " + tunnel, "onlink", "mtu 1480", "metric 10"}
	if node == peer {
		words = []string{"blackhole " + block, "metric 10"}
	}
	for _, route := range c.ours(c.Node(node), "main") {
		if !slices.ContainsFunc(strings.Fields(route), func(word string) bool { return word == block }) {
			continue
		}
		for _, word := range words {
			if !strings.Contains(route, word) {
				return fmt.Errorf("%s has %q, without %q", lab.NodeName(node), route, word)
			}
		}
		if !has {
			return fmt.Errorf("%s still has %q", lab.NodeName(node), route)
		}
		return nil
	}
	if has {
		return fmt.Errorf("%s has no route to %s", lab.NodeName(node), block)
	}
	return nil
}

// delivered wants used addresses to be reached through longer routes: from pods
// over the tunnel, and from outside.
func (c *calico) delivered() {
	c.t.Helper()
	for from := 1; from <= 3; from++ {
		for to := 1; to <= 3; to++ {
			for _, f := range c.families {
				sent := c.tunnelled(from)
				c.ping(c.Node(from).Pod, podOf(to, f).String())
				if n := c.tunnelled(from) - sent; from != to && n < 3 {
					c.t.Errorf("%s to %s: %d packets left by the tunnel, want 3", lab.NodeName(from), podOf(to, f), n)
				}
			}
		}
	}
	for _, f := range c.families {
		c.ping(c.Router.World, podOf(2, f).String(), podOf(3, f).String())
	}
}

// tunnelled counts the packets that a node has sent into its tunnel.
func (c *calico) tunnelled(node int) uint64 {
	c.t.Helper()
	l, err := c.Node(node).Netlink().LinkByName(tunnel)
	c.must(err)
	return l.Attrs().Statistics.TxPackets
}

// held wants netclassd to be well and to find its class held. The router's part is
// proven for IPv4; for IPv6 it is not, by choice: an eBPF datapath would not obey a
// guard as rules.
func (c *calico) held() {
	c.t.Helper()
	proof := "carries cluster traffic: PROVEN"
	if len(c.families) > 1 {
		proof = "no eBPF datapath obeys a guard as rules in IPv6"
	}
	for _, d := range c.daemons {
		c.within(patience, "well on "+d.Node.Name, func() error {
			if out, err := d.Ctl(c.t.Context(), "status"); err != nil || !strings.Contains(out, "Ready") {
				return fmt.Errorf("%w: %s", err, out)
			}
			out, err := d.Ctl(c.t.Context(), "verify")
			if err != nil || strings.Count(out, "HELD") != len(c.families) || !strings.Contains(out, proof) {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
}

// secondBlock gives a node a block more while pods talk, and takes it back.
func (c *calico) secondBlock() {
	c.t.Helper()
	stop := c.podPings(3, 2)
	everywhere := func(what string, has bool) {
		c.t.Helper()
		for _, f := range c.families {
			for _, n := range []int{2, 3} {
				c.within(promptly, fmt.Sprintf("%s %s on %s", blockOf(2, 1, f), what, lab.NodeName(n)), func() error { return c.has(n, 2, 1, f, has) })
			}
			c.within(promptly, fmt.Sprintf("%s %s at BIRD", blockOf(2, 1, f), what), func() error { return c.birdHas(2, 1, f, has) })
		}
	}
	for _, f := range c.families {
		c.block(2, 1, f, "confirmed", false)
		c.addPod(2, inBlock(2, 1, podHost, f))
	}
	everywhere("gained", true)
	for _, f := range c.families {
		c.ping(c.Node(3).Pod, inBlock(2, 1, podHost, f).String())
		c.silence([]*lab.Host{c.Node(3).Pod}, 3, inBlock(2, 1, unused, f))
		c.removePod(2, inBlock(2, 1, podHost, f))
		c.dropBlock(2, 1, f)
	}
	everywhere("given back", false)
	stop()
}

// affinities wants those that are not confirmed, or marked deleted, not to be used.
func (c *calico) affinities() {
	c.t.Helper()
	const f = routing.IPv4
	everywhere := func(what string, has bool) {
		c.t.Helper()
		for _, n := range []int{2, 3} {
			c.within(promptly, fmt.Sprintf("%s block on %s", what, lab.NodeName(n)), func() error { return c.has(n, 2, 2, f, has) })
		}
	}
	never := func(what string) {
		c.t.Helper()
		// A block that is used tells how soon this one would have been.
		c.block(2, 3, f, "confirmed", false)
		for _, n := range []int{2, 3} {
			c.within(promptly, "a block after it on "+lab.NodeName(n), func() error { return c.has(n, 2, 3, f, true) })
			if err := c.has(n, 2, 2, f, false); err != nil {
				c.t.Errorf("%s block: %v", what, err)
			}
		}
		c.dropBlock(2, 3, f)
		for _, n := range []int{2, 3} {
			c.within(promptly, "no block after it on "+lab.NodeName(n), func() error { return c.has(n, 2, 3, f, false) })
		}
	}
	c.block(2, 2, f, "pending", false)
	never("a pending")
	c.block(2, 2, f, "confirmed", false)
	everywhere("a confirmed", true)
	c.block(2, 2, f, "pendingDeletion", false)
	everywhere("a block pending deletion", false)
	c.block(2, 2, f, "confirmed", false)
	everywhere("a confirmed", true)
	c.block(2, 2, f, "confirmed", true)
	everywhere("a deleted", false)
	c.dropBlock(2, 2, f)
}
