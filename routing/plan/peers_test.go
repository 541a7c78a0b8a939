package plan_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"netclass.dev/routing"
)

func path(prefix, hop string) routing.Path {
	return routing.Path{Prefix: netip.MustParsePrefix(prefix), NextHop: addr(hop)}
}

// Everything k8s-2 may say beside its own pod CIDR, and why it is refused.
func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name   string
		accept routing.Accept // assigned unless given
		path   routing.Path
		family routing.Family // IPv4 unless given
		reason string         // empty: accepted
		bend   func(w *world)
	}{
		{name: "its own CIDR", path: path("10.244.2.0/24", "10.48.0.2")},
		{name: "a default", path: path("0.0.0.0/0", "10.48.0.2"), reason: "a default route is never accepted"},
		{name: "an IPv6 default", path: path("::/0", "fd00:48::2"), family: routing.IPv6, reason: "a default route is never accepted"},
		{name: "a more specific", path: path("10.244.2.128/25", "10.48.0.2"), reason: "more specific than the assigned 10.244.2.0/24"},
		{name: "a host route", path: path("10.244.2.7/32", "10.48.0.2"), reason: "more specific than the assigned 10.244.2.0/24"},
		{name: "a less specific", path: path("10.244.0.0/16", "10.48.0.2"), reason: "assigned to k8s-1"},
		{name: "another node's", path: path("10.244.3.0/24", "10.48.0.2"), reason: "assigned to k8s-3"},
		{name: "a part of another node's", path: path("10.244.3.64/26", "10.48.0.2"), reason: "assigned to k8s-3"},
		{name: "ours", path: path("10.244.1.0/24", "10.48.0.2"), reason: "assigned to k8s-1"},
		{name: "nobody's", path: path("10.244.9.0/24", "10.48.0.2"), reason: "not assigned to k8s-2"},
		{name: "the world's", path: path("192.0.2.0/24", "10.48.0.2"), reason: "not assigned to k8s-2"},
		{name: "another next hop", path: path("10.244.2.0/24", "10.48.0.3"), reason: "next hop 10.48.0.3 is not the peer's address 10.48.0.2"},
		{name: "its node address as next hop", path: path("10.244.2.0/24", "10.46.0.2"), reason: "next hop 10.46.0.2 is not the peer's address 10.48.0.2"},
		{name: "a mapped next hop", path: path("fd00:10:244:2::/64", "::ffff:10.48.0.2"), family: routing.IPv6, reason: "next hop ::ffff:10.48.0.2 is a mapped address"},
		{name: "the other family", path: path("fd00:10:244:2::/64", "10.48.0.2"), reason: "prefix of the other family"},
		{name: "host bits", path: path("10.244.2.1/24", "10.48.0.2"), reason: "not a prefix"},
		{name: "nothing", path: routing.Path{}, reason: "not a prefix"},

		{name: "its own CIDR, within", accept: routing.AcceptWithin, path: path("10.244.2.0/24", "10.48.0.2")},
		{name: "nobody's, within", accept: routing.AcceptWithin, path: path("10.244.9.0/26", "10.48.0.2")},
		{name: "a more specific of its own, within", accept: routing.AcceptWithin, path: path("10.244.2.64/26", "10.48.0.2")},
		{name: "another node's, within", accept: routing.AcceptWithin, path: path("10.244.3.0/24", "10.48.0.2"), reason: "assigned to k8s-3"},
		{name: "a part of another node's, within", accept: routing.AcceptWithin, path: path("10.244.3.64/26", "10.48.0.2"), reason: "assigned to k8s-3"},
		{name: "around another node's, within", accept: routing.AcceptWithin, path: path("10.244.2.0/23", "10.48.0.2"), reason: "assigned to k8s-3"},
		{name: "all pods, within", accept: routing.AcceptWithin, bend: func(w *world) {
			for i := range w.Inventory.Nodes {
				w.Inventory.Nodes[i].PodCIDRs = nil
			}
		}, path: path("10.244.0.0/16", "10.48.0.2"), reason: "outside the network pods"},
		{name: "the world's, within", accept: routing.AcceptWithin, path: path("192.0.2.0/24", "10.48.0.2"), reason: "outside the network pods"},
		{name: "a default, within", accept: routing.AcceptWithin, path: path("0.0.0.0/0", "10.48.0.2"), reason: "a default route is never accepted"},

		{name: "a foreign route is in its place", path: path("10.244.2.0/24", "10.48.0.2"), reason: "another route has its place", bend: func(w *world) {
			w.addRoutes(routing.Route{Table: 47, Dst: netip.MustParsePrefix("10.244.2.0/24"), Metric: 10, Via: addr("10.48.0.9"), Link: "pod0", Protocol: 12})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := seed()
			if tc.accept != "" {
				w.Config.Tables[0].Routes.Peers.Accept = tc.accept
			}
			if tc.bend != nil {
				tc.bend(w)
			}
			f := tc.family
			if f == 0 {
				f = routing.IPv4
			}
			w.peering("k8s-2", f).Paths = []routing.Path{tc.path}
			p := w.make()
			s := peerStatus(t, p, "k8s-2", f)
			installed := slices.ContainsFunc(p.Routes, func(r routing.Route) bool {
				return r.Dst == tc.path.Prefix && r.Metric == routing.MetricPath && r.Via == addr(map[routing.Family]string{4: "10.48.0.2", 6: "fd00:48::2"}[f])
			})
			if tc.reason == "" {
				if !installed || len(s.Accepted) != 1 || s.RefusedCount != 0 {
					t.Errorf("not accepted: %+v\n%s", s, strings.Join(text(p, f), "\n"))
				}
				return
			}
			if installed || len(s.Accepted) != 0 || s.RefusedCount != 1 || len(s.Refused) != 1 {
				t.Fatalf("not refused: %+v\n%s", s, strings.Join(text(p, f), "\n"))
			}
			if s.Refused[0].Reason != tc.reason {
				t.Errorf("refused because %q, want %q", s.Refused[0].Reason, tc.reason)
			}
		})
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	w := seed()
	pg := w.peering("k8s-2", routing.IPv4)
	for i := range 1000 {
		pg.Paths = append(pg.Paths, path(fmt.Sprintf("198.18.%d.%d/32", i/256, i%256), "10.48.0.2"))
	}
	s := peerStatus(t, w.make(), "k8s-2", routing.IPv4)
	if s.RefusedCount != 1000 || len(s.Refused) != 100 || len(s.Accepted) != 1 {
		t.Errorf("%d refused, %d kept, %d accepted; want 1000, 100, 1", s.RefusedCount, len(s.Refused), len(s.Accepted))
	}
}

