package plan_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/plan"
)

// importing is the example cluster, whose router may tell of two networks.
func importing() *world {
	w := seed()
	w.Config.Networks = append(w.Config.Networks, routing.Network{Name: "corp", Prefixes: prefixes("172.16.0.0/12", "192.168.0.0/16", "2001:db8::/32")})
	w.Config.BGP.Upstreams[0].Import = []routing.Import{{Networks: []string{"corp"}, Table: "pods"}}
	return w
}

// hears lets a router announce prefixes by a next hop.
func (w *world) hears(router string, hop string, dsts ...string) {
	pg := w.peering(router, routing.FamilyOf(addr(hop)))
	pg.Synced, pg.RouterID = true, addr("10.47.0.254")
	for _, dst := range dsts {
		p := netip.MustParsePrefix(dst)
		pg.Paths = append(pg.Paths, routing.Path{Prefix: p, NextHop: addr(hop)})
	}
}

func TestImports(t *testing.T) {
	w := importing()
	healthy := w.settle()
	if n := neighbor(healthy, "udm", routing.IPv4); n == nil || n.MaxPrefixes != 1000 {
		t.Errorf("the session: %+v", n)
	}
	w.hears("udm", "10.47.0.254", "172.16.0.0/12", "192.168.7.0/24")
	w.hears("udm", "10.47.0.9", "192.168.8.0/24") // by another router on that link
	w.hears("udm", "fd00:47::fe", "2001:db8:1::/48")
	p := w.make()
	wantChanges(t, "IPv4", changes(healthy, p, routing.IPv4), `
		+ 172.16.0.0/12 via 10.47.0.254 dev ingress0 table 47 metric 500
		+ 192.168.7.0/24 via 10.47.0.254 dev ingress0 table 47 metric 500
		+ 192.168.8.0/24 via 10.47.0.9 dev ingress0 table 47 metric 500`)
	wantChanges(t, "IPv6", changes(healthy, p, routing.IPv6), `
		+ 2001:db8:1::/48 via fd00:47::fe dev ingress0 table 47 metric 500`)
	if st := peerStatus(t, p, "udm", routing.IPv4); len(st.Accepted) != 3 || st.RefusedCount != 0 || said(p) != "" {
		t.Errorf("accepted %v, refused %v\n%s", st.Accepted, st.Refused, said(p))
	}
	// They come after the fence and are the first to go, with the session too.
	for _, op := range plan.Diff(p, w.Kernel) {
		if op.Stage != routing.StagePeers {
			t.Errorf("%s in stage %s", op, op.Stage)
		}
	}
	w.settle()
	for _, op := range plan.Flush(p.Own, w.Kernel) {
		if op.Route.Metric == routing.MetricImport && op.Stage != routing.StageBase {
			t.Errorf("%s in stage %s", op, op.Stage)
		}
	}
	w.converge()
	if c := changes(healthy, w.make(), routing.IPv4); c != "" {
		t.Errorf("without the session:\n%s", c)
	}
	wantText(t, "ops", opsText(slices.DeleteFunc(plan.Diff(w.make(), w.Kernel), func(op routing.Op) bool { return op.Family() == routing.IPv4 })), `
		connected and own: delete route 2001:db8:1::/48 via fd00:47::fe dev ingress0 table 47 metric 500`)
}

// TestImportsWithoutLink: while our own link is down nothing is imported, but nothing
// is refused either.
func TestImportsWithoutLink(t *testing.T) {
	w := importing()
	w.Speaking = w.make().Speak
	w.link("ingress0").Up = false
	w.hears("udm", "10.47.0.254", "192.168.7.0/24")
	p := w.make()
	if st := peerStatus(t, p, "udm", routing.IPv4); len(st.Accepted) != 0 || st.RefusedCount != 0 || st.Aside != 1 || !strings.Contains(st.Reason, "link ingress0 is down") && !strings.Contains(st.Reason, "advertised") {
		t.Errorf("%+v", st)
	}
	if slices.ContainsFunc(p.Routes, func(r routing.Route) bool { return r.Metric == routing.MetricImport }) {
		t.Error("imported")
	}
}

