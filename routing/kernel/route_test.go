package kernel_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// Every kind of route of ours, as it is written and as `ip` shows it.
func TestRoutes(t *testing.T) {
	n := newNode(t)
	routes := []routing.Route{
		route(t, "0.0.0.0/0 via 10.48.0.9 dev pod0"),
		route(t, "10.1.0.0/16 dev pod0"),
		route(t, "10.2.0.0/16 via 10.48.0.2 dev pod0 src 10.48.0.1", metric(0)),
		route(t, "10.2.0.0/16 via 10.48.0.3 dev pod0", metric(routing.MetricFallback)),
		route(t, "10.3.0.0/16 via 10.99.0.1 dev pod0", onlink, mtu(1480)),
		route(t, "10.4.0.1/32 via fd00:48::2 dev pod0"),
		route(t, "unreachable 10.0.0.0/8", metric(routing.MetricGuard)),
		route(t, "blackhole 10.5.0.0/16"),
		route(t, "prohibit 10.6.0.0/16"),
		route(t, "throw 10.7.0.0/16"),
		route(t, "10.8.0.0/16 dev pod0", table(100000)),
		route(t, "unreachable 10.9.0.0/16", table(routing.MainID), metric(routing.MetricGuard)),

		route(t, "::/0 via fd00:48::9 dev pod0"),
		route(t, "fd00:1::/64 dev pod0"),
		route(t, "fd00:2::/64 via fd00:48::2 dev pod0 src fd00:48::1", metric(1)),
		route(t, "fd00:2::/64 via fd00:48::3 dev pod0", metric(routing.MetricFallback)),
		route(t, "fd00:3::/64 via fd00:99::1 dev pod0", onlink, mtu(1480)),
		route(t, "unreachable fd00::/16", metric(routing.MetricGuard)),
		route(t, "blackhole fd00:5::/64"),
		route(t, "prohibit fd00:6::/64"),
		route(t, "throw fd00:7::/64"),
		route(t, "fd00:8::/64 dev pod0", table(100000)),
		route(t, "unreachable fd00:9::/64", table(routing.MainID), metric(routing.MetricGuard)),
	}
	var adds, dels []routing.Op
	for _, r := range routes {
		adds, dels = append(adds, add(r)), append(dels, del(r))
	}
	n.apply(t, adds...)
	// Types by number: 6 blackhole, 7 unreachable, 8 prohibit, 9 throw.
	wantLines(t, n.show(t, "-N -4 route show table 47"), `
		default via 10.48.0.9 dev pod0 proto 148 metric 10
		7 10.0.0.0/8 proto 148 metric 4294967295
		10.1.0.0/16 dev pod0 proto 148 scope 253 metric 10
		10.2.0.0/16 via 10.48.0.2 dev pod0 proto 148 src 10.48.0.1
		10.2.0.0/16 via 10.48.0.3 dev pod0 proto 148 metric 2000
		10.3.0.0/16 via 10.99.0.1 dev pod0 proto 148 metric 10 onlink mtu 1480
		10.4.0.1 via inet6 fd00:48::2 dev pod0 proto 148 metric 10
		6 10.5.0.0/16 proto 148 metric 10
		8 10.6.0.0/16 proto 148 metric 10
		9 10.7.0.0/16 proto 148 metric 10`)
	wantLines(t, n.show(t, "-N -6 route show table 47"), `
		fd00:1::/64 dev pod0 proto 148 metric 10 pref medium
		fd00:2::/64 via fd00:48::2 dev pod0 proto 148 src fd00:48::1 metric 1 pref medium
		fd00:2::/64 via fd00:48::3 dev pod0 proto 148 metric 2000 pref medium
		fd00:3::/64 via fd00:99::1 dev pod0 proto 148 metric 10 onlink mtu 1480 pref medium
		6 fd00:5::/64 dev lo proto 148 metric 10 pref medium
		8 fd00:6::/64 dev lo proto 148 metric 10 pref medium
		9 fd00:7::/64 dev lo proto 148 metric 10 pref medium
		7 fd00::/16 dev lo proto 148 metric 4294967295 pref medium
		default via fd00:48::9 dev pod0 proto 148 metric 10 pref medium`)
	wantLines(t, n.show(t, "-N route show table 100000"), "10.8.0.0/16 dev pod0 proto 148 scope 253 metric 10")
	wantLines(t, n.show(t, "-N route show table main proto 148"), "7 10.9.0.0/16 metric 4294967295")

	byText := func(a, b routing.Route) int { return strings.Compare(a.String(), b.String()) }
	got := ours(n.dump(t), routing.ProtocolNetclass)
	slices.SortFunc(got, byText)
	slices.SortFunc(routes, byText)
	if d := cmp.Diff(routes, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" {
		t.Errorf("what was written is not what the dump shows (- written, + dumped):\n%s", d)
	}

	n.apply(t, dels...)
	if left := ours(n.dump(t), routing.ProtocolNetclass); left != nil {
		t.Errorf("left after deleting all: %v", left)
	}
	n.apply(t, dels...) // deleting what is gone is a success
}