// What the kernel has stands in for a peer that has not said all; a peer that
// has, and has nothing, is down to the fallback.
func TestHeldAndAdopted(t *testing.T) {
	const gone = `- 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10`
	for _, tc := range []struct {
		name string
		bend func(w *world)
		want string
	}{
		{"not synced, nothing said", func(w *world) {
			*w.peering("k8s-2", routing.IPv4) = routing.Peering{Key: w.peering("k8s-2", routing.IPv4).Key}
		}, ""},
		{"no peering yet, as after a restart", func(w *world) { w.Peerings, w.Speaking = nil, nil }, ""},
		{"held", func(w *world) { pg := w.peering("k8s-2", routing.IPv4); pg.Held, pg.Synced = true, false }, ""},
		{"synced, and it has withdrawn", func(w *world) { w.peering("k8s-2", routing.IPv4).Paths = nil }, gone},
		{"not synced, and the kernel's path is by another node", func(w *world) {
			pg := w.peering("k8s-2", routing.IPv4)
			pg.Synced, pg.Paths = false, nil
			for i, r := range w.Kernel.Routes {
				if r.Via == addr("10.48.0.2") {
					w.Kernel.Routes[i].Via = addr("10.48.0.3")
				}
			}
		}, gone},
		{"not synced, and the inventory gives its CIDR to another node", func(w *world) {
			pg := w.peering("k8s-2", routing.IPv4)
			pg.Synced, pg.Paths = false, nil
			w.node("k8s-2").PodCIDRs, w.node("k8s-3").PodCIDRs = w.node("k8s-2").PodCIDRs[1:], append(w.node("k8s-3").PodCIDRs, w.node("k8s-2").PodCIDRs[0])
		}, gone + `
			- 10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 2000
			+ 10.244.2.0/24 via 10.46.0.3 dev node0 table 47 metric 2000`},
		{"not synced, pod0 is down", func(w *world) {
			w.peering("k8s-2", routing.IPv4).Synced = false
			w.link("pod0").Up = false
		}, gone + `
			- 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10
			- 10.48.0.0/24 dev pod0 table 47 metric 10`},
		{"the kernel has lost the path: nothing to adopt", func(w *world) {
			w.peering("k8s-2", routing.IPv4).Synced = false
			w.peering("k8s-2", routing.IPv4).Paths = nil
			w.Kernel.Routes = slices.DeleteFunc(w.Kernel.Routes, func(r routing.Route) bool { return r.Via == addr("10.48.0.2") })
		}, gone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := seed()
			healthy := w.settle()
			tc.bend(w)
			wantChanges(t, "changes", changes(healthy, w.make(), routing.IPv4), tc.want)
		})
	}
}

