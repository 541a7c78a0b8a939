package fib_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

func prefix(s string) netip.Prefix {
	if s == "" {
		return netip.Prefix{}
	}
	return netip.MustParsePrefix(s)
}

func addr(s string) netip.Addr {
	if s == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(s)
}

func rule(priority uint32, from, to string, table routing.TableID) routing.Rule {
	r := routing.Rule{Family: routing.IPv4, Priority: priority, From: prefix(from), To: prefix(to), Table: table, SuppressPrefixLen: routing.NoSuppress}
	if strings.Contains(from+to, ":") {
		r.Family = routing.IPv6
	}
	return r
}

func route(table routing.TableID, dst, via, link string, metric uint32) routing.Route {
	return routing.Route{Table: table, Dst: prefix(dst), Via: addr(via), Link: link, Metric: metric}
}

func reject(table routing.TableID, dst string, t routing.RouteType, metric uint32) routing.Route {
	return routing.Route{Table: table, Dst: prefix(dst), Type: t, Metric: metric}
}

// node is a small node: pods are looked up in table 47, which has a class path
// and a fallback for one peer, a fence and a default; main has a guard.
func node() *routing.Kernel {
	return &routing.Kernel{
		Links: []routing.Link{
			{Name: "lo", Up: true, Carrier: true}, {Name: "pod0", Up: true, Carrier: true},
			{Name: "node0", Up: true, Carrier: true}, {Name: "mgmt0", Up: true, Carrier: true},
		},
		Rules: []routing.Rule{
			rule(0, "", "", routing.LocalID),
			rule(1001, "10.244.0.0/16", "", 47),
			rule(32766, "", "", routing.MainID),
		},
		Routes: []routing.Route{
			{Table: routing.LocalID, Dst: prefix("10.46.0.1/32"), Type: routing.Local, Link: "node0"},
			route(47, "0.0.0.0/0", "10.47.0.254", "ingress0", 10),
			route(47, "10.244.2.0/24", "10.46.0.2", "node0", 2000),
			route(47, "10.244.2.0/24", "10.48.0.2", "pod0", 10),
			reject(47, "10.244.0.0/16", routing.Unreachable, 4000),
			route(routing.MainID, "0.0.0.0/0", "10.40.0.254", "mgmt0", 0),
			reject(routing.MainID, "10.244.0.0/16", routing.Unreachable, routing.MetricGuard),
		},
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*routing.Kernel)
		flow   fib.Flow
		mode   fib.Mode
		want   string
	}{
		{
			name: "the class path beats fallback, fence and default",
			flow: fib.Flow{Dst: addr("10.244.2.5"), Src: addr("10.244.1.7"), IIF: "cilium_host"},
			want: `
0: from all lookup local | the table has no route there
1001: from 10.244.0.0/16 lookup 47 | decides | 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
  beats 10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 2000
  beats unreachable 10.244.0.0/16 table 47 metric 4000
  beats default via 10.47.0.254 dev ingress0 table 47 metric 10
forward`,
		},
		{
			name:   "a link that is down leaves the fallback",
			change: func(k *routing.Kernel) { k.Link("pod0").Up = false },
			flow:   fib.Flow{Dst: addr("10.244.2.5"), Src: addr("10.244.1.7"), IIF: "cilium_host"},
			want: `
0: from all lookup local | the table has no route there
1001: from 10.244.0.0/16 lookup 47 | decides; passed over 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10: pod0 is down | 10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 2000
  beats 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
  beats unreachable 10.244.0.0/16 table 47 metric 4000
  beats default via 10.47.0.254 dev ingress0 table 47 metric 10
forward`,
		},
		{
			name: "without a source no from matches",
			flow: fib.Flow{Dst: addr("192.0.2.1")},
			want: `
0: from all lookup local | the table has no route there
1001: from 10.244.0.0/16 lookup 47 | no: no source address to be in 10.244.0.0/16
32766: from all lookup main | decides | default via 10.40.0.254 dev mgmt0 metric 0
forward`,
		},
		{
			name:   "a rule with selectors we cannot model is passed by",
			change: func(k *routing.Kernel) { k.Rules[1].Opaque, k.Rules[1].Extra = true, "sport 53" },
			flow:   fib.Flow{Dst: addr("10.46.0.1"), Src: addr("10.244.1.7"), IIF: "cilium_host"},
			want: `
0: from all lookup local | decides | local 10.46.0.1/32 dev node0 table local metric 0
local`,
		},
		{
			name: "opaque",
			change: func(k *routing.Kernel) {
				k.Rules[1].Opaque, k.Rules[1].Extra, k.Rules[1].Invert = true, "sport 53", true
			},
			flow: fib.Flow{Dst: addr("10.244.9.1"), Src: addr("10.46.0.1")},
			want: `
0: from all lookup local | the table has no route there
1001: not from 10.244.0.0/16 sport 53 lookup 47 | no: taken not to match: its selectors are not modelled: sport 53
32766: from all lookup main | decides | unreachable 10.244.0.0/16 metric 4294967295
  beats default via 10.40.0.254 dev mgmt0 metric 0
unreachable`,
		},
		{
			name: "a bound socket goes past the guard",
			flow: fib.Flow{Dst: addr("10.244.9.1"), OIF: "pod0"},
			want: `
0: from all lookup local | the table has no route there
1001: from 10.244.0.0/16 lookup 47 | no: no source address to be in 10.244.0.0/16
32766: from all lookup main | decides; the socket is bound to pod0, so the destination is taken to be on it | unreachable 10.244.0.0/16 metric 4294967295
  beats default via 10.40.0.254 dev mgmt0 metric 0
forward`,
		},
		{
			name: "an empty picture has no route",
			change: func(k *routing.Kernel) {
				*k = routing.Kernel{}
			},
			flow: fib.Flow{Dst: addr("2001:db8::1")},
			want: "\nno route",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := node()
			if c.change != nil {
				c.change(k)
			}
			f := fib.New(k)
			if got := tell(f.Trace(c.flow, c.mode)); got != c.want {
				t.Errorf("got%s\nwant%s", got, c.want)
			}
			traced, plain := f.Trace(c.flow, c.mode), f.Lookup(c.flow, c.mode)
			if traced.Action != plain.Action || traced.Route != plain.Route || traced.Rule != plain.Rule {
				t.Errorf("Trace says %+v, Lookup %+v", traced, plain)
			}
		})
	}
}

