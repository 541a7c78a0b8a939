package networks

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

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
