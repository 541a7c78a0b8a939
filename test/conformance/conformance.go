// Package conformance is one suite that the real kernel and the fake one both
// pass: every way of Linux that the engine relies on has a case here, so that a
// test with the fake says something about the real one.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// harness is a subject with the words of the cases.
type harness struct {
	*testing.T
	s Subject
}

func (h *harness) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *harness) addr(link, p string) {
	h.Helper()
	h.must(h.s.AddAddr(link, netip.MustParsePrefix(p)))
}

func (h *harness) dump() *routing.Kernel {
	h.Helper()
	k, err := h.s.Dump(context.Background())
	h.must(err)
	return k
}

// do carries out ops that must all succeed.
func (h *harness) do(ops ...routing.Op) {
	h.Helper()
	if errs := h.s.Apply(h.Context(), ops); errs != nil {
		h.Fatal(errors.Join(errs...))
	}
}

// refused carries out an op that must fail with want.
func (h *harness) refused(op routing.Op, want error) {
	h.Helper()
	errs := h.s.Apply(h.Context(), []routing.Op{op})
	if len(errs) != 1 || !errors.Is(errs[0], want) {
		h.Errorf("%s: got %v, want %v", op, errs, want)
	}
}

// table checks the routes of table 47 against `ip route` lines without their
// table, in any order.
func (h *harness) table(want ...string) {
	h.Helper()
	h.routes(47, want...)
}

