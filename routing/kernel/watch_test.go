package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/kernel"
)

// eventually waits until check is satisfied.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// settled waits until pod0 has its link-local address and no address is being
// checked for doubles, whose end is an event of its own.
func (n *node) settled(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		p := n.dump(t)
		if !slices.ContainsFunc(p.Link("pod0").Addrs, func(a routing.LinkAddr) bool { return a.Prefix.Addr().IsLinkLocalUnicast() }) {
			return errors.New("pod0 has no link-local address")
		}
		for _, l := range p.Links {
			for _, a := range l.Addrs {
				if a.Tentative {
					return fmt.Errorf("%s is still tentative", a.Prefix)
				}
			}
		}
		return nil
	})
}

// watching starts a Watch and waits for its first call.
func watching(t *testing.T, k *kernel.Kernel) <-chan bool {
	t.Helper()
	events := make(chan bool, 10000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Watch(ctx, func(dump bool) { events <- dump }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("watch ended with %v", err)
		}
	})
	if !<-events {
		t.Error("the first call asks for no dump")
	}
	return events
}

// heard reports whether an event comes, and swallows those that follow closely.
func heard(events <-chan bool, wait time.Duration) bool {
	got := false
	for {
		select {
		case <-events:
			got, wait = true, 50*time.Millisecond
		case <-time.After(wait):
			return got
		}
	}
}

func TestWatch(t *testing.T) {
	n := newNode(t)
	n.k.SetRange([]routing.Protocol{routing.ProtocolNetclass}, []routing.TableID{47, 1000, routing.MainID})
	n.settled(t)
	events := watching(t, n.k)
	const soon, never = 5 * time.Second, 200 * time.Millisecond

	mine, mine6 := route(t, "10.1.0.0/16 via 10.48.0.2 dev pod0"), route(t, "fd00:1::/64 via fd00:48::2 dev pod0")
	own := rule(routing.IPv4, 1000, from("10.244.0.0/16"))
	n.apply(t, add(mine), add(mine6), addRule(own), add(route(t, "10.2.0.0/16 dev pod0")), replace(route(t, "throw 10.2.0.0/16")), del(route(t, "throw 10.2.0.0/16")))
	if heard(events, never) {
		t.Error("our own changes were reported")
	}
	for _, c := range []struct {
		args string
		want bool
	}{
		{"route del 10.1.0.0/16 table 47", true},
		{"-6 route del fd00:1::/64 table 47", true},
		{"route add 10.3.0.0/16 dev pod0 table 47 proto bird", true},
		{"route add 10.3.0.0/16 dev pod0 table 1000 proto bird", true},
		{"route add 10.3.0.0/16 dev pod0 table 1001 proto bird", false},
		{"route add 10.3.0.0/16 dev pod0 table 1001 metric 5 proto 148", true},
		{"route add 10.3.0.0/16 dev pod0 proto bird", false},
		{"-6 route add fd00:3::/64 dev pod0 proto bird", false},
		{"route add unreachable 10.4.0.0/16 proto 148", true},
		{"route add unreachable 10.5.0.0/16 metric 4294967295", true},
		{"route replace 10.5.0.0/16 dev pod0 metric 4294967295 proto bird", true},
		{"-6 route replace unreachable fd00:5::/64 metric 4294967295 proto bird", true},
		{"rule del from 10.244.0.0/16 priority 1000", true},
		{"-6 rule add from fd00::/64 lookup 99 priority 9", true},
		{"link set pod0 mtu 1400", true},
		{"addr add 10.9.9.9/32 dev pod0", true},
		{"-6 addr add fd00:9::9/128 dev pod0 nodad", true},
		{"link set pod0 down", true},
	} {
		n.MustIP(t, c.args)
		wait := never
		if c.want {
			wait = soon
		}
		if got := heard(events, wait); got != c.want {
			t.Errorf("ip %s: heard %t, want %t", c.args, got, c.want)
		}
	}
}

// A large batch of our own neither overruns the subscription nor wakes it.
func TestWatchOwnBatch(t *testing.T) {
	n := newNode(t)
	n.k.SetRange([]routing.Protocol{routing.ProtocolNetclass}, []routing.TableID{47})
	n.settled(t)
	events := watching(t, n.k)
	var ops []routing.Op
	for i := range 20000 {
		ops = append(ops, add(numbered(t, i)))
	}
	n.apply(t, ops...)
	if heard(events, 200*time.Millisecond) {
		t.Error("our own batch was reported")
	}
}

