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

	"netclass.dev/routing"
)

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