// With `accept: within` the inventory does not say what a peer may have: what
// the kernel has by its next hop is adopted too.
func TestAdoptWithin(t *testing.T) {
	w := seed()
	w.Config.Tables[0].Routes.Peers.Accept = routing.AcceptWithin
	pg := w.peering("k8s-2", routing.IPv4)
	pg.Paths = append(pg.Paths, path("10.244.9.0/26", "10.48.0.2"))
	healthy := w.settle()
	w.Peerings = nil
	wantChanges(t, "after a restart", changes(healthy, w.make(), routing.IPv4), "")
	w.converge()
	wantChanges(t, "when it has said all", changes(healthy, w.make(), routing.IPv4), `- 10.244.9.0/26 via 10.48.0.2 dev pod0 table 47 metric 10`)
}

// Two nodes announce what the inventory gives to neither: the first keeps it, in
// whichever order they are told.
func TestTwoAnnounceOne(t *testing.T) {
	for _, holder := range []string{"k8s-2", "k8s-3"} {
		w := seed()
		w.Config.Tables[0].Routes.Peers.Accept = routing.AcceptWithin
		hop := map[string]string{"k8s-2": "10.48.0.2", "k8s-3": "10.48.0.3"}
		other := map[string]string{"k8s-2": "k8s-3", "k8s-3": "k8s-2"}[holder]
		said := func(node string) {
			pg := w.peering(node, routing.IPv4)
			pg.Paths = append(pg.Paths, path("10.244.9.0/26", hop[node]))
		}
		said(holder)
		w.settle()
		said(other)
		p := w.make()
		var via []string
		for _, r := range p.Routes {
			if r.Dst == netip.MustParsePrefix("10.244.9.0/26") {
				via = append(via, r.Via.String())
			}
		}
		if len(via) != 1 || via[0] != hop[holder] {
			t.Errorf("%s holds it, but the routes are by %v", holder, via)
		}
		if s := peerStatus(t, p, holder, routing.IPv4); s.RefusedCount != 0 || len(s.Accepted) != 2 {
			t.Errorf("holder %s: %+v", holder, s)
		}
		s := peerStatus(t, p, other, routing.IPv4)
		if s.RefusedCount != 1 || len(s.Accepted) != 1 || s.Refused[0].Reason != "announced by "+holder+" too, which holds it" {
			t.Errorf("newcomer %s: %+v", other, s)
		}
	}
}