// An add never takes over or joins what is there, whoever put it there.
func TestAddIsExclusive(t *testing.T) {
	n := newNode(t)
	n.MustIP(t, "route add 10.2.0.0/16 via 10.48.0.3 dev pod0 table 47 metric 10 proto bird")
	n.MustIP(t, "-6 route add fd00:2::/64 via fd00:48::3 dev pod0 table 47 metric 10 proto bird")
	n.MustIP(t, "-6 route add unreachable fd00:3::/64 table 47 metric 10 proto bird")
	for _, r := range []routing.Route{
		route(t, "10.2.0.0/16 via 10.48.0.3 dev pod0"),
		route(t, "10.2.0.0/16 via 10.48.0.2 dev pod0"),
		route(t, "unreachable 10.2.0.0/16"),
		route(t, "fd00:2::/64 via fd00:48::3 dev pod0"),
		route(t, "fd00:2::/64 via fd00:48::2 dev pod0"),
		route(t, "fd00:2::/64 dev pod0"),
		route(t, "unreachable fd00:2::/64"),
		route(t, "fd00:3::/64 via fd00:48::2 dev pod0"),
	} {
		errs := n.k.Apply(t.Context(), []routing.Op{add(r)})
		if len(errs) != 1 {
			t.Errorf("add %s was accepted", r)
			continue
		}
		wantErr(t, errs[0], unix.EEXIST)
	}
	// Nor does a delete of ours touch it.
	n.apply(t, del(route(t, "10.2.0.0/16 via 10.48.0.3 dev pod0")), del(route(t, "fd00:2::/64 via fd00:48::3 dev pod0")),
		del(route(t, "unreachable fd00:3::/64")))
	if got := ours(n.dump(t), routing.ProtocolBIRD); len(got) != 3 {
		t.Errorf("foreign routes are now %v", got)
	}
}

// A replace changes the next hop, the link and the type in place.
func TestReplace(t *testing.T) {
	n := newNode(t)
	for _, family := range []struct{ dst, a, b string }{
		{"10.2.0.0/16", "10.48.0.2", "10.48.0.3"},
		{"fd00:2::/64", "fd00:48::2", "fd00:48::3"},
		{"0.0.0.0/0", "10.48.0.2", "10.48.0.3"},
		{"::/0", "fd00:48::2", "fd00:48::3"},
	} {
		forms := []string{
			fmt.Sprintf("%s via %s dev pod0", family.dst, family.a),
			fmt.Sprintf("%s via %s dev pod0", family.dst, family.b),
			fmt.Sprintf("unreachable %s", family.dst),
			fmt.Sprintf("%s dev pod0", family.dst),
			fmt.Sprintf("throw %s", family.dst),
		}
		for _, from := range forms {
			for _, to := range forms {
				n.apply(t, add(route(t, from)), replace(route(t, to)))
				if got := ours(n.dump(t), routing.ProtocolNetclass); len(got) != 1 || got[0] != route(t, to) {
					t.Errorf("replacing %s by %s left %v", from, to, got)
				}
				n.apply(t, del(route(t, to)))
				if got := ours(n.dump(t), routing.ProtocolNetclass); got != nil {
					t.Fatalf("deleting %s left %v", to, got)
				}
			}
		}
		// One that is gone is made again.
		n.apply(t, replace(route(t, forms[0])))
		n.apply(t, del(route(t, forms[0])))
	}
}

