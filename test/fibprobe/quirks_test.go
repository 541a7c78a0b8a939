package fibprobe

import (
	"net/netip"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
	"netclass.dev/test/netns"
)

// TestIgnoredLinkDown shows what IPv6 does among the routes of one prefix when
// the one of the lowest metric lost its carrier and the sysctl says not to use
// it: the others compete by link before metric, and reject routes live on lo.
// IPv4 goes by metric alone.
func TestIgnoredLinkDown(t *testing.T) {
	t.Parallel()
	ns, far := netns.New(t), netns.New(t)
	router(t, ns)
	for i, link := range worldLinks {
		check(t, ns.Veth(link, far, link))
		check(t, ns.Up(link))
		n := string(rune('0' + i))
		check(t, ns.Addr(link, "172.16."+n+".1/24", "fd01:"+n+"::1/64"))
	}
	check(t, far.Up(worldLinks...))
	batch(t, ns, routing.IPv4, false, []string{
		"rule add priority 100 lookup 100",
		"route add 10.1.0.0/16 via 172.16.3.2 table 100 metric 10",
		"route add 10.1.0.0/16 via 172.16.1.2 table 100 metric 2000",
		"route add unreachable 10.1.0.0/16 table 100 metric 4000",
		"route add 10.1.0.0/16 via 172.16.2.2 table 100 metric 5000",
	})
	batch(t, ns, routing.IPv6, false, []string{
		"rule add priority 100 lookup 100",
		"route add fd00:1::/32 via fd01:3::2 table 100 metric 10",
		"route add fd00:1::/32 via fd01:1::2 table 100 metric 2000",
		"route add unreachable fd00:1::/32 table 100 metric 4000",
		"route add fd00:1::/32 via fd01:2::2 table 100 metric 5000",
	})
	// The kernel takes no route over a link whose routes it ignores.
	sysctl(t, ns, "ipv4/conf/a3/ignore_routes_with_linkdown=1", "ipv6/conf/a3/ignore_routes_with_linkdown=1")
	check(t, far.Down("a3"))
	k := settled(t, ns, "a3", false)
	p := open(t, ns)
	v4, v6 := netip.MustParseAddr("10.1.0.9"), netip.MustParseAddr("fd00:1::9")
	src4, src6 := netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("fd00:9::9")
	for _, c := range []struct {
		name string
		flow fib.Flow
		mode fib.Mode
		want string
	}{
		{"arrives by another link", fib.Flow{Dst: v6, Src: src6, IIF: "a0"}, fib.Stack, "a1 via fd01:1::2"},
		{"arrives by another link", fib.Flow{Dst: v6, Src: src6, IIF: "a0"}, fib.BPF, "a1 via fd01:1::2"},
		{"arrives by a worse route's link", fib.Flow{Dst: v6, Src: src6, IIF: "a2"}, fib.Stack, "a2 via fd01:2::2"},
		{"arrives by a worse route's link", fib.Flow{Dst: v6, Src: src6, IIF: "a2"}, fib.BPF, "a2 via fd01:2::2"},
		{"arrives by a worse route's link", fib.Flow{Dst: v4, Src: src4, IIF: "a2"}, fib.Stack, "a1 via 172.16.1.2"},
		{"local", fib.Flow{Dst: v6}, fib.Stack, "a1 via fd01:1::2"},
		{"local, asked as lo", fib.Flow{Dst: v6}, fib.BPF, "unreachable"},
		{"local, asked as lo", fib.Flow{Dst: v4}, fib.BPF, "a1 via 172.16.1.2"},
		{"bound", fib.Flow{Dst: v6, OIF: "a2"}, fib.Stack, "a2 via fd01:2::2"},
		{"output", fib.Flow{Dst: v6, OIF: "a2"}, fib.BPF, "a2 via fd01:2::2"},
	} {
		t.Run(c.mode.String()+"/"+routing.FamilyOf(c.flow.Dst).String()+"/"+c.name, func(t *testing.T) {
			got, err := ask(p, c.flow, c.mode)
			check(t, err)
			if got.String() != c.want {
				t.Errorf("got %s (%s), want %s", got, got.Code, c.want)
			}
			check(t, Agree(c.flow, c.mode, fib.New(k).Lookup(c.flow, c.mode), got))
			check(t, Agree(c.flow, c.mode, fib.New(k, fib.IgnoreLinkDown("a3")).Lookup(c.flow, c.mode), got))
		})
	}
}