func TestImportsRefused(t *testing.T) {
	for _, tc := range []struct {
		name, hop, dst, want string
		bend                 func(w *world)
	}{
		{"default", "10.47.0.254", "0.0.0.0/0", "a default route is never accepted", nil},
		{"half a default", "10.47.0.254", "128.0.0.0/1", "in no network that is imported", nil},
		{"elsewhere", "10.47.0.254", "198.51.100.0/24", "in no network that is imported", nil},
		{"wider than the network", "10.47.0.254", "192.0.0.0/8", "in no network that is imported", nil},
		{"not a prefix", "10.47.0.254", "192.168.7.1/24", "not a prefix", nil},
		{"the other family", "10.47.0.254", "2001:db8::/48", "prefix of the other family", nil},
		{"a hop off the link", "10.46.0.254", "192.168.7.0/24", "next hop 10.46.0.254 is in no network of ingress0", nil},
		{"our own address", "10.47.0.1", "192.168.7.0/24", "next hop 10.47.0.1 is this node's own address", nil},
		{"no hop at all", "::", "2001:db8::/48", "next hop :: is in no network of ingress0", nil},
		{"a mapped hop", "::ffff:10.47.0.254", "2001:db8::/48", "next hop ::ffff:10.47.0.254 is a mapped address", nil},
		{"a link-local hop", "fe80::2", "2001:db8::/48", "next hop fe80::2 is a link-local address", nil},
		{"a network of a link", "10.47.0.254", "192.168.0.0/16", "overlaps 192.168.9.0/24, a network of docker0", func(w *world) {
			w.Kernel.Links = append(w.Kernel.Links, upLink("docker0", "192.168.9.1/24"))
		}},
		{"a class link that was there", "10.47.0.254", "192.168.9.128/25", "overlaps 192.168.9.0/24, a network of node0", func(w *world) {
			w.settle()
			w.link("node0").Addrs = nil
			w.Ledger.Links["node0"] = prefixes("192.168.9.0/24")
		}},
		{"pods", "10.47.0.254", "192.168.9.0/25", "overlaps 192.168.9.0/24 of pods", func(w *world) {
			w.Config.Networks[0].Prefixes = append(w.Config.Networks[0].Prefixes, prefixes("192.168.9.0/24")...)
		}},
		{"services, though unfenced", "10.47.0.254", "192.168.9.0/25", "overlaps 192.168.9.0/24 of services", func(w *world) {
			w.Config.Tables[0].Fence = nil
			w.Config.Networks[1].Prefixes = append(w.Config.Networks[1].Prefixes, prefixes("192.168.9.0/24")...)
		}},
		{"what is guarded", "10.47.0.254", "192.168.0.0/16", "overlaps 192.168.9.0/24 of other", func(w *world) {
			w.Config.Networks = append(w.Config.Networks, routing.Network{Name: "other", Prefixes: prefixes("192.168.9.0/24")})
			w.Config.Guard.Networks = append(w.Config.Guard.Networks, "other")
		}},
		{"a pod CIDR outside of pods", "10.47.0.254", "192.168.9.0/28", "overlaps a pod CIDR of node k8s-2", func(w *world) {
			w.node("k8s-2").PodCIDRs = append(w.node("k8s-2").PodCIDRs, prefixes("192.168.9.0/24")...)
		}},
		{"a node's address", "10.47.0.254", "192.168.0.0/16", "overlaps an InternalIP of node k8s-3", func(w *world) {
			w.node("k8s-3").InternalIPs = append(w.node("k8s-3").InternalIPs, addr("192.168.9.3"))
		}},
		{"another's place", "10.47.0.254", "192.168.7.0/24", "another route has its place", func(w *world) {
			w.addRoutes(routing.Route{Table: 47, Dst: netip.MustParsePrefix("192.168.7.0/24"), Metric: routing.MetricImport, Link: "lo", Protocol: routing.ProtocolBIRD})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := importing()
			if tc.bend != nil {
				tc.bend(w)
			}
			w.hears("udm", tc.hop, tc.dst)
			if hop := addr(tc.hop); hop.Is4In6() {
				w.peering("udm", routing.IPv6).Paths[0].NextHop = hop
			}
			p := w.make()
			st := peerStatus(t, p, "udm", routing.FamilyOf(addr(tc.hop)))
			if len(st.Accepted) != 0 || st.RefusedCount != 1 || len(st.Refused) != 1 || st.Refused[0].Reason != tc.want {
				t.Errorf("accepted %v, refused %v; want %q", st.Accepted, st.Refused, tc.want)
			}
			for _, r := range p.Routes {
				if r.Metric == routing.MetricImport {
					t.Errorf("imported: %s", r)
				}
			}
		})
	}
}

// Of two routers that announce one prefix the first configured counts; a table of
// its own is filled by its own networks.
func TestTwoRouters(t *testing.T) {
	w := importing()
	second := w.Config.BGP.Upstreams[0]
	second.Name = "udm2"
	second.Address = routing.PerFamily[routing.AddressRef]{IPv4: routing.AddressRef{Addr: addr("10.47.0.253")}}
	w.Config.BGP.Upstreams = append(w.Config.BGP.Upstreams, second)
	w.hears("udm2", "10.47.0.253", "192.168.7.0/24", "192.168.8.0/24")
	w.hears("udm", "10.47.0.254", "192.168.7.0/24")
	p := w.make()
	st := peerStatus(t, p, "udm2", routing.IPv4)
	if len(st.Accepted) != 1 || len(st.Refused) != 1 || st.Refused[0].Reason != "announced by another router too, by way of 10.47.0.254" {
		t.Errorf("udm2: accepted %v, refused %v", st.Accepted, st.Refused)
	}
	w.settle()
	w.peering("udm", routing.IPv4).Paths = nil
	wantText(t, "ops", opsText(plan.Diff(w.make(), w.Kernel)), `
		peers: replace route 192.168.7.0/24 via 10.47.0.253 dev ingress0 table 47 metric 500`)
}