// What other software does with routes must not disturb a dump.
func TestForeignRoutes(t *testing.T) {
	n := newNode(t)
	must(t, n.Veth("ext0", n.peer, "port2"))
	must(t, n.Up("ext0"))
	for _, args := range []string{
		"route add 10.10.0.0/16 table 50 nexthop via 10.48.0.2 dev pod0 weight 2 nexthop via 10.48.0.3 dev pod0",
		"-6 route add fd00:10::/64 table 50 nexthop via fd00:48::2 dev pod0 nexthop via fd00:48::3 dev pod0",
		"nexthop add id 7 via 10.48.0.2 dev pod0",
		"nexthop add id 8 via 10.48.0.3 dev pod0",
		"nexthop add id 9 group 7/8",
		"route add 10.11.0.0/16 table 50 nhid 7",
		"route add 10.12.0.0/16 table 50 nhid 9",
		"route add 10.13.0.0/16 tos 0x10 dev pod0 table 50",
		"-6 route add fd00:13::/64 from fd00:1::/64 dev pod0 table 50",
		"route add 10.14.0.0/16 encap ip id 5 dst 10.9.9.9 via 10.48.0.2 dev pod0 table 50",
	} {
		if _, err := n.IP(args); err != nil {
			t.Logf("left out: %v", err)
		}
	}
	var got []string
	for _, r := range n.dump(t).Routes {
		if r.Table == 50 {
			s := r.Type.String() + " " + r.String()
			if r.Multipath {
				s += " multipath"
			}
			got = append(got, s)
		}
	}
	wantLines(t, got, `
		unicast 10.10.0.0/16 via 10.48.0.2 dev pod0 table 50 metric 0 multipath
		unicast 10.11.0.0/16 via 10.48.0.2 dev pod0 table 50 metric 0
		unicast 10.12.0.0/16 via 10.48.0.2 dev pod0 table 50 metric 0 multipath
		other other 10.13.0.0/16 dev pod0 table 50 metric 0
		unicast 10.14.0.0/16 via 10.48.0.2 dev pod0 table 50 metric 0
		unicast fd00:10::/64 via fd00:48::2 dev pod0 table 50 metric 1024 multipath
		other other fd00:13::/64 dev pod0 table 50 metric 1024`)

	must(t, n.peer.Sysctl("ipv4/conf/all/forwarding", "1"))
	must(t, n.Sysctl("ipv4/nexthop_compat_mode", "0"))
	for _, r := range n.dump(t).Routes {
		if r.Dst.String() == "10.12.0.0/16" && !r.Multipath {
			t.Errorf("a route that only names its next hop object: %+v", r)
		}
	}
}

// Carrier loss and a link that goes down show on the routes and the link.
func TestFlags(t *testing.T) {
	n := newNode(t)
	n.apply(t, add(route(t, "10.2.0.0/16 via 10.48.0.2 dev pod0")), add(route(t, "fd00:2::/64 via fd00:48::2 dev pod0")))
	must(t, n.peer.Down("port"))
	eventually(t, func() error { // the kernel works carrier changes off later
		p := n.dump(t)
		if l := p.Link("pod0"); l == nil || !l.Up || l.Carrier || l.Kind != "veth" || l.MTU != 1500 {
			return fmt.Errorf("link without carrier: %+v", l)
		}
		for _, r := range ours(p, routing.ProtocolNetclass) {
			if !r.LinkDown || r.Dead {
				return fmt.Errorf("route without carrier: %s", r)
			}
		}
		return nil
	})
	must(t, n.Sysctl("ipv4/conf/pod0/ignore_routes_with_linkdown", "1"))
	if r := ours(n.dump(t), routing.ProtocolNetclass)[0]; !r.LinkDown || !r.Dead {
		t.Errorf("route without carrier that is ignored: %s", r)
	}
}

func TestAddresses(t *testing.T) {
	n := newNode(t)
	n.MustIP(t, "addr add 10.48.0.7/24 dev pod0")                           // secondary
	n.MustIP(t, "addr add 192.0.2.1 peer 192.0.2.2/32 dev pod0")            // point to point
	n.MustIP(t, "-6 addr add fd00:48::7/64 dev pod0 nodad preferred_lft 0") // deprecated
	n.MustIP(t, "-6 addr add fd00:48::2/64 dev pod0")                       // the peer's: fails detection
	if l := n.dump(t).Link("pod0"); !slices.ContainsFunc(l.Addrs, func(a routing.LinkAddr) bool { return a.Tentative && !a.Usable() }) {
		t.Errorf("no address is tentative: %+v", l.Addrs)
	}
	eventually(t, func() error {
		for _, a := range n.dump(t).Link("pod0").Addrs {
			if a.Tentative && !a.DADFailed {
				return fmt.Errorf("%s is still tentative", a.Prefix)
			}
		}
		return nil
	})
	var got []string
	for _, a := range n.dump(t).Link("pod0").Addrs {
		if !a.Prefix.Addr().IsLinkLocalUnicast() {
			got = append(got, fmt.Sprintf("%s secondary=%t usable=%t", a.Prefix, a.Secondary, a.Usable()))
		}
	}
	slices.Sort(got)
	wantLines(t, got, `
		10.48.0.1/24 secondary=false usable=true
		10.48.0.7/24 secondary=true usable=true
		192.0.2.1/32 secondary=false usable=true
		fd00:48::1/64 secondary=false usable=true
		fd00:48::2/64 secondary=false usable=false
		fd00:48::7/64 secondary=true usable=true`)
}