// Two nodes claim one pod CIDR in the inventory.
func TestClaimedTwice(t *testing.T) {
	claim := func(w *world, node string, cidrs ...string) {
		w.node(node).PodCIDRs = append(prefixes(cidrs...), w.node(node).PodCIDRs...)
		w.converge()
	}
	for _, tc := range []struct {
		name   string
		before func(w *world)
		bend   func(w *world)
		want   string
		says   []string
	}{
		{
			name: "the newcomer is refused", bend: func(w *world) { claim(w, "k8s-3", "10.244.2.0/24") },
			says: []string{"node/k8s-3 PodCIDRConflict: pod CIDR 10.244.2.0/24 is refused: node k8s-2 holds 10.244.2.0/24"},
		},
		{
			name: "also where its name comes first", bend: func(w *world) { claim(w, "k8s-2", "10.244.3.0/24") },
			says: []string{"node/k8s-2 PodCIDRConflict: pod CIDR 10.244.3.0/24 is refused: node k8s-3 holds 10.244.3.0/24"},
		},
		{
			name: "a part of another's", bend: func(w *world) { claim(w, "k8s-2", "10.244.3.128/25") },
			says: []string{"node/k8s-2 PodCIDRConflict: pod CIDR 10.244.3.128/25 is refused: node k8s-3 holds 10.244.3.0/24"},
		},
		{
			name: "around everybody's", bend: func(w *world) { claim(w, "k8s-2", "10.244.0.0/16") },
			says: []string{"node/k8s-2 PodCIDRConflict: pod CIDR 10.244.0.0/16 is refused: node k8s-"},
		},
		{
			name: "ours", bend: func(w *world) { claim(w, "k8s-2", "10.244.1.0/24") },
			says: []string{"node/k8s-2 PodCIDRConflict: pod CIDR 10.244.1.0/24 is refused: node k8s-1 holds 10.244.1.0/24"},
		},
		{
			name: "everything", bend: func(w *world) { claim(w, "k8s-2", "0.0.0.0/0") },
			says: []string{"node/k8s-2 PodCIDRRefused: 0.0.0.0/0 is no pod CIDR"},
		},
		{
			name: "the holder by the fallback alone", before: func(w *world) { w.link("pod0").Up = false },
			bend: func(w *world) { claim(w, "k8s-2", "10.244.3.0/24") },
			says: []string{"node/k8s-2 PodCIDRConflict"},
		},
		{
			name: "the holder leaves: the newcomer has it", bend: func(w *world) {
				claim(w, "k8s-2", "10.244.3.0/24")
				w.removeNode("k8s-3")
				w.converge()
			},
			want: `
				- 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10
				- 10.244.3.0/24 via 10.46.0.3 dev node0 table 47 metric 2000
				+ 10.244.3.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
				+ 10.244.3.0/24 via 10.46.0.2 dev node0 table 47 metric 2000`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := seed()
			if tc.before != nil {
				tc.before(w)
			}
			healthy := w.settle()
			tc.bend(w)
			p := w.settle()
			wantChanges(t, "changes", changes(healthy, p, routing.IPv4), tc.want)
			wantSaid(t, p, tc.says...)
			again := w.make()
			wantChanges(t, "changes of the next pass", changes(p, again, routing.IPv4), "")
			if said(again) != said(p) {
				t.Errorf("the next pass says something else:\n%s\n%s", said(p), said(again))
			}
		})
	}
}

// Our own pod CIDR where another node is its present holder: neither installed
// as own nor announced.
func TestOwnCIDRHeldByAnother(t *testing.T) {
	w := seed()
	w.node("k8s-3").PodCIDRs[0] = netip.MustParsePrefix("10.244.5.0/24")
	w.converge()
	w.settle()
	w.node("k8s-1").PodCIDRs[0] = netip.MustParsePrefix("10.244.5.0/24")
	w.converge()
	p := w.make()
	wantSaid(t, p, "node/k8s-1 PodCIDRConflict: pod CIDR 10.244.5.0/24 is refused: node k8s-3 holds 10.244.5.0/24")
	for _, o := range p.Announce {
		if o.To == "" && o.Prefix.Addr().Is4() {
			t.Errorf("%s is announced", o.Prefix)
		}
	}
	if lines := strings.Join(text(p, routing.IPv4), "\n"); !strings.Contains(lines, "10.244.5.0/24 via 10.48.0.3 dev pod0 table 47 metric 10") || strings.Contains(lines, "cilium_host") {
		t.Error(lines)
	}
}

