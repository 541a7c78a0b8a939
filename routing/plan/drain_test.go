package plan_test

import (
	"slices"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
	"netclass.dev/routing/plan"
)

// What each step of a drain changes, in one family and for the peers.
func TestDrainSteps(t *testing.T) {
	const mesh4 = "10.244.1.0/24 to mesh via 10.48.0.1 [64512:148:0]"
	const toRouter4 = "10.47.64.0/24 to udm via 10.47.0.1"
	for _, tc := range []struct {
		step      routing.DrainStep
		want      string // of the routes and rules
		announced []string
	}{
		{routing.DrainClaim, "", []string{mesh4, toRouter4}},
		{routing.DrainShutdown, "", []string{mesh4, toRouter4 + " [65535:0]"}},
		{routing.DrainUpstream, "", []string{mesh4}},
		{routing.DrainMesh, "", nil},
		{routing.DrainDefault, "- default via 10.47.0.254 dev ingress0 table 47 metric 10", nil},
		{routing.DrainPaths, `
			- default via 10.47.0.254 dev ingress0 table 47 metric 10
			- 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
			- 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10`, nil},
	} {
		t.Run(tc.step.String(), func(t *testing.T) {
			w := seed()
			healthy := w.settle()
			w.Draining.Step = tc.step
			p := w.make()
			wantChanges(t, "IPv4", changes(healthy, p, routing.IPv4), tc.want)
			var got []string
			for _, o := range p.Announce {
				if routing.FamilyOf(o.Prefix.Addr()) != routing.IPv4 {
					continue
				}
				to := o.To
				if to == "" {
					to = "mesh"
				}
				text := o.Prefix.String() + " to " + to + " via " + o.NextHop.String()
				if len(o.Communities) > 0 {
					text += " [" + strings.Join(o.Communities, " ") + "]"
				}
				got = append(got, text)
			}
			if !slices.Equal(got, tc.announced) {
				t.Errorf("announced %q, want %q", got, tc.announced)
			}
			if spoken(p) != spoken(healthy) {
				t.Errorf("sessions end:\n%s", spoken(p))
			}
			back := "Draining: being put back after a drain of this node, still: " + tc.step.String()
			for phase, want := range map[routing.DrainPhase]string{
				routing.DrainGoing: "Draining: being taken out by a drain of this node, so far: " + tc.step.String(),
				routing.DrainDone:  "Drained: taken out by a drain of this node", routing.DrainUndoing: back, routing.DrainBack: back,
			} {
				if tc.step == routing.DrainClaim {
					want = "Ready: "
				}
				w.Draining.Phase = phase
				now := w.make()
				for _, name := range []string{"pod-pod", "world-pod"} {
					if c := class(t, now, name); string(c.Health)+": "+c.Reason != want {
						t.Errorf("%s: %s is %s: %s", phase, name, c.Health, c.Reason)
					}
				}
				table := routing.Ready
				if tc.step >= routing.DrainDefault {
					table = class(t, now, "world-pod").Health
				}
				if st := now.Tables[0]; st.Health != table {
					t.Errorf("%s: the table is %s: %s", phase, st.Health, st.Reason)
				}
			}
			for _, name := range []string{"node-node", "world-node"} {
				if c := class(t, p, name); c.Health != routing.Ready {
					t.Errorf("%s is %s: %s", name, c.Health, c.Reason)
				}
			}
			if s := said(p); s != "" {
				t.Errorf("something is said:\n%s", s)
			}
		})
	}
}

// The attributes of a graceful shutdown come to what is configured.
func TestGracefulShutdown(t *testing.T) {
	w := seed()
	w.Draining.Step = routing.DrainShutdown
	a := w.advertise()
	a.Communities, a.LocalPreference = []string{"64512:1"}, 200
	for _, ibgp := range []bool{false, true} {
		preference := uint32(200)
		if ibgp {
			w.Config.BGP.Upstreams[0].PeerASN, preference = w.Config.BGP.ASN, 1
		}
		for _, o := range w.make().Announce {
			if o.To == "udm" && (!slices.Equal(o.Communities, []string{"64512:1", "65535:0"}) || o.LocalPreference != preference) {
				t.Errorf("iBGP %t: %v, local preference %d", ibgp, o.Communities, o.LocalPreference)
			}
		}
	}
	if !slices.Equal(a.Communities, []string{"64512:1"}) {
		t.Errorf("the configuration is changed: %v", a.Communities)
	}
	a.Communities = []string{"65535:0"}
	for _, o := range w.make().Announce {
		if o.To == "udm" && len(o.Communities) != 1 {
			t.Errorf("twice: %v", o.Communities)
		}
	}
}

