package faults

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// TestForeignRoutes floods k8s-1 with 10,000 routes of another program, in our
// table, so that the subscription overruns, and undoes work of ours under the
// flood.
func TestForeignRoutes(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	want := c.ours()
	var add, del strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&add, "route add blackhole 172.%d.%d.0/24 table 47 proto static metric 77\n", 16+i>>8, i&255)
		fmt.Fprintf(&del, "route del blackhole 172.%d.%d.0/24 table 47 proto static metric 77\n", 16+i>>8, i&255)
	}
	batch := func(text string) {
		_, err := c.one.ExecInput(t.Context(), strings.NewReader(text), "ip", "-4", "-batch", "-")
		c.must(err)
	}
	c.inject(2, "10,000 foreign routes come and go, and a class path with them")
	c.pings(func() {
		batch(add.String() + "route del 10.244.2.0/24 table 47 metric 10\n")
		took := c.restored(repair, "the class path", want)
		t.Logf("10,000 routes came; whole after %v", took.Round(time.Millisecond))
		batch(del.String())
		c.restored(repair, "the routes gone", want)
	})

	c.inject(2, "they come and go while the daemon cannot read events")
	c.pings(func() {
		c.must(c.d.Signal(syscall.SIGSTOP))
		batch(add.String() + "route del 10.244.2.0/24 table 47 metric 10\n" + del.String() + add.String())
		c.must(c.d.Signal(syscall.SIGCONT))
		took := c.restored(repair, "the class path", want)
		t.Logf("whole %v after the overrun", took.Round(time.Millisecond))
		if !strings.Contains(c.d.LogTail(1000), "overran the subscription") {
			t.Error("the subscription did not overrun")
		}
		foreign := 0
		for _, r := range c.dump().Routes {
			if r.Table == 47 && r.Protocol == routing.ProtocolStatic {
				foreign++
			}
		}
		if foreign != 10_000 {
			c.broken("%d of 10,000 foreign routes are there", foreign)
		}
	})
}

// TestInterruptedDumps changes links, addresses, rules and routes all the time,
// so that hardly a dump comes to its end undisturbed. Nothing is deleted on a
// dump that is not whole.
func TestInterruptedDumps(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	want := c.ours()
	c.inject(3, "links, addresses, rules and routes that change during every dump")
	ctx, stop := context.WithCancel(t.Context())
	var tasks sync.WaitGroup
	nl := c.one.Netlink()
	tasks.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			x := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("x%d", i&3)}}
			_ = nl.LinkAdd(x)
			_ = nl.AddrAdd(x, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(198, 18, 0, byte(i)), Mask: net.CIDRMask(32, 32)}})
			_ = nl.LinkDel(x)
		}
	})
	tasks.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			r := netlink.NewRule()
			r.Family, r.Priority, r.Table, r.Mark = netlink.FAMILY_V6, 900+i&31, 99, 7
			_ = nl.RuleAdd(r)
			_ = nl.RuleDel(r)
			time.Sleep(200 * time.Microsecond)
		}
	})
	c.pings(func() {
		end := time.Now().Add(3 * time.Second)
		for i := 0; time.Now().Before(end); i++ {
			if i == 50 {
				c.inject(1, "a class path is deleted meanwhile")
				c.ip("-4 route del 10.244.2.0/24 table 47 metric 10", "-6 route del fd00:10:244:2::/64 table 47 metric 10")
			}
			if k, err := c.kernel.Dump(t.Context()); err == nil && i < 50 {
				if err := differ(want, lines(k, func(p routing.Protocol) bool { return p == routing.ProtocolNetclass })); err != nil {
					c.broken("under interrupted dumps: %v", err)
					break
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
		c.within(10*time.Second, "the class path, under interrupted dumps", func() error { return c.one.PodPaths(lab.PodNet, c.Node(2)) })
		stop()
		tasks.Wait()
	})
	c.restored(12*time.Second, "the end of the disturbance", want)
	s, err := c.status()
	c.must(err)
	t.Logf("%d passes, %d dumps; error %q", s.Pass.Passes, s.Pass.Dumps, s.Pass.Error)
}

// TestFloodingPeer lets a peer announce 100,000 prefixes: the session ends, the
// memory stays bounded, and the other peer notices nothing.
func TestFloodingPeer(t *testing.T) {
	t.Parallel()
	c := bare(t, 3)
	c.run(c.one)
	c.run(c.Node(2))
	three := c.Node(3)
	config := fmt.Sprintf("log stderr all;\nrouter id %s;\nprotocol device {}\nprotocol static all4 { ipv4;\nroute 10.244.3.0/24 blackhole;\n", three.Addr(lab.PodNet, routing.IPv4))
	var many strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&many, "route %d.%d.%d.0/24 blackhole;\n", 11+i>>16, i>>8&255, i&255)
	}
	peer := fmt.Sprintf("}\nprotocol bgp k8s1 { local %s as 64512; neighbor %s as 64512; hold time 9; connect delay time 1; connect retry time 1; error wait time 1, 2;\nipv4 { import none; export all; next hop self; }; }\n",
		three.Addr(lab.PodNet, routing.IPv4), c.one.Addr(lab.PodNet, routing.IPv4))
	bird, err := three.StartBIRD(config + peer)
	c.must(err)
	c.within(convergence, "the peers' classes", func() error {
		hop, err := c.one.FromPod(three.PodAddr(routing.IPv4))
		if err == nil && hop.Link != lab.PodNet {
			err = fmt.Errorf("by %s", hop)
		}
		if err == nil {
			err = c.one.PodPaths(lab.PodNet, c.Node(2))
		}
		return err
	})
	before, err := c.d.PSS()
	c.must(err)
	c.inject(1, "a peer floods 100,000 prefixes")
	c.pings(func() {
		c.must(os.WriteFile(three.File("bird.conf"), []byte(config+many.String()+peer), 0o644))
		_, err = bird.Host.Exec(t.Context(), "birdc", "-s", bird.Control, "configure")
		c.must(err)
		c.within(20*time.Second, "the end of the session", func() error {
			out, err := c.d.Ctl(t.Context(), "peers", "k8s-3")
			if err == nil && !strings.Contains(out, "Maximum Number of Prefixes") {
				err = fmt.Errorf("peers: %s", out)
			}
			return err
		})
		most := uint64(0)
		for range 40 {
			now, err := c.d.PSS()
			c.must(err)
			most = max(most, now)
			time.Sleep(50 * time.Millisecond)
		}
		t.Logf("daemon and speaker: %d MB before, at most %d MB under it", before>>20, most>>20)
		if most > 200<<20 {
			c.broken("%d MB", most>>20)
		}
		c.must(c.one.PodPaths(lab.PodNet, c.Node(2)))
		for _, r := range c.dump().Routes {
			if r.Protocol == routing.ProtocolNetclass && r.Dst.Addr().Is4() && r.Dst.Addr().As4()[0] == 11 {
				c.broken("taken: %s", r)
				break
			}
		}
	})
}
