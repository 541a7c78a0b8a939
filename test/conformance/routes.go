package conformance

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

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
