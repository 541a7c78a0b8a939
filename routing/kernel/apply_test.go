package kernel_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
	"netclass.dev/routing/kernel"
)

// numbered gives the i-th of many routes.
func numbered(t testing.TB, i int) routing.Route {
	r := route(t, "10.0.0.0/32 via 10.48.0.2 dev pod0")
	r.Dst = netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
	return r
}

// One bad message in the middle fails alone, and says what the kernel said.
func TestApplyGoesOn(t *testing.T) {
	n := newNode(t)
	ops := []routing.Op{
		add(route(t, "10.1.0.0/16 via 10.48.0.2 dev pod0")),
		add(route(t, "10.2.0.0/16 via 10.77.0.2 dev pod0")),
		add(route(t, "10.3.0.0/16 dev absent0")),
		addRule(rule(routing.IPv4, 1000, from("10.244.0.0/16"))),
		add(route(t, "fd00:1::/64 dev pod0", metric(0))),
		add(route(t, "10.4.0.0/16 via 10.48.0.2 dev pod0")),
		add(route(t, "10.4.0.0/16 via 10.48.0.3 dev pod0")),
	}
	errs := n.k.Apply(t.Context(), ops)
	if len(errs) != len(ops) {
		t.Fatalf("errors: %v", errs)
	}
	for i, want := range []error{nil, unix.ENETUNREACH, unix.ENODEV, nil, nil, nil, unix.EEXIST} {
		if i == 4 {
			if errs[i] == nil {
				t.Error("an IPv6 route without a metric was written")
			}
			continue
		}
		wantErr(t, errs[i], want)
	}
	if got, want := errs[1].Error(), "network is unreachable: Nexthop has invalid gateway"; got != want {
		t.Errorf("error reads %q, want %q", got, want)
	}
	if got := ours(n.dump(t), routing.ProtocolNetclass); len(got) != 2 {
		t.Errorf("routes are now %v", got)
	}
}

// More failures than any buffer holds at once all come back to their ops.
func TestManyFailures(t *testing.T) {
	n := newNode(t)
	var ops []routing.Op
	for i := range 3000 {
		ops = append(ops, add(numbered(t, i)))
	}
	n.apply(t, ops...)
	ops[1500] = add(numbered(t, 5000))
	errs := n.k.Apply(t.Context(), ops)
	if len(errs) != len(ops) {
		t.Fatalf("%d errors", len(errs))
	}
	for i, err := range errs {
		if i == 1500 {
			wantErr(t, err, nil)
		} else if !errors.Is(err, unix.EEXIST) {
			t.Fatalf("op %d: %v", i, err)
		}
	}
	if got := ours(n.dump(t), routing.ProtocolNetclass); len(got) != 3001 {
		t.Errorf("%d routes", len(got))
	}
	for i := range ops {
		ops[i] = del(ops[i].Route)
	}
	n.apply(t, ops...)
	if got := ours(n.dump(t), routing.ProtocolNetclass); len(got) != 1 {
		t.Errorf("%d routes after deleting", len(got))
	}
}

// Where answers are lost, every op whose fate is unknown is an error, and the
// next Apply starts afresh, still known to Watch as ours.
func TestAnswersLost(t *testing.T) {
	n := newNode(t)
	n.k.SetRange([]routing.Protocol{routing.ProtocolNetclass}, nil)
	var ops []routing.Op
	for i := range 256 {
		ops = append(ops, add(numbered(t, i)))
	}
	n.apply(t, ops...)
	n.settled(t)
	events := watching(t, n.k)
	must(t, kernel.SetWriteBuffer(n.k, 2304))
	errs := n.k.Apply(t.Context(), ops)
	lost := 0
	for i := range ops {
		switch {
		case len(errs) != len(ops) || errs[i] == nil:
			t.Fatalf("errors: %v", errs)
		case errors.Is(errs[i], unix.ENOBUFS):
			lost++
		case !errors.Is(errs[i], unix.EEXIST):
			t.Errorf("op %d: %v", i, errs[i])
		}
	}
	if lost == 0 {
		t.Error("no answer was lost")
	}
	for _, err := range n.k.Apply(t.Context(), ops) {
		wantErr(t, err, unix.EEXIST)
	}
	n.apply(t, del(ops[0].Route))
	if heard(events, 200*time.Millisecond) {
		t.Error("our own changes were reported")
	}
}

// A link that is made again under its name has another index; nothing of the
// old one is remembered.
func TestLinkMadeAgain(t *testing.T) {
	n := newNode(t)
	r := route(t, "10.1.0.0/16 dev ext0")
	for i := range 3 {
		must(t, n.Veth("ext0", n.peer, fmt.Sprintf("port%d", i)))
		must(t, n.Up("ext0"))
		n.apply(t, add(r))
		must(t, n.Delete("ext0"))
		n.apply(t, del(r))
	}
}
