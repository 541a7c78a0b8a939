package networks

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// loops shows what happens without us: a packet for an address of a block that no
// pod has goes back to the router by the default, and comes again, until its TTL
// is used up.
func (c *calico) loops() {
	c.t.Helper()
	for _, f := range c.families {
		before := c.cameBack(f)
		c.silence([]*lab.Host{c.Router.World}, 1, slices.Collect(maps.Values(c.unusedAddresses(f)))...)
		if n := c.cameBack(f) - before; n < 2*30 {
			c.t.Errorf("with nothing running two packets of TTL 64 came back %d times, want about 31 each", n)
		}
	}
}

// silence pings from hosts to addresses, all at once, and wants no answers.
func (c *calico) silence(from []*lab.Host, count int, to ...netip.Addr) {
	c.t.Helper()
	var pings sync.WaitGroup
	for _, h := range from {
		for _, a := range to {
			pings.Go(func() {
				if r, err := h.Ping(a, count); err != nil || r.Received > 0 {
					c.t.Errorf("%v %v: want no answer", r, err)
				}
			})
		}
	}
	pings.Wait()
}

// unusedAddresses are those of no pod that the router sends to the second node.
func (c *calico) unusedAddresses(f routing.Family) map[string]netip.Addr {
	return map[string]netip.Addr{"unused": inBlock(2, 0, unused, f), "in no block": nowhere(f)}
}

