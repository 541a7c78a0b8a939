package engine

import (
	"net/netip"
	"strconv"
	"testing"

	"netclass.dev/routing"
)

// vips is so many announcements, each with a rule and a route of its own, and a
// kernel that has these.
func vips(n int) ([]routing.Origin, *routing.Kernel) {
	list, k := make([]routing.Origin, n), &routing.Kernel{}
	for i := range list {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)}), 32)
		list[i].Prefix = p
		list[i].Needs = routing.Route{Table: 47, Dst: p, Metric: routing.MetricPath, Link: "cilium_host", Protocol: routing.ProtocolNetclass}
		list[i].NeedsRule = routing.Rule{Family: routing.IPv4, Priority: routing.VIPPriority, To: p, IIF: "ingress0", Action: routing.ActionUnreachable}
		route := list[i].Needs
		route.LinkDown = true
		k.Routes, k.Rules = append(k.Routes, route), append(k.Rules, list[i].NeedsRule)
	}
	return list, k
}

// TestBacking: an announcement stands on its route and on its rule, as they are
// and as ops leave them.
func TestBacking(t *testing.T) {
	t.Parallel()
	list, k := vips(8)
	k.Routes = k.Routes[1:]
	k.Rules = append(k.Rules[:1:1], k.Rules[2:]...)
	list[2].Needs, list[2].NeedsRule = routing.Route{}, routing.Rule{}
	other := list[4].Needs
	other.Link = "lxc0"
	b := backingOf(list, k)
	b.without([]routing.Op{
		{Verb: routing.Delete, Route: list[3].Needs},
		{Verb: routing.Replace, Route: other},
		{Verb: routing.Delete, Rule: list[5].NeedsRule},
		{Verb: routing.Add, Rule: list[6].NeedsRule},
		{Verb: routing.Add, Route: list[6].Needs},
	})
	for i, want := range []bool{false, false, true, false, false, false, true, true} {
		if b.has(&list[i]) != want {
			t.Errorf("announcement %d: %v", i, !want)
		}
	}
}

// BenchmarkBacking: sixteen times the announcements, routes, rules and ops are not
// 256 times the work.
func BenchmarkBacking(b *testing.B) {
	for _, n := range []int{500, 8000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			list, k := vips(n)
			ops := make([]routing.Op, n)
			for i := range ops {
				ops[i] = routing.Op{Verb: routing.Delete, Rule: list[n-1-i].NeedsRule}
			}
			for b.Loop() {
				backed := backingOf(list, k)
				for i := range list {
					if !backed.has(&list[i]) {
						b.Fatalf("announcement %d of %d is not backed", i, n)
					}
				}
				backed.without(ops)
				for i := range list {
					if backed.has(&list[i]) {
						b.Fatalf("announcement %d of %d is backed still", i, n)
					}
				}
			}
		})
	}
}
