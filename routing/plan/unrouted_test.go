package plan_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"netclass.dev/routing"
)

// TestUnrouted: the pod CIDRs that the guard covers and main has no route to are
// found, whatever the CNI's routes look like.
func TestUnrouted(t *testing.T) {
	without := func(dsts ...string) func(w *world) {
		return func(w *world) {
			w.Kernel.Routes = slices.DeleteFunc(w.Kernel.Routes, func(r routing.Route) bool {
				return r.Table == routing.MainID && slices.Contains(dsts, r.Dst.String())
			})
		}
	}
	v4 := []string{"10.244.2.0/24", "10.244.3.0/24"}
	main := func(dst string, kind routing.RouteType) routing.Route {
		return routing.Route{Table: routing.MainID, Dst: netip.MustParsePrefix(dst), Type: kind, Protocol: routing.ProtocolStatic}
	}
	for _, test := range []struct {
		name string
		bend func(*world)
		want []string
	}{
		{"all there", func(*world) {}, nil},
		{"one away", without("10.244.2.0/24"), []string{"10.244.2.0/24"}},
		{"one of each family away", without("10.244.3.0/24", "fd00:10:244:2::/64"), []string{"10.244.3.0/24", "fd00:10:244:2::/64"}},
		{"a route as wide as the guard", func(w *world) { without(v4...)(w); w.addRoutes(main("10.244.0.0/16", routing.Unicast)) }, nil},
		{"a wider one", func(w *world) { without(v4...)(w); w.addRoutes(main("10.0.0.0/8", routing.Unicast)) }, v4},
		{"one for some of them", func(w *world) { without(v4...)(w); w.addRoutes(main("10.244.2.0/23", routing.Unicast)) }, nil},
		{"one for others", func(w *world) { without(v4...)(w); w.addRoutes(main("10.244.4.0/22", routing.Unicast)) }, v4},
		{"one for each pod", func(w *world) { without(v4...)(w); w.addRoutes(main("10.244.2.7/32", routing.Unicast)) }, []string{"10.244.3.0/24"}},
		{"one that says no", func(w *world) { without(v4...)(w); w.addRoutes(main("10.244.2.0/24", routing.Blackhole)) }, v4},
		{"not guarded", func(w *world) { without(v4...)(w); w.Config.Guard.Networks = []string{"nodes"} }, nil},
		{"guarded by rules", func(w *world) { without(v4...)(w); w.Config.Guard.AsRules = true }, v4},
		{"main is ours", func(w *world) {
			without(v4...)(w)
			w.Config.Tables = append(w.Config.Tables, routing.Table{Name: routing.MainTable, ID: routing.MainID})
		}, nil},
		{"another table is asked", func(w *world) {
			without(v4...)(w)
			w.Config.Tables[0].Rules = append(w.Config.Tables[0].Rules, routing.Selector{To: "pods", Priority: routing.PerFamily[uint32]{IPv4: 900}})
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := seed()
			test.bend(w)
			for range 2 { // also once the guard is in
				var got []string
				for _, p := range w.make().Unrouted {
					got = append(got, p.String())
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("got %v, want %v", got, test.want)
				}
				w.settle()
			}
		})
	}
}

// TestReversePathFilters: a filter on a class link is told of, with what it does.
func TestReversePathFilters(t *testing.T) {
	w := seed()
	w.link("ingress0").RPFilter, w.link("node0").RPFilter, w.link("cilium_host").RPFilter = 1, 2, 1
	want := []string{
		"link/ingress0: rp_filter is strict: IPv4 packets whose answers leave by another link are dropped; set net/ipv4/conf/all/rp_filter and net/ipv4/conf/ingress0/rp_filter to 0",
		"link/node0: rp_filter is loose: IPv4 packets from a guarded network that there is no route to are dropped; set net/ipv4/conf/all/rp_filter and net/ipv4/conf/node0/rp_filter to 0",
	}
	var got []string
	for _, c := range w.make().Conditions {
		if c.Reason == "ReversePathFilter" {
			got = append(got, fmt.Sprintf("%s: %s", c.Object, c.Message))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