func (h *harness) routes(table routing.TableID, want ...string) {
	h.Helper()
	var got []string
	h.eventually(func() error {
		got = nil
		for _, r := range h.dump().Routes {
			// The kernel's own routes of multicast and link-local networks.
			if r.Table == table && r.Type < routing.Other && !r.Dst.Addr().IsLinkLocalUnicast() {
				r.Table = routing.MainID
				got = append(got, r.String())
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			return fmt.Errorf("table %d has\n\t%s\nwant\n\t%s", table, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
		return nil
	})
}

// eventually gives the kernel the moment that it takes to carry some changes
// through.
func (h *harness) eventually(check func() error) {
	h.Helper()
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			h.Error(err)
			return
		}
	}
}

// route reads "[TYPE] DST [via VIA] [dev LINK] [src SRC] [metric N] [table N]
// [proto N] [onlink]"; table 47, metric 10 and our protocol are understood.
func route(s string) routing.Route {
	r := routing.Route{Table: 47, Metric: routing.MetricPath, Protocol: routing.ProtocolNetclass}
	words := strings.Fields(s)
	for kind := routing.Local; kind <= routing.Throw; kind++ {
		if words[0] == kind.String() {
			r.Type, words = kind, words[1:]
		}
	}
	r.Dst = netip.MustParsePrefix(words[0])
	for words = words[1:]; len(words) > 0; {
		if words[0] == "onlink" {
			r.OnLink, words = true, words[1:]
			continue
		}
		var n uint32
		switch v := words[1]; words[0] {
		case "via":
			r.Via = netip.MustParseAddr(v)
		case "dev":
			r.Link = v
		case "src":
			r.Src = netip.MustParseAddr(v)
		default:
			if _, err := fmt.Sscan(v, &n); err != nil {
				panic(err)
			}
			switch words[0] {
			case "metric":
				r.Metric = n
			case "table":
				r.Table = routing.TableID(n)
			case "proto":
				r.Protocol = routing.Protocol(n)
			}
		}
		words = words[2:]
	}
	return r
}

func add(s string) routing.Op     { return routing.Op{Verb: routing.Add, Route: route(s)} }
func replace(s string) routing.Op { return routing.Op{Verb: routing.Replace, Route: route(s)} }
func del(s string) routing.Op     { return routing.Op{Verb: routing.Delete, Route: route(s)} }

// What a namespace has from the start.
func start(h *harness) {
	k := h.dump()
	lo, pod := k.Link("lo"), k.Link("pod0")
	if !lo.Usable() || lo.Index != 1 || !pod.Usable() || pod.Index <= 1 || pod.MTU == 0 {
		h.Errorf("links: %+v", k.Links)
	}
	if !slices.ContainsFunc(pod.Addrs, func(a routing.LinkAddr) bool {
		return a.Prefix.String() == "10.48.0.1/24" && a.Usable() && !a.Secondary
	}) {
		h.Errorf("addresses: %+v", pod.Addrs)
	}
	h.ruleTexts(routing.IPv4, 0, "0: from all lookup local", "32766: from all lookup main", "32767: from all lookup default")
	h.ruleTexts(routing.IPv6, 0, "0: from all lookup local", "32766: from all lookup main")
	h.table()
}

// An address on a link that is up makes a connected route in main and a local
// one.
func connected(h *harness) {
	h.routes(routing.MainID,
		"10.48.0.0/24 dev pod0 src 10.48.0.1 metric 0",
		"fd00:48::/64 dev pod0 metric 256")
	for _, a := range []string{"10.48.0.1", "fd00:48::1"} {
		h.eventually(func() error {
			if !slices.ContainsFunc(h.dump().Routes, func(r routing.Route) bool {
				return r.Table == routing.LocalID && r.Type == routing.Local && r.Dst.IsSingleIP() && r.Dst.Addr().String() == a && r.Link == "pod0"
			}) {
				return fmt.Errorf("%s is not local", a)
			}
			return nil
		})
	}
}

// An add never takes over, doubles or joins a route of the same destination and
// metric, whoever owns it.
func addExclusive(h *harness) {
	for _, f := range []struct{ dst, via, other string }{
		{"10.2.0.0/16", "10.48.0.2", "10.48.0.3"},
		{"fd00:2::/64", "fd00:48::2", "fd00:48::3"},
	} {
		theirs := f.dst + " via " + f.via + " dev pod0 proto 12"
		h.must(h.s.Foreign(add(theirs)))
		h.refused(add(f.dst+" via "+f.via+" dev pod0"), unix.EEXIST)
		h.refused(add(f.dst+" via "+f.other+" dev pod0"), unix.EEXIST)
		h.refused(add(f.dst+" dev pod0"), unix.EEXIST)
		h.refused(add("unreachable "+f.dst), unix.EEXIST)
		h.do(add(f.dst + " via " + f.other + " dev pod0 metric 2000")) // another metric is another route
		h.must(h.s.Foreign(del(theirs)))
	}
	h.table("10.2.0.0/16 via 10.48.0.3 dev pod0 metric 2000", "fd00:2::/64 via fd00:48::3 dev pod0 metric 2000")
}

// A replace changes next hop, link and type in one step, takes no notice of the
// owner, and creates what is not there.
func replaceInPlace(h *harness) {
	for _, f := range []struct{ dst, via, other string }{
		{"10.2.0.0/16", "10.48.0.2", "10.48.0.3"},
		{"fd00:2::/64", "fd00:48::2", "fd00:48::3"},
	} {
		forms := []string{f.dst + " via " + f.via + " dev pod0", f.dst + " via " + f.other + " dev pod0",
			f.dst + " dev pod0", "unreachable " + f.dst, "throw " + f.dst}
		for _, from := range forms {
			for _, to := range forms {
				h.must(h.s.Foreign(add(from + " proto 12")))
				h.do(replace(to))
				h.table(to + " metric 10")
				h.do(del(to))
				h.table()
			}
		}
		h.do(replace(forms[0]))
		h.do(replace(forms[1] + " metric 11"))
		h.table(forms[0]+" metric 10", forms[1]+" metric 11")
		h.do(del(forms[0]), del(forms[1]+" metric 11"))
	}
}

// A delete takes only what is ours and as named; what is gone is no failure.
func deleteOurs(h *harness) {
	for _, s := range []string{
		"10.2.0.0/16 via 10.48.0.2 dev pod0", "unreachable 10.3.0.0/16", "0.0.0.0/0 via 10.48.0.2 dev pod0",
		"fd00:2::/64 via fd00:48::2 dev pod0", "unreachable fd00:3::/64", "::/0 via fd00:48::2 dev pod0",
	} {
		h.do(del(s))
		h.must(h.s.Foreign(add(s + " proto 12")))
		h.do(del(s))
		h.must(h.s.Foreign(del(s + " proto 12")))
		h.table()
		h.do(add(s), add(s+" metric 2000"))
		h.do(del(s))
		if got := len(h.dump().Routes); got == 0 {
			h.Error("an empty dump")
		}
		h.do(del(s + " metric 2000"))
		h.table()
	}
}

// The ops around a failed one are carried out.
func failureAlone(h *harness) {
	ops := []routing.Op{
		add("10.1.0.0/16 dev pod0"), add("10.2.0.0/16 via 10.77.0.1 dev pod0"), add("10.3.0.0/16 dev absent0"),
		add("10.1.0.0/16 dev pod0"), add("unreachable 10.4.0.0/16"),
	}
	errs := h.s.Apply(h.Context(), ops)
	if len(errs) != len(ops) {
		h.Fatalf("errors: %v", errs)
	}
	for i, want := range []error{nil, unix.ENETUNREACH, unix.ENODEV, unix.EEXIST, nil} {
		if !errors.Is(errs[i], want) {
			h.Errorf("%s: got %v, want %v", ops[i], errs[i], want)
		}
	}
	h.table("10.1.0.0/16 dev pod0 metric 10", "unreachable 10.4.0.0/16 metric 10")
}

// What the kernel refuses.
func refusals(h *harness) {
	h.refused(add("10.2.0.0/16 via 10.77.0.1 dev pod0"), unix.ENETUNREACH)
	h.refused(add("fd00:2::/64 via fd00:77::1 dev pod0"), unix.EHOSTUNREACH)
	h.refused(add("fd00:2::/64 via fd00:48::1 dev pod0"), unix.EINVAL) // our own address; IPv4 takes it
	h.refused(add("10.2.0.0/16 dev pod0 src 10.48.0.9"), unix.EINVAL)
	h.refused(add("fd00:2::/64 dev pod0 src fd00:48::9"), unix.EINVAL)
	h.refused(add("10.2.0.0/16 dev absent0"), unix.ENODEV)
	h.do(add("10.2.0.0/16 via 10.77.0.1 dev pod0 onlink"), add("fd00:2::/64 via fd00:77::1 dev pod0 onlink"))
	h.do(add("10.3.0.0/24 dev pod0"), add("fd00:3::/64 dev pod0"))
	h.do(add("10.4.0.0/16 via 10.3.0.1 dev pod0"), add("fd00:4::/64 via fd00:3::1 dev pod0"))
	h.must(h.s.SetUp("pod0", false))
	h.refused(add("10.2.0.0/16 dev pod0"), unix.ENETDOWN)
	h.refused(add("fd00:2::/64 dev pod0"), unix.ENETDOWN)
}

// fill puts routes of every kind into table 47.
func (h *harness) fill() {
	h.Helper()
	h.do(add("10.48.0.0/24 dev pod0"), add("10.2.0.0/16 via 10.48.0.2 dev pod0"), add("unreachable 10.0.0.0/8 metric 4000"),
		add("fd00:48::/64 dev pod0"), add("fd00:2::/64 via fd00:48::2 dev pod0"), add("unreachable fd00::/8 metric 4000"))
	h.full("")
}

func (h *harness) full(flag string) {
	h.Helper()
	h.table("10.48.0.0/24 dev pod0 metric 10"+flag, "10.2.0.0/16 via 10.48.0.2 dev pod0 metric 10"+flag, "unreachable 10.0.0.0/8 metric 4000",
		"fd00:48::/64 dev pod0 metric 10"+flag, "fd00:2::/64 via fd00:48::2 dev pod0 metric 10"+flag, "unreachable fd00::/8 metric 4000")
}

func (h *harness) fenceOnly() {
	h.Helper()
	h.table("unreachable 10.0.0.0/8 metric 4000", "unreachable fd00::/8 metric 4000")
}

// addrs lists the addresses of pod0 but the link-local ones.
func (h *harness) addrs() (out []string) {
	h.Helper()
	for _, a := range h.dump().Link("pod0").Addrs {
		if !a.Prefix.Addr().IsLinkLocalUnicast() {
			out = append(out, a.Prefix.String())
		}
	}
	return out
}

// A link that is set down takes its routes of every table with it, and its IPv6
// addresses. Up again, only the connected routes of what is left come back.
func linkDown(h *harness) {
	h.fill()
	h.must(h.s.SetUp("pod0", false))
	h.fenceOnly()
	h.routes(routing.MainID)
	if l := h.dump().Link("pod0"); l.Up || l.Usable() {
		h.Errorf("the link that is down is %+v", l)
	}
	if got := h.addrs(); !slices.Equal(got, []string{"10.48.0.1/24"}) {
		h.Errorf("addresses while down: %v", got)
	}
	h.must(h.s.SetUp("pod0", true))
	h.fenceOnly()
	h.routes(routing.MainID, "10.48.0.0/24 dev pod0 src 10.48.0.1 metric 0")
}

// A flap leaves the link and its IPv4 address as they were, and the routes gone.
func flap(h *harness) {
	h.fill()
	before := h.dump().Link("pod0")
	h.must(h.s.SetUp("pod0", false))
	h.must(h.s.SetUp("pod0", true))
	h.eventually(func() error {
		if after := h.dump().Link("pod0"); after.Index != before.Index || after.Up != before.Up || after.Carrier != before.Carrier {
			return fmt.Errorf("after a flap the link is %+v, was %+v", after, before)
		}
		return nil
	})
	h.fenceOnly()
}

// Without carrier everything stays, marked.
func carrier(h *harness) {
	h.fill()
	h.must(h.s.SetCarrier("pod0", false))
	h.full(" linkdown")
	if l := h.dump().Link("pod0"); !l.Up || l.Carrier {
		h.Errorf("without carrier the link is %+v", l)
	}
	h.do(del("10.2.0.0/16 via 10.48.0.2 dev pod0"))
	h.do(add("10.2.0.0/16 via 10.48.0.2 dev pod0")) // still accepted
	h.must(h.s.SetCarrier("pod0", true))
	h.full("")
}

func linkDeleted(h *harness) {
	h.fill()
	h.must(h.s.DeleteLink("pod0"))
	h.fenceOnly()
	if l := h.dump().Link("pod0"); l != nil {
		h.Errorf("deleted link: %+v", l)
	}
	h.do(del("10.2.0.0/16 via 10.48.0.2 dev pod0"))
	h.must(h.s.AddLink("pod0"))
	h.addr("pod0", "10.48.0.1/24")
	h.do(add("10.2.0.0/16 via 10.48.0.2 dev pod0"))
}

// Deleting an address: main's IPv4 routes with that source go; another table
// keeps its IPv4 route with the dead source, and its IPv6 one without any.
func addressDeleted(h *harness) {
	h.addr("pod0", "10.49.0.1/24")
	h.addr("pod0", "fd00:49::1/64")
	h.do(
		add("10.2.0.0/16 dev pod0 src 10.49.0.1"), add("fd00:2::/64 dev pod0 src fd00:49::1"),
		add("10.3.0.0/16 dev pod0 src 10.49.0.1 table 254"), add("fd00:3::/64 dev pod0 src fd00:49::1 table 254"),
		add("10.4.0.0/16 via 10.49.0.2 dev pod0"), add("fd00:4::/64 via fd00:49::2 dev pod0"),
	)
	h.must(h.s.DelAddr("pod0", netip.MustParsePrefix("10.49.0.1/24")))
	h.must(h.s.DelAddr("pod0", netip.MustParsePrefix("fd00:49::1/64")))
	h.table("10.2.0.0/16 dev pod0 src 10.49.0.1 metric 10", "fd00:2::/64 dev pod0 metric 10",
		"10.4.0.0/16 via 10.49.0.2 dev pod0 metric 10", "fd00:4::/64 via fd00:49::2 dev pod0 metric 10")
	h.routes(routing.MainID, "10.48.0.0/24 dev pod0 src 10.48.0.1 metric 0", "fd00:48::/64 dev pod0 metric 256",
		"fd00:3::/64 dev pod0 metric 10")
}

// With its last IPv4 address a link loses its IPv4 routes of every table.
func lastAddressDeleted(h *harness) {
	h.fill()
	h.must(h.s.DelAddr("pod0", netip.MustParsePrefix("10.48.0.1/24")))
	h.must(h.s.DelAddr("pod0", netip.MustParsePrefix("fd00:48::1/64")))
	h.table("unreachable 10.0.0.0/8 metric 4000",
		"fd00:48::/64 dev pod0 metric 10", "fd00:2::/64 via fd00:48::2 dev pod0 metric 10", "unreachable fd00::/8 metric 4000")
}

// IPv6 keeps reject routes on lo, IPv4 on no link.
func loopbackDown(h *harness) {
	h.fill()
	h.must(h.s.SetUp("lo", false))
	h.table("10.48.0.0/24 dev pod0 metric 10", "10.2.0.0/16 via 10.48.0.2 dev pod0 metric 10", "unreachable 10.0.0.0/8 metric 4000",
		"fd00:48::/64 dev pod0 metric 10", "fd00:2::/64 via fd00:48::2 dev pod0 metric 10")
	h.must(h.s.SetUp("lo", true))
	h.do(add("unreachable fd00::/8 metric 4000"))
	h.full("")
}