// A drain of some classes leaves the links of the others alone.
func TestDrainOfClasses(t *testing.T) {
	w := seed()
	healthy := w.settle()
	w.Draining = routing.Draining{Step: routing.DrainPaths, Phase: routing.DrainDone, Classes: []string{"world-pod"}}
	p := w.make()
	wantChanges(t, "world-pod", changes(healthy, p, routing.IPv4), "- default via 10.47.0.254 dev ingress0 table 47 metric 10")
	if !strings.Contains(announced(p), "10.244.1.0/24 to mesh") || strings.Contains(announced(p), "udm") {
		t.Errorf("announced:\n%s", announced(p))
	}
	if class(t, p, "pod-pod").Health != routing.Ready || class(t, p, "world-pod").Health != routing.Drained {
		t.Errorf("%+v", p.Classes)
	}
	w.Draining.Classes = []string{"pod-pod"}
	p = w.make()
	wantChanges(t, "pod-pod", changes(healthy, p, routing.IPv4), `
		- 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
		- 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10`)
	if strings.Contains(announced(p), "10.244.1.0/24 to mesh") || !strings.Contains(announced(p), "udm") {
		t.Errorf("announced:\n%s", announced(p))
	}
}

func TestDrainKeepsEgress(t *testing.T) {
	w := seed()
	w.Config.Tables[0].Routes.Default.OnLinkDown = routing.LinkDownHold
	healthy := w.settle()
	w.Draining = routing.Draining{Step: routing.DrainDefault, KeepEgress: true}
	if c := changes(healthy, w.make(), routing.IPv4); c != "" {
		t.Errorf("changes:\n%s", c)
	}
	// Without, what holds the default's place must not cut off what it led to: it
	// goes first.
	w.Draining.KeepEgress = false
	wantText(t, "ops", opsText(plan.Diff(w.make(), w.Kernel)), `
		drop default: delete route unreachable default table 47 metric 5000
		drop default: delete route default via 10.47.0.254 dev ingress0 table 47 metric 10
		drop default: delete route unreachable default table 47 metric 5000
		drop default: delete route default via fd00:47::fe dev ingress0 table 47 metric 10`)
	w.settle()
	w.Draining = routing.Draining{}
	wantText(t, "back", opsText(plan.Diff(w.make(), w.Kernel)), `
		default: add route default via 10.47.0.254 dev ingress0 table 47 metric 10
		default: add route unreachable default table 47 metric 5000
		default: add route default via fd00:47::fe dev ingress0 table 47 metric 10
		default: add route unreachable default table 47 metric 5000`)
}

// Where nothing stands in for a class path it stays, and is said to.
func TestDrainKeepsPathsWithoutFallback(t *testing.T) {
	for name, bend := range map[string]func(w *world){
		"no fallback":  func(w *world) { w.Config.Tables[0].Routes.Peers.Fallback = routing.Fallback{} },
		"node0 down":   func(w *world) { w.link("node0").Up = false },
		"no addresses": func(w *world) { w.node("k8s-2").InternalIPs, w.node("k8s-3").InternalIPs = nil, nil },
		"of the nodes": func(w *world) {
			w.Config.Tables[0].Routes.Peers.Learn, w.Config.Tables[0].Routes.Peers.Fallback = routing.LearnNodes, routing.Fallback{}
		},
	} {
		w := seed()
		bend(w)
		healthy := w.settle()
		w.Draining.Step = routing.DrainPaths
		p := w.make()
		wantChanges(t, name, changes(healthy, p, routing.IPv4), "- default via 10.47.0.254 dev ingress0 table 47 metric 10")
		wantSaid(t, p, "table/pods DrainKeepsPaths: class paths over pod0 stay in spite of a drain, as nothing else leads to these pods: 10.244.2.0/24, fd00:10:244:2::/64, 10.244.3.0/24 and 1 more")
	}
	// One peer alone has none.
	w := seed()
	w.node("k8s-2").InternalIPs = nil
	healthy := w.settle()
	w.Draining.Step = routing.DrainPaths
	wantChanges(t, "one peer", changes(healthy, w.make(), routing.IPv6), `
		- default via fd00:47::fe dev ingress0 table 47 metric 10
		- fd00:10:244:3::/64 via fd00:48::3 dev pod0 table 47 metric 10`)
}