// An own node that is not in the inventory keeps everything it had.
func TestOwnNodeMissing(t *testing.T) {
	w := seed()
	healthy := w.settle()
	w.removeNode("k8s-1")
	p := w.make()
	if p.Hold == "" {
		t.Error("deletions are not held")
	}
	for _, f := range routing.Families {
		wantChanges(t, f.String(), changes(healthy, p, f), "")
	}
	if !slices.EqualFunc(healthy.Speak.Neighbors, p.Speak.Neighbors, func(a, b routing.Neighbor) bool { return a == b }) {
		t.Errorf("the sessions change: %v, then %v", healthy.Speak.Neighbors, p.Speak.Neighbors)
	}
	if got, want := announced(p), announced(healthy); got != want {
		t.Errorf("announced:\n%swant:\n%s", got, want)
	}
	wantSaid(t, p, `inventory OwnNodeMissing: node "k8s-1" is not in nodes.yaml: nothing is deleted, what it had stays, and new rules wait; add it there, or say who this node is`)
}

func TestInventoryNotSynced(t *testing.T) {
	w := seed()
	w.settle()
	w.Inventory = &routing.Inventory{Stale: "no such file"}
	w.Peerings, w.Speaking = nil, nil
	p := w.make()
	if p.Hold == "" {
		t.Fatal("deletions are not held")
	}
	wantSaid(t, p, "inventory NotSynced: no nodes are known yet (no such file): nothing is deleted")
	if ops := planOps(p, w); len(ops) != 0 {
		t.Errorf("ops:\n%s", opsText(ops))
	}
}

func TestStaleInventoryIsSaid(t *testing.T) {
	w := seed()
	w.Inventory.Stale = "nodes.yaml:3: bad prefix"
	wantSaid(t, w.make(), "inventory Stale: the last good copy is in use: nodes.yaml:3: bad prefix")
}

// A flap of the links that lead to it does not hand a contested pod CIDR over.
func TestClaimedTwiceThroughAFlap(t *testing.T) {
	w := seed()
	healthy := w.settle()
	w.node("k8s-1").PodCIDRs = append(w.node("k8s-1").PodCIDRs, w.node("k8s-2").PodCIDRs...)
	w.settle()
	for _, up := range []bool{false, true} {
		w.link("pod0").Up, w.link("node0").Up = up, up
		w.settle()
		w.settle()
	}
	for _, f := range routing.Families {
		wantChanges(t, f.String(), changes(healthy, w.make(), f), "")
	}
}

// The kernel takes an IPv6 next hop for on-link on a tunnel only where it has no
// other way to it than a default.
func TestOnLinkIPv6(t *testing.T) {
	w := seed()
	w.Kernel.Links = append(w.Kernel.Links, upLink("tunl0", "10.244.1.1/32", "fd00:10:244:1::1/128"))
	p := w.Config.Tables[0].Routes.Peers
	p.Link, p.Learn, p.NextHop, p.OnLink, p.Fallback = "tunl0", routing.LearnNodes, routing.HopInternalIP, true, routing.Fallback{}
	plan := w.make()
	if lines := strings.Join(text(plan, routing.IPv4), "\n"); !strings.Contains(lines, "10.244.2.0/24 via 10.46.0.2 dev tunl0 table 47 metric 10 onlink") {
		t.Errorf("IPv4:\n%s", lines)
	}
	if lines := strings.Join(text(plan, routing.IPv6), "\n"); strings.Contains(lines, "via fd00:46::2") {
		t.Errorf("IPv6:\n%s", lines)
	}
	const why = "path to fd00:10:244:2::/64: next hop fd00:46::2 is in a network of node0: the kernel does not take it for on-link on tunl0"
	if waiting := plan.Tables[0].Waiting; !slices.Contains(waiting, why) {
		t.Errorf("waits for %q, not %q", waiting, why)
	}
	w.link("node0").Addrs = w.link("node0").Addrs[:1] // IPv4 stays
	if lines := strings.Join(text(w.make(), routing.IPv6), "\n"); !strings.Contains(lines, "fd00:10:244:2::/64 via fd00:46::2 dev tunl0 table 47 metric 10 onlink") {
		t.Errorf("IPv6, without a network:\n%s", lines)
	}
}