// A router that says a thousand things is listened to, and what is refused is
// counted and shown in part.
func TestManyImports(t *testing.T) {
	w := importing()
	var dsts []string
	for i := range 500 {
		dsts = append(dsts, fmt.Sprintf("172.16.%d.%d/32", i/250, i%250), fmt.Sprintf("10.244.%d.%d/32", i/250, i%250))
	}
	w.hears("udm", "10.47.0.254", dsts...)
	st := peerStatus(t, w.make(), "udm", routing.IPv4)
	if len(st.Accepted) != 500 || st.RefusedCount != 500 || len(st.Refused) != 100 {
		t.Errorf("%d accepted, %d refused of which %d are kept", len(st.Accepted), st.RefusedCount, len(st.Refused))
	}
	if strings.Contains(said(w.make()), "Import") {
		t.Errorf("refusals are conditions:\n%s", said(w.make()))
	}
}

// Where nothing is imported, what a router says counts for nothing.
func TestNoImport(t *testing.T) {
	w := importing()
	w.Config.BGP.Upstreams[0].Import = nil
	healthy := w.make()
	w.hears("udm", "10.47.0.254", "172.16.0.0/12")
	p := w.make()
	if c := changes(healthy, p, routing.IPv4); c != "" || neighbor(p, "udm", routing.IPv4).MaxPrefixes != 0 {
		t.Errorf("changes:\n%s", c)
	}
}

// An import that has come to lead the cluster's own to a router goes at once, also
// while the inventory has not been read: as soon as the fence stands behind it.
func TestStrayImportGoesAtOnce(t *testing.T) {
	w := importing()
	w.hears("udm", "10.47.0.254", "172.16.0.0/12", "192.168.7.0/24")
	w.settle()
	w.link("pod0").Addrs[0].Prefix = netip.MustParsePrefix("192.168.7.1/24")
	w.Inventory = &routing.Inventory{}
	ops := plan.Diff(w.make(), w.Kernel)
	fenced := false
	for _, op := range ops {
		fenced = fenced || op.Verb == routing.Add && op.Route.Metric == routing.MetricFence && op.Route.Dst == netip.MustParsePrefix("192.168.7.0/24")
		if op.Route.Metric == routing.MetricImport && op.Verb == routing.Delete {
			// Not before: the default would take its place.
			if !fenced || op.Stage > routing.StageBase || op.Route.Dst != netip.MustParsePrefix("192.168.7.0/24") {
				t.Errorf("%s: %s", op.Stage, op)
			}
			return
		}
	}
	t.Errorf("it stays:\n%s", opsText(ops))
}

// A drain takes imports out with the default, or leaves both; undrained they are
// back. What is told is accepted all the same.
func TestDrainTakesImports(t *testing.T) {
	w := importing()
	w.Config.Tables[0].Routes.Default = nil
	w.hears("udm", "10.47.0.254", "172.16.0.0/12")
	healthy := w.settle()
	w.Draining = routing.Draining{Step: routing.DrainMesh}
	if c := changes(healthy, w.make(), routing.IPv4); c != "" {
		t.Errorf("before the step:\n%s", c)
	}
	w.Draining = routing.Draining{Step: routing.DrainPaths, KeepEgress: true, Classes: []string{"world-pod"}}
	if c := changes(healthy, w.make(), routing.IPv4); c != "" {
		t.Errorf("with the way out kept:\n%s", c)
	}
	w.Draining = routing.Draining{Step: routing.DrainDefault, Classes: []string{"pod-pod"}}
	if c := changes(healthy, w.make(), routing.IPv4); c != "" {
		t.Errorf("of another link:\n%s", c)
	}
	w.Draining = routing.Draining{Step: routing.DrainDefault, Phase: routing.DrainDone, Classes: []string{"world-pod"}}
	p := w.make()
	const route = "172.16.0.0/12 via 10.47.0.254 dev ingress0 table 47 metric 500"
	wantChanges(t, "drained", changes(healthy, p, routing.IPv4), "- "+route)
	if st := peerStatus(t, p, "udm", routing.IPv4); len(st.Accepted) != 1 || st.RefusedCount != 0 {
		t.Errorf("accepted %v, refused %v", st.Accepted, st.Refused)
	}
	if st := p.Tables[0]; st.Health != routing.Drained || st.Reason != "taken out by a drain of this node: what is imported over ingress0" {
		t.Errorf("%s: %s", st.Health, st.Reason)
	}
	w.settle()
	w.Draining = routing.Draining{}
	wantText(t, "back", opsText(plan.Diff(w.make(), w.Kernel)), "peers: add route "+route)
}
