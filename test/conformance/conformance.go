// Package conformance is one suite that the real kernel and the fake one both
// pass: every way of Linux that the engine relies on has a case here, so that a
// test with the fake says something about the real one.
package conformance

import (
	"context"
	"net/netip"
	"testing"

	"netclass.dev/routing"
)

// Subject is a kernel under test with levers on the world around it. It starts
// with lo up and nothing else.
type Subject interface {
	Dump(context.Context) (*routing.Kernel, error)
	Apply(context.Context, []routing.Op) []error
	Watch(ctx context.Context, notify func(dump bool)) error
	SetRange([]routing.Protocol, []routing.TableID)
	Probe(ctx context.Context, link string, hop netip.Addr) (bool, error)

	AddLink(name string) error                 // up, with carrier
	DeleteLink(name string) error              //
	SetUp(link string, up bool) error          // administratively
	SetCarrier(link string, on bool) error     //
	AddAddr(link string, p netip.Prefix) error // usable at once
	DelAddr(link string, p netip.Prefix) error
	Foreign(op routing.Op) error                 // another process does it
	Neighbour(link string, p netip.Prefix) error // somebody with this address answers on the link
}

// Run runs the suite. Each case opens a subject of its own.
func Run(t *testing.T, open func(testing.TB) Subject) {
	for name, run := range map[string]func(*harness){
		"start":                 start,
		"connected":             connected,
		"add is exclusive":      addExclusive,
		"replace":               replaceInPlace,
		"delete":                deleteOurs,
		"a failure stays alone": failureAlone,
		"refusals":              refusals,
		"link down":             linkDown,
		"flap":                  flap,
		"carrier":               carrier,
		"link deleted":          linkDeleted,
		"address deleted":       addressDeleted,
		"last address deleted":  lastAddressDeleted,
		"loopback down":         loopbackDown,
		"rules":                 rules,
		"overlapping rules":     overlappingRules,
		"watch":                 watch,
		"probe":                 probe,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &harness{T: t, s: open(t)}
			h.must(h.s.AddLink("pod0"))
			h.addr("pod0", "10.48.0.1/24")
			h.addr("pod0", "fd00:48::1/64")
			run(h)
		})
	}
}