// The marker says by BGP that a node is drained, and is never taken for a route.
func TestMarker(t *testing.T) {
	w := seed()
	w.Draining = routing.Draining{Step: routing.DrainPaths, Marker: true}
	wantText(t, "announced", announced(w.make()), `
		10.48.0.1/32 to mesh via 10.48.0.1
		100::a30:1/128 to mesh via fd00:48::1`)
	for phase, want := range map[routing.DrainPhase][]string{
		routing.DrainDone: {"65535:65282"}, routing.DrainGoing: {"65535:65282", "64512:148:2"},
		routing.DrainUndoing: {"65535:65282", "64512:148:3"}, routing.DrainBack: {"65535:65282", "64512:148:3"},
	} {
		w.Draining.Phase = phase
		for _, o := range w.make().Announce {
			if !slices.Equal(o.Communities, want) {
				t.Errorf("%s: %s carries %v", phase, o.Prefix, o.Communities)
			}
		}
	}

	w = seed()
	healthy := w.make()
	id := addr("10.48.0.3")
	for _, f := range routing.Families {
		pg := w.peering("k8s-3", f)
		pg.RouterID = id
		pg.Paths = append(pg.Paths, routing.Path{Prefix: routing.DrainMarker(id, f), NextHop: pg.Paths[0].NextHop, NoAdvertise: true})
	}
	p := w.make()
	if c := changes(healthy, p, routing.IPv4) + changes(healthy, p, routing.IPv6); c != "" {
		t.Errorf("the marker is installed:\n%s", c)
	}
	if st := peerStatus(t, p, "k8s-3", routing.IPv4); len(st.Accepted) != 1 || st.RefusedCount != 0 {
		t.Errorf("accepted %v, refused %v", st.Accepted, st.Refused)
	}
	if !slices.Equal(p.Drained, []string{"k8s-3"}) {
		t.Errorf("drained: %v", p.Drained)
	}
	for name, want := range map[string]string{"world-pod": "drained elsewhere: k8s-3", "node-node": ""} {
		if c := class(t, p, name); c.Health != routing.Ready || c.Reason != want {
			t.Errorf("%s is %s (%s), want it ready and %q", name, c.Health, c.Reason, want)
		}
	}
	// Where class paths come from the nodes alone, it is all that says whose are left out.
	w.Config.Tables[0].Routes.Peers.Learn = routing.LearnNodes
	wantChanges(t, "learn: nodes", changes(healthy, w.make(), routing.IPv4), `
		- 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10`)
	// Another's identifier, or one that goes on to others, is no marker.
	for _, path := range []routing.Path{
		{Prefix: routing.DrainMarker(addr("10.48.0.2"), routing.IPv4), NoAdvertise: true},
		{Prefix: routing.DrainMarker(id, routing.IPv4)},
		{Prefix: prefixes("10.48.0.0/24")[0], NoAdvertise: true},
	} {
		w = seed()
		pg := w.peering("k8s-3", routing.IPv4)
		pg.RouterID = id
		path.NextHop = pg.Paths[0].NextHop
		pg.Paths = append(pg.Paths, path)
		p = w.make()
		if st := peerStatus(t, p, "k8s-3", routing.IPv4); len(p.Drained) != 0 || st.RefusedCount != 1 {
			t.Errorf("%+v: drained %v, refused %v", path, p.Drained, st.Refused)
		}
	}
}

// A node that was drained by its own word still is while nobody can ask it.
func TestDrainedAreRemembered(t *testing.T) {
	up := func(pg *routing.Peering) { pg.RouterID = addr("10.48.0.3") }
	for _, tc := range []struct {
		name string
		bend func(w *world)
		want bool
	}{
		{"sessions up, without the marker", func(w *world) { up(w.peering("k8s-3", routing.IPv4)) }, false},
		{"not all is said yet", func(w *world) { pg := w.peering("k8s-3", routing.IPv4); up(pg); pg.Synced = false }, true},
		{"sessions away", func(w *world) {}, true},
		{"held", func(w *world) { w.peering("k8s-3", routing.IPv4).Held = true }, true},
		{"up, but silent", func(w *world) { pg := w.peering("k8s-3", routing.IPv4); up(pg); pg.Why = "it does not answer on pod0" }, true},
		{"no longer listed", func(w *world) { w.removeNode("k8s-3") }, false},
		{"the nodes not read", func(w *world) { w.Inventory = &routing.Inventory{} }, true},
		{"a lock that says nobody is", func(w *world) { w.Inventory.Drain = &routing.DrainLease{} }, false},
		{"a lock that cannot be read", func(w *world) { w.Inventory.Drain = &routing.DrainLease{Unusable: "forbidden"} }, true},
	} {
		w := seed()
		w.Ledger.Drained = []string{"k8s-3"}
		tc.bend(w)
		if got := slices.Contains(w.make().Drained, "k8s-3"); got != tc.want {
			t.Errorf("%s: drained %t, want %t", tc.name, got, tc.want)
		}
	}
}