// noLoops wants the second node to drop what is for its own blocks and no pod, and
// to refuse what is for no block at all, which is the guard's, whoever sent it.
// Nothing of it comes back to the router.
func (c *calico) noLoops() {
	c.t.Helper()
	n := c.Node(2)
	senders := map[*lab.Host]string{c.Router.World: uplink, c.Node(1).Pod: tunnel, c.Node(3).Pod: tunnel, n.Pod: cali, n.Host: ""}
	for _, f := range c.families {
		before := c.cameBack(f)
		for what, to := range c.unusedAddresses(f) {
			want := unix.ENETUNREACH
			if what == "unused" {
				want = unix.EINVAL // of a blackhole
			}
			for from, link := range senders {
				if link == tunnel && what != "unused" {
					continue // the sender's node has no way to it
				}
				src := map[*lab.Host]netip.Addr{
					c.Router.World: lab.WorldAddr.Of(f), c.Node(1).Pod: podOf(1, f), c.Node(3).Pod: podOf(3, f), n.Pod: podOf(2, f),
				}[from]
				if _, err := n.Lookup(to, src, link); !errors.Is(err, want) {
					c.t.Errorf("%s address, from %s: the kernel says %v, want %v", what, from.Name, err, want)
				}
			}
		}
		// Its own packets the kernel does not let a node send.
		c.silence([]*lab.Host{c.Router.World, c.Node(1).Pod, c.Node(3).Pod, n.Pod}, 3, inBlock(2, 0, unused, f))
		c.silence([]*lab.Host{c.Router.World, c.Node(3).Pod, n.Pod}, 3, nowhere(f))
		if n := c.cameBack(f) - before; n != 0 {
			c.t.Errorf("%s: %d packets for pods came back to the router", f, n)
		}
	}
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

// birdRestarts has Calico's BIRD crash and come back with a block more: graceful
// restart keeps the ways to its pods, and netclassd calls it again although both
// wait for a call. What it then tells of is believed where it may be: a block that
// the API has not said yet, but not what is another's or no pod's.
func (c *calico) birdRestarts() {
	c.t.Helper()
	stop := c.podPings(2, 1)
	c.must(c.bird.Kill())
	strange := []string{"203.0.113.0/24", inBlock(2, 0, 40, routing.IPv4).String() + "/32", "192.168.0.0/16"}
	c.must(os.WriteFile(c.Node(1).File("bird.conf"), []byte(c.birdConfig(append(strange, blockOf(1, 1, routing.IPv4).String())...)), 0o644))
	c.must(c.bird.Start())
	for _, n := range []int{2, 3} {
		c.within(patience, "BIRD hears of "+lab.NodeName(n)+" again", func() error { return c.birdHas(n, 0, routing.IPv4, true) })
		c.within(patience, "a block that BIRD alone knows of on "+lab.NodeName(n), func() error { return c.has(n, 1, 1, routing.IPv4, true) })
		for _, route := range c.ours(c.Node(n), "main") {
			if dst, _, _ := strings.Cut(route, " "); slices.Contains(strange, dst) || slices.Contains(strange, dst+"/32") {
				c.t.Errorf("%s believes %s", lab.NodeName(n), route)
			}
		}
	}
	stop()
}

// daemonRestarts has netclassd crash and come back, with BIRD and netclassd as its
// peers.
func (c *calico) daemonRestarts() {
	c.t.Helper()
	stops := []func(){c.podPings(1, 2), c.podPings(3, 2)}
	d := c.daemons[0]
	c.must(d.Kill())
	c.must(d.Start())
	c.within(patience, "sessions again", func() error {
		out, err := c.bird.Ctl(c.t.Context(), "show", "protocols")
		for _, f := range c.families {
			if err == nil && !regexp.MustCompile("(?m)^Mesh_2_"+f.String()+" .* Established").MatchString(out) {
				err = fmt.Errorf("not all are:\n%s", out)
			}
		}
		return err
	})
	c.converged()
	for _, stop := range stops {
		stop()
	}
}

// podPings pings the pod of a node from another's until stop is called, which
// fails the test if a packet is lost.
func (c *calico) podPings(from, to int) (stop func()) {
	c.t.Helper()
	var pingers []*lab.Pinger
	for _, f := range c.families {
		c.ping(c.Node(from).Pod, podOf(to, f).String())
		p, err := c.Node(from).Pod.StartPing(podOf(to, f), lab.PingOptions{Rate: 200})
		c.must(err)
		pingers = append(pingers, p)
	}
	return func() {
		c.t.Helper()
		for _, p := range pingers {
			if r := p.Stop(); r.Lost > 0 {
				c.t.Errorf("%v: want none lost", r)
			}
		}
	}
}

// guardInOrder wants the two halves of the guard among what a node's kernel has
// told: what main may answer before what nobody answers, and the other way about
// when they go.
func (c *calico) guardInOrder(changes []string, prefix string) {
	c.t.Helper()
	for _, dst := range []string{"192.168.0.0/16", "fd00:192:168::/48"}[:len(c.families)] {
		var at []int
		for _, half := range []string{
			prefix + "32762: from all to " + dst + " lookup 254 suppress_prefixlength ",
			prefix + "32763: from all to " + dst + " 7 ", // unreachable
		} {
			at = append(at, slices.IndexFunc(changes, func(line string) bool {
				return strings.HasPrefix(line, half)
			}))
		}
		if at[0] < 0 || at[1] < 0 || (at[0] < at[1]) != (prefix == "") {
			c.t.Errorf("the halves of the guard of %s are at %v of:\n%s", dst, at, strings.Join(changes, "\n"))
		}
	}
}

// guardRemoved takes the guard out of the configuration: what it held off loops
// again, and pods go on.
func (c *calico) guardRemoved(m *monitor) {
	c.t.Helper()
	m.changes()
	stop := c.podPings(3, 2)
	at := strings.Index(c.config, "guard:")
	end := at + strings.Index(c.config[at:], "\n")
	d := c.daemons[0]
	c.must(d.WriteConfig(c.config[:at] + c.config[end:]))
	c.must(d.Reload())
	c.within(patience, "no guard", func() error {
		for _, family := range []string{"-4", "-6"} {
			if out := c.ip(d.Node, family+" rule show"); strings.Contains(out, "3276") && strings.Contains(out, "unreachable") {
				return fmt.Errorf("still:\n%s", out)
			}
		}
		return nil
	})
	stop()
	time.Sleep(200 * time.Millisecond) // until the monitor has written
	c.guardInOrder(m.changes(), "Deleted ")
	for _, f := range c.families {
		before := c.cameBack(f)
		_, err := c.Router.World.Ping(nowhere(f), 1)
		c.must(err)
		if n := c.cameBack(f) - before; n < 20 {
			c.t.Errorf("without the guard a packet for %s came back %d times", nowhere(f), n)
		}
		before = c.cameBack(f)
		if _, err := c.Router.World.Ping(inBlock(2, 0, unused, f), 1); err != nil || c.cameBack(f) != before {
			c.t.Errorf("without the guard a packet for a block came back %d times: %v", c.cameBack(f)-before, err)
		}
	}
}
