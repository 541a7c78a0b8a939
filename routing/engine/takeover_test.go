package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
)

// bird's routes in table 47, as its kernel protocol leaves them, one of them at a
// metric of ours and one that nobody plans.
func birdRoutes() []routing.Route {
	r := func(dst, via, link string, metric uint32) routing.Route {
		rt := routing.Route{Table: 47, Dst: routePrefix(dst), Metric: metric, Protocol: routing.ProtocolBIRD, Link: link}
		if via != "" {
			rt.Via = routeAddr(via)
		}
		return rt
	}
	return []routing.Route{
		r("0.0.0.0/0", "10.47.0.254", "ingress0", 32),
		r("10.48.0.0/24", "", "pod0", 32),
		r("10.244.1.0/24", "", "cilium_host", 32),
		r("10.244.2.0/24", "10.48.0.2", "pod0", 32),
		r("10.244.3.0/24", "10.48.0.3", "pod0", routing.MetricPath),
		r("10.99.0.0/16", "10.47.0.254", "ingress0", 32),
		r("10.244.77.0/24", "10.48.0.9", "pod0", 32),
	}
}

var birdInPods = routing.Adoption{Protocol: routing.ProtocolBIRD, Table: 47}

func TestAdopting(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.kernel.foreign(routing.Add, birdRoutes()...)
		picture, err := r.kernel.Kernel.Dump(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, o := range engine.Adopting(routing.Inputs{
			Config: seedConfig(t), Node: "k8s-1", Inventory: r.nodes.Load(), Kernel: picture, Ledger: &routing.Ledger{},
		}, birdInPods) {
			b.WriteString(o.Route.String() + " => " + o.String() + "\n")
		}
		want := sortedLines(`
default via 10.47.0.254 dev ingress0 table 47 metric 32 => removed once default via 10.47.0.254 dev ingress0 table 47 metric 10 is in
10.48.0.0/24 dev pod0 table 47 metric 32 => removed once 10.48.0.0/24 dev pod0 table 47 metric 10 is in
10.244.1.0/24 dev cilium_host table 47 metric 32 => removed once 10.244.1.0/24 dev cilium_host table 47 metric 10 is in
10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 32 => removed once 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10 is in
10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10 => replaced in place by 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10
10.99.0.0/16 via 10.47.0.254 dev ingress0 table 47 metric 32 => removed; its packets follow default via 10.47.0.254 dev ingress0 table 47 metric 10
10.244.77.0/24 via 10.48.0.9 dev pod0 table 47 metric 32 => removed; its packets follow unreachable 10.244.0.0/16 table 47 metric 4000`)
		if got := sortedLines(b.String()); got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	})
}

// TestAdopt takes over, at every moment with a route for every destination, and
// not before the nodes are known; then what comes is foreign again.
func TestAdopt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.kernel.foreign(routing.Add, birdRoutes()...)
		if err := engine.RecordAdoption(r.stateDir, birdInPods); err != nil {
			t.Fatal(err)
		}
		r.kernel.set(func(k *fakeKernel) {
			k.applied = func(op routing.Op, p *routing.Kernel) {
				for _, dst := range []string{"0.0.0.0/0", "10.48.0.0/24", "10.244.1.0/24", "10.244.2.0/24", "10.244.3.0/24"} {
					has := false
					for _, rt := range p.Routes {
						has = has || rt.Table == 47 && rt.Dst == routePrefix(dst) && rt.Metric <= 32
					}
					if !has {
						t.Errorf("after %s the table has no way to %s", op, dst)
					}
				}
			}
		})
		bird := func() (n int) {
			for _, rt := range r.kernel.ours() {
				if birdInPods.Has(&rt) {
					n++
				}
			}
			return n
		}
		nodes := r.nodes.Load()
		r.nodes.Store(&routing.Inventory{Stale: "not read yet"})
		r.start(seedConfig(t))
		if n := bird(); n != len(birdRoutes()) {
			t.Errorf("before the nodes are known %d routes of BIRD's are left", n)
		}
		if r.condition("table/47", "Adopting") == nil {
			t.Error("no condition")
		}
		r.nodes.Store(nodes)
		r.engine.Look()
		r.wait(time.Second)
		if n := bird(); n > 0 {
			t.Errorf("%d routes of BIRD's are left:\n%s", n, r.kernel.text())
		}
		r.wantPath("k8s-2", v4, true, "taken over")
		r.wantPath("k8s-3", v4, true, "taken over")
		if first := r.speaker.taken()[0]; !first.Restarting {
			t.Error("peers are not told that the kernel kept our routes")
		}
		if l, err := engine.LoadLedger(r.stateDir); err != nil || len(l.Adopted) > 0 {
			t.Errorf("still to be adopted: %v %v", l.Adopted, err)
		}

		r.kernel.foreign(routing.Add, birdRoutes()[5])
		r.engine.LookAndDump()
		r.wait(time.Second)
		if bird() != 1 {
			t.Error("a route that came later is not left alone")
		}
	})
}