// A class that is no longer configured, or has another name now, gives no link back.
func TestDrainOfAClassThatIsGone(t *testing.T) {
	w := seed()
	healthy := w.settle()
	w.Draining = routing.Draining{Step: routing.DrainPaths, Classes: []string{"renamed"}}
	p := w.make()
	wantChanges(t, "IPv4", changes(healthy, p, routing.IPv4), `
		- default via 10.47.0.254 dev ingress0 table 47 metric 10
		- 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
		- 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10`)
	wantSaid(t, p, "drain ClassGone: the configuration no longer has what this node is drained of (renamed)")
}

// leased is the example cluster with a lock that says how far k8s-3 is drained.
func leased(step routing.DrainStep, classes ...string) *world {
	w := seed()
	w.node("k8s-3").UID = "u3"
	w.Inventory.Drain = &routing.DrainLease{Holder: "u3/d1", Status: &routing.DrainStatus{
		Request:  routing.DrainRequest{Node: "k8s-3", Classes: classes},
		Progress: routing.DrainProgress{Phase: routing.DrainGoing, Step: step},
	}}
	return w
}

func bent(w *world, bend func(w *world)) *world {
	bend(w)
	return w
}

func TestLeaseSaysWhoIsDrained(t *testing.T) {
	for _, tc := range []struct {
		name string
		bend func(w *world)
		want bool
	}{
		{"going", func(w *world) {}, true},
		{"done", func(w *world) { w.Inventory.Drain.Status.Progress.Phase = routing.DrainDone }, true},
		{"back", func(w *world) { w.Inventory.Drain.Status.Progress.Phase = routing.DrainBack }, true},
		{"waiting", func(w *world) { w.Inventory.Drain.Status.Progress.Phase = routing.DrainWaiting }, false},
		{"ended", func(w *world) { w.Inventory.Drain.Status.Progress.Phase = routing.DrainEnded }, false},
		{"another node of that name", func(w *world) { w.node("k8s-3").UID = "u4" }, false},
		{"the lock is free", func(w *world) { w.Inventory.Drain.Holder = "" }, false},
		{"no longer listed", func(w *world) { w.removeNode("k8s-3") }, false},
		{"this node", func(w *world) { w.Node = "k8s-3" }, false},
		{"an answer to another node", func(w *world) { w.Inventory.Drain.Status.Request.Node = "k8s-2" }, true},
		{"no status", func(w *world) { w.Inventory.Drain.Status = nil }, true},
		{"the API is away", func(w *world) { w.Inventory.Drain.Version, w.Inventory.Drain.Unusable = "1", "away" }, true},
		{"nothing has been read since the start", func(w *world) {
			w.Inventory.Drain, w.Ledger.Drained = nil, []string{"k8s-3"}
		}, true},
		{"the lock has been read since", func(w *world) {
			w.Inventory.Drain.Holder, w.Ledger.Drained = "", []string{"k8s-3"}
		}, false},
	} {
		w := leased(routing.DrainClaim)
		w.Config.Cluster.Kubernetes = &routing.Kubernetes{}
		tc.bend(w)
		if got := slices.Contains(w.make().Drained, "k8s-3"); got != tc.want {
			t.Errorf("%s: drained %t, want %t", tc.name, got, tc.want)
		}
	}
}

