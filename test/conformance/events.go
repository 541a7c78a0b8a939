package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"netclass.dev/routing"
)

// settled waits until no address is being checked for doubles, the end of which
// is an event, and until then IPv6 asks nobody.
func (h *harness) settled() {
	h.Helper()
	h.eventually(func() error {
		for _, l := range h.dump().Links {
			for _, a := range l.Addrs {
				if a.Tentative {
					return fmt.Errorf("%s is tentative", a.Prefix)
				}
			}
		}
		return nil
	})
}

// Our own changes are silent; those of others count when they are about our
// protocol or our tables; links, addresses and rules always count.
func watch(h *harness) {
	h.s.SetRange([]routing.Protocol{routing.ProtocolNetclass}, []routing.TableID{47, routing.MainID})
	h.settled()
	events := make(chan bool, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.s.Watch(ctx, func(dump bool) { events <- dump }) }()
	defer func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			h.Errorf("watch ended with %v", err)
		}
	}()
	heard := func(wait time.Duration) (any bool) {
		for {
			select {
			case dump := <-events:
				if !dump {
					h.Error("an event asks for no dump")
				}
				any, wait = true, 30*time.Millisecond
			case <-time.After(wait):
				return any
			}
		}
	}
	const soon, never = 5 * time.Second, 150 * time.Millisecond
	if !heard(soon) {
		h.Error("no call at the start")
	}
	rule, theirs := lookupRule(routing.IPv4, 1001, "10.244.0.0/16", ""), lookupRule(routing.IPv6, 9, "fd00::/64", "")
	h.do(add("10.2.0.0/16 via 10.48.0.2 dev pod0"), add("fd00:2::/64 via fd00:48::2 dev pod0"), addRule(rule),
		replace("throw 10.2.0.0/16"), del("throw 10.2.0.0/16"), add("10.2.0.0/16 dev pod0"))
	if heard(never) {
		h.Error("our own changes were reported")
	}
	foreign := func(op routing.Op) func() error { return func() error { return h.s.Foreign(op) } }
	for _, c := range []struct {
		name string
		do   func() error
		want bool
	}{
		{"our route deleted", foreign(del("10.2.0.0/16 dev pod0")), true},
		{"our IPv6 route deleted", foreign(del("fd00:2::/64 via fd00:48::2 dev pod0")), true},
		{"route in our table", foreign(add("10.3.0.0/16 dev pod0 proto 12")), true},
		{"route in another table", foreign(add("10.3.0.0/16 dev pod0 proto 12 table 48")), false},
		{"route in a table of a high number", foreign(add("fd00:3::/64 dev pod0 proto 12 table 1000")), false},
		{"route in main", foreign(add("10.3.0.0/16 dev pod0 proto 12 table 254 metric 1024")), false},
		{"route in main in the place of a guard", foreign(add("unreachable 10.5.0.0/16 proto 12 table 254 metric 4294967295")), true},
		{"route of our protocol in main", foreign(add("10.4.0.0/16 dev pod0 table 254")), true},
		{"our rule deleted", foreign(delRule(rule)), true},
		{"rule of others", foreign(addRule(theirs)), true},
		{"address added", func() error { return h.s.AddAddr("pod0", netip.MustParsePrefix("10.9.9.9/32")) }, true},
		{"IPv6 address added", func() error { return h.s.AddAddr("pod0", netip.MustParsePrefix("fd00:9::9/128")) }, true},
		{"address deleted", func() error { return h.s.DelAddr("pod0", netip.MustParsePrefix("10.9.9.9/32")) }, true},
		{"carrier lost", func() error { return h.s.SetCarrier("pod0", false) }, true},
		{"link down", func() error { return h.s.SetUp("pod0", false) }, true},
		{"link up", func() error { return h.s.SetUp("pod0", true) }, true},
		{"link deleted", func() error { return h.s.DeleteLink("pod0") }, true},
		{"link added", func() error { return h.s.AddLink("pod1") }, true},
	} {
		wait := never
		if c.want {
			wait = soon
		}
		h.must(c.do())
		if got := heard(wait); got != c.want {
			h.Errorf("%s: heard %t, want %t", c.name, got, c.want)
		}
	}
}

// A next hop is alive where somebody answers for it on a usable link.
func probe(h *harness) {
	h.settled()
	h.must(h.s.Neighbour("pod0", netip.MustParsePrefix("10.48.0.2/24")))
	h.must(h.s.Neighbour("pod0", netip.MustParsePrefix("fd00:48::2/64")))
	ask := func(link, hop string, want bool) {
		h.Helper()
		h.eventually(func() error {
			if got, err := h.s.Probe(h.Context(), link, netip.MustParseAddr(hop)); got != want || err != nil {
				return fmt.Errorf("probe of %s on %s: %t, %w", hop, link, got, err)
			}
			return nil
		})
	}
	for range 2 {
		ask("pod0", "10.48.0.2", true)
		ask("pod0", "fd00:48::2", true)
	}
	ask("pod0", "10.48.0.3", false)
	ask("pod0", "fd00:48::3", false)
	ask("absent0", "10.48.0.2", false)
	h.must(h.s.SetUp("pod0", false))
	ask("pod0", "10.48.0.2", false)
	ctx, cancel := context.WithCancel(h.Context())
	cancel()
	if _, err := h.s.Probe(ctx, "pod0", netip.MustParseAddr("10.48.0.2")); !errors.Is(err, context.Canceled) {
		h.Errorf("probe with a cancelled context: %v", err)
	}
}