func TestWatchEndsOnClose(t *testing.T) {
	n := newNode(t)
	k := open(t, n.NS)
	done := make(chan error, 1)
	started := make(chan bool, 1)
	go func() { done <- k.Watch(context.Background(), func(bool) { started <- true }) }()
	<-started
	must(t, k.Close())
	select {
	case err := <-done:
		wantErr(t, err, net.ErrClosed)
	case <-time.After(5 * time.Second):
		t.Fatal("watch goes on after close")
	}
}

// An overrun asks for a dump, and the events after it are heard again.
func TestWatchOverrun(t *testing.T) {
	n := newNode(t)
	n.k.SetRange(nil, []routing.TableID{47})
	kernel.SetWatchBuffer(n.k, 4096)
	block := make(chan struct{})
	calls := make(chan bool, 10000)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	first := true
	go func() {
		_ = n.k.Watch(ctx, func(dump bool) {
			calls <- dump
			if first {
				first = false
				<-block
			}
		})
	}()
	<-calls
	for i := range 100 { // while nobody reads
		n.MustIP(t, fmt.Sprintf("route add 10.1.%d.0/24 dev pod0 table 47", i))
	}
	close(block)
	heard(calls, 5*time.Second)
	n.MustIP(t, "route add 10.2.0.0/16 dev pod0 table 47")
	if !heard(calls, 5*time.Second) {
		t.Error("nothing is heard after an overrun")
	}
}

func TestProbe(t *testing.T) {
	n := newNode(t)
	n.MustIP(t, "neigh add 10.48.0.77 lladdr 02:00:00:00:00:77 dev pod0 nud permanent")
	type question struct {
		link, addr string
		want       bool
	}
	ask := func(limit time.Duration, questions ...question) {
		t.Helper()
		var wg sync.WaitGroup
		for _, q := range questions {
			wg.Go(func() {
				started := time.Now()
				got, err := n.k.Probe(context.Background(), q.link, netip.MustParseAddr(q.addr))
				took := time.Since(started)
				if err != nil || got != q.want || took > limit {
					t.Errorf("probe of %s on %s says %t, %v after %s of %s", q.addr, q.link, got, err, took, limit)
				}
			})
		}
		wg.Wait()
	}
	living := []question{
		{"pod0", "10.48.0.2", true},
		{"pod0", "fd00:48::2", true},
		{"pod0", "10.48.0.77", true}, // static
		{"lo", "127.0.0.2", true},    // no resolution there
		{"lo", "fd00:9::9", true},
		{"absent0", "10.48.0.2", false},
	}
	n.settled(t)                // IPv6 asks from the link-local address
	ask(time.Second, living...) // entries are made
	ask(time.Second, living...) // entries are there
	ask(5*time.Second, question{"pod0", "10.48.0.99", false}, question{"pod0", "fd00:48::99", false})
	for hop, want := range map[string]bool{"10.48.0.99": true, "10.48.0.2": false, "10.48.0.98": false, "10.48.0.77": false} {
		if got := n.k.Unanswered(t.Context(), "pod0", netip.MustParseAddr(hop)); got != want {
			t.Errorf("%s unanswered: %v, want %v", hop, got, want)
		}
	}

	// A peer that falls silent while its entries are known to be good.
	n.peer.MustIP(t, "addr flush dev port")
	ask(5*time.Second, question{"pod0", "10.48.0.2", false}, question{"pod0", "fd00:48::2", false}, question{"pod0", "10.48.0.99", false})
	// And comes back, when its entries have failed.
	must(t, n.peer.Addr("port", "10.48.0.2/24", "fd00:48::2/64"))
	ask(5*time.Second, question{"pod0", "10.48.0.2", true}, question{"pod0", "fd00:48::2", true})

	wantLines(t, n.show(t, "neigh show nud permanent"), "10.48.0.77 dev pod0 lladdr 02:00:00:00:00:77 PERMANENT")
	n.MustIP(t, "-6 addr flush dev pod0 scope link")
	_, err := n.k.Probe(t.Context(), "pod0", netip.MustParseAddr("fd00:48::2"))
	wantErr(t, err, kernel.ErrNoSource)
	must(t, n.Down("pod0"))
	ask(5*time.Second, question{"pod0", "10.48.0.2", false}, question{"pod0", "fd00:48::2", false})
}