// Where class paths come from the nodes alone, the lock says whose are left out.
func TestLearnNodesHeedsTheLease(t *testing.T) {
	const out = `
		- 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10`
	for _, tc := range []struct {
		name string
		w    *world
		want string
	}{
		{"before its turn", leased(routing.DrainUpstream), ""},
		{"all classes", leased(routing.DrainMesh), out},
		{"that class", leased(routing.DrainPaths, "pod-pod"), out},
		{"another class", leased(routing.DrainPaths, "world-pod"), ""},
		{"an answer to another node", bent(leased(routing.DrainPaths), func(w *world) { w.Inventory.Drain.Status.Request.Node = "k8s-2" }), out},
		{"garbage", bent(leased(routing.DrainPaths), func(w *world) { w.Inventory.Drain.Status = nil }), out},
		{"the API is away", bent(leased(routing.DrainPaths), func(w *world) { w.Inventory.Drain.Version, w.Inventory.Drain.Unusable = "1", "away" }), out},
		{"nothing has been read since the start", bent(leased(routing.DrainPaths), func(w *world) {
			w.Inventory.Drain, w.Ledger.Drained = nil, []string{"k8s-3"}
		}), out},
	} {
		tc.w.Config.Tables[0].Routes.Peers.Learn = routing.LearnNodes
		tc.w.Config.Cluster.Kubernetes = &routing.Kubernetes{}
		lease, drained := tc.w.Inventory.Drain, tc.w.Ledger.Drained
		tc.w.Inventory.Drain, tc.w.Ledger.Drained = nil, nil
		healthy := tc.w.settle()
		tc.w.Inventory.Drain, tc.w.Ledger.Drained = lease, drained
		p := tc.w.make()
		wantChanges(t, tc.name, changes(healthy, p, routing.IPv4), tc.want)
		if tc.want != "" {
			word := "being drained"
			if drained != nil { // it did not say, as of older ones
				word = "drained"
			}
			wantSaid(t, p, "class/pod-pod OnFallback: 2 of 4 pod CIDRs of peers are not reached over pod0: k8s-3 (it is "+word+")")
		}
	}
	// By BGP the node says it itself.
	w := leased(routing.DrainMesh)
	w.peering("k8s-3", routing.IPv4).Paths = nil
	wantSaid(t, w.make(), "k8s-3 (it is being drained)")
}

// Through a drain and back, after every single op, pods reach pods by a link of the
// cluster, and the world.
func TestPodsReachEachOtherThroughADrain(t *testing.T) {
	for name, bend := range map[string]func(w *world){
		"as configured": func(w *world) {},
		"hold":          func(w *world) { w.Config.Tables[0].Routes.Default.OnLinkDown = routing.LinkDownHold },
		"guard as rules": func(w *world) {
			w.Config.Guard.AsRules = true
		},
		"of the nodes":     func(w *world) { w.Config.Tables[0].Routes.Peers.Learn = routing.LearnNodes },
		"fallback: main":   func(w *world) { w.Config.Tables[0].Routes.Peers.Fallback = routing.Fallback{Main: true} },
		"no fallback":      func(w *world) { w.Config.Tables[0].Routes.Peers.Fallback = routing.Fallback{} },
		"of one class":     func(w *world) { w.Draining.Classes = []string{"pod-pod"} },
		"egress is kept":   func(w *world) { w.Draining.KeepEgress = true },
		"with imports too": func(w *world) { w.hears("udm", "10.47.0.254", "172.16.0.0/12") },
	} {
		t.Run(name, func(t *testing.T) {
			w := importing()
			bend(w)
			w.settle()
			steps := []routing.DrainStep{1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0, 6, 0}
			for _, step := range steps {
				w.Draining.Step = step
				p := w.make()
				for _, op := range plan.Diff(p, w.Kernel) {
					w.Kernel = applied(w.Kernel, op)
					for b := range broken(w, p, w.Kernel) {
						t.Errorf("%s\nafter %s", b, op)
					}
					if why := cutOff(w); why != "" {
						t.Errorf("to %q, after %s: %s", step, op, why)
					}
				}
				w.remember(p)
			}
			if ops := plan.Diff(w.make(), w.Kernel); len(ops) != 0 {
				t.Errorf("left:\n%s", opsText(ops))
			}
		})
	}
}

// cutOff says which packet of a pod does not arrive.
func cutOff(w *world) string {
	index := fib.New(w.Kernel)
	for _, f := range routing.Families {
		pod := sources(f)[0]
		for _, dst := range []string{"10.244.2.5", "10.244.3.5", "198.51.100.1", "fd00:10:244:2::5", "fd00:10:244:3::5", "2001:db9::1"} {
			if pod.Dst = addr(dst); routing.FamilyOf(pod.Dst) != f {
				continue
			}
			r := index.Lookup(pod, fib.Stack)
			world := dst == "198.51.100.1" || dst == "2001:db9::1"
			if r.Action != fib.Forward || !world && r.Route.Link != "pod0" && r.Route.Link != "node0" || world && r.Route.Dst.Bits() != 0 {
				return dst + " by " + r.Route.String()
			}
		}
	}
	return ""
}