func tell(r fib.Result) string {
	var b strings.Builder
	for _, s := range r.Steps {
		fmt.Fprintf(&b, "\n%s | ", s.Rule)
		if !s.Match {
			b.WriteString("no: ")
		}
		b.WriteString(s.Why)
		if s.Route != nil {
			fmt.Fprintf(&b, " | %s", s.Route)
		}
		for _, beaten := range s.Beat {
			fmt.Fprintf(&b, "\n  beats %s", beaten)
		}
	}
	return b.String() + "\n" + r.Action.String()
}

// TestThrowAndSuppress shows where the two lookups differ. The real kernel is
// asked the same in the tests of package fibprobe.
func TestThrowAndSuppress(t *testing.T) {
	t.Parallel()
	suppress := rule(20, "", "fd00::/8", 20)
	suppress.SuppressPrefixLen = 0
	suppress4 := rule(20, "", "10.0.0.0/8", 20)
	suppress4.SuppressPrefixLen = 0
	f := fib.New(&routing.Kernel{
		Rules: []routing.Rule{
			rule(10, "", "fd00:1::/32", 10), suppress, rule(30, "", "::/0", 30),
			rule(10, "", "10.1.0.0/16", 10), suppress4, rule(30, "", "0.0.0.0/0", 30),
		},
		Routes: []routing.Route{
			reject(10, "fd00:1::/32", routing.Throw, 10), route(20, "::/0", "", "default", 10), route(30, "::/0", "", "last", 10),
			reject(10, "10.1.0.0/16", routing.Throw, 10), route(20, "0.0.0.0/0", "", "default", 10), route(30, "0.0.0.0/0", "", "last", 10),
		},
	})
	for _, c := range []struct {
		dst  string
		mode fib.Mode
		want string
	}{
		{"fd00:1::1", fib.Stack, "last"}, {"fd00:1::1", fib.BPF, "no route"},
		{"fd00:2::1", fib.Stack, "last"}, {"fd00:2::1", fib.BPF, "default"},
		{"10.1.0.1", fib.Stack, "last"}, {"10.1.0.1", fib.BPF, "last"},
		{"10.2.0.1", fib.Stack, "last"}, {"10.2.0.1", fib.BPF, "last"},
	} {
		r := f.Lookup(fib.Flow{Dst: addr(c.dst), IIF: "in"}, c.mode)
		got := r.Route.Link
		if r.Action != fib.Forward {
			got = r.Action.String()
		}
		if got != c.want {
			t.Errorf("%s by %s: got %s, want %s", c.dst, c.mode, got, c.want)
		}
	}
}

// peers is a kernel with the routes of n peers of both families.
func peers(n int) *routing.Kernel {
	k := &routing.Kernel{}
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		f := routing.FamilyOf(prefix(all).Addr())
		for _, r := range []routing.Rule{
			{Priority: 0, Table: routing.LocalID}, {Priority: 1000, From: prefix(all), Table: 47},
			{Priority: 32766, Table: routing.MainID}, {Priority: 32767, Table: routing.DefaultID},
		} {
			r.Family, r.SuppressPrefixLen = f, routing.NoSuppress
			k.Rules = append(k.Rules, r)
		}
		k.Routes = append(k.Routes, route(47, all, "", "ingress0", 10))
	}
	for i := range n {
		p4 := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
		p6 := netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 6: byte(i >> 8), 7: byte(i)}), 64)
		for _, p := range []netip.Prefix{p4, p6} {
			for _, m := range []uint32{routing.MetricPath, routing.MetricFallback} {
				k.Routes = append(k.Routes, routing.Route{Table: 47, Dst: p, Link: "pod0", Metric: m})
			}
			k.Routes = append(k.Routes, routing.Route{Table: routing.MainID, Dst: p, Link: "node0"})
		}
	}
	return k
}

func TestLookupDoesNotAllocate(t *testing.T) {
	f := fib.New(peers(10))
	flow := fib.Flow{Dst: addr("10.0.1.1"), Src: addr("10.0.2.1"), IIF: "cilium_host"}
	if n := testing.AllocsPerRun(100, func() { f.Lookup(flow, fib.Stack) }); n != 0 {
		t.Errorf("a lookup allocates %v times", n)
	}
}

func BenchmarkNew(b *testing.B) {
	for _, n := range []int{500, 5000, 50000} {
		k := peers(n)
		b.Run(fmt.Sprintf("routes=%d", len(k.Routes)), func(b *testing.B) {
			for b.Loop() {
				fib.New(k)
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	f := fib.New(peers(5000))
	for _, flow := range []fib.Flow{
		{Dst: addr("10.9.1.1"), Src: addr("10.0.2.1"), IIF: "cilium_host"},
		{Dst: addr("fd00:0:0:901::1"), Src: addr("fd00::1"), IIF: "cilium_host"},
	} {
		b.Run(routing.FamilyOf(flow.Dst).String(), func(b *testing.B) {
			for b.Loop() {
				f.Lookup(flow, fib.Stack)
			}
		})
	}
}
