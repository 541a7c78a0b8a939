package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"netclass.dev/routing"
)

// meddling gives the rig an engine that is told who changes its objects.
func (r *rig) meddling() (seen func()) {
	var at atomic.Int64
	r.meddler = func() (string, time.Time) { return "systemd-network (pid 7)", time.Unix(0, at.Load()) }
	r.make()
	return func() { at.Store(time.Now().UnixNano()) }
}

// undo deletes objects of ours as another program does, and says so.
func (r *rig) undo(seen func(), ops ...routing.Op) {
	for _, op := range ops {
		op.Verb = routing.Delete
		_ = r.kernel.Foreign(op) // it may be away already
	}
	seen()
	r.wait(100 * time.Millisecond)
}

// rulesOf returns our rules as ops.
func (r *rig) rulesOf(f routing.Family) (ops []routing.Op) {
	for _, rule := range r.state().Plan.Rules {
		if rule.Family == f && rule.Table == 47 {
			ops = append(ops, routing.Op{Rule: rule})
		}
	}
	return ops
}

func (r *rig) routesOf(match func(routing.Route) bool) (ops []routing.Op) {
	for _, rt := range r.state().Plan.Routes {
		if match(rt) {
			ops = append(ops, routing.Op{Route: rt})
		}
	}
	return ops
}

// TestFightOverRules: what is deleted every second is put back at once five
// times, and then every five seconds, until it is left alone.
func TestFightOverRules(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		seen := r.meddling()
		r.converge()
		rules := r.rulesOf(v4)
		if len(rules) != 2 {
			t.Fatalf("rules %v", rules)
		}
		r.kernel.taken()
		for range 60 {
			r.undo(seen, rules...)
			r.wait(900 * time.Millisecond)
		}
		puts := len(opsOf(r.kernel.taken()))
		if puts < 2*(5+10) || puts > 2*(5+13) {
			t.Errorf("%d rules put back in a minute", puts)
		}
		c := r.condition("rule/"+rules[0].Rule.String(), "Fight")
		if c == nil || !strings.Contains(c.Message, "systemd-network (pid 7)") || !strings.Contains(c.Message, "ManageForeignRoutingPolicyRules=no") {
			t.Errorf("conditions %v", r.state().Conditions)
		}
		if r.state().Health != routing.Degraded {
			t.Errorf("health %s", r.state().Health)
		}
		r.wait(6 * time.Second)
		if !r.state().Pass.Synced {
			t.Errorf("not put back: %v", r.state().Pending)
		}
		r.wait(time.Minute)
		if s := r.state(); s.Health != routing.Ready || len(s.Conditions) > 0 {
			t.Errorf("a minute later: health %s, conditions %v", s.Health, s.Conditions)
		}
	})
}

// TestFightOverFence: fence and guard are never waited for, and while others
// delete the fence no default stands behind it.
func TestFightOverFence(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		seen := r.meddling()
		r.converge()
		barriers := r.routesOf(func(rt routing.Route) bool {
			return rt.Family() == v4 && (rt.Metric == routing.MetricFence || rt.Metric == routing.MetricGuard)
		})
		hasDefault := func(f routing.Family) bool {
			return r.kernel.has(func(rt routing.Route) bool { return rt.Table == 47 && rt.Dst == f.Default() })
		}
		for i := range 20 {
			r.undo(seen, barriers...)
			for _, op := range barriers {
				if !r.kernel.has(func(rt routing.Route) bool { return rt == op.Route }) {
					t.Fatalf("round %d: %s is not put back", i, op.Route)
				}
			}
			if i >= 6 && hasDefault(v4) || !hasDefault(v6) {
				t.Fatalf("round %d: defaults %v %v", i, hasDefault(v4), hasDefault(v6))
			}
			r.wait(900 * time.Millisecond)
		}
		r.wait(time.Minute)
		if !hasDefault(v4) {
			t.Error("the default has not come back")
		}
	})
}

// TestFightOverPaths: a class path waits as long as the fallback carries on;
// what the fence would stop does not wait.
func TestFightOverPaths(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		seen := r.meddling()
		r.converge()
		path := r.routesOf(func(rt routing.Route) bool { return rt.Via == hopOf("k8s-2", v4) && rt.Metric == routing.MetricPath })
		both := r.routesOf(func(rt routing.Route) bool { return rt.Dst == routePrefix("10.244.2.0/24") })
		own := r.routesOf(func(rt routing.Route) bool { return rt.Link == "cilium_host" })
		if len(path) != 1 || len(both) != 2 || len(own) != 2 {
			t.Fatal(path, both, own)
		}
		for range 7 {
			r.undo(seen, slices.Concat(both, own)...)
		}
		r.undo(seen, path...)
		r.wantPath("k8s-2", v4, false, "while it waits")
		r.undo(seen, slices.Concat(both, own)...)
		for _, op := range slices.Concat(both[1:], own) {
			if op.Route.Metric != routing.MetricPath || op.Route.Link == "cilium_host" {
				if !r.kernel.has(func(rt routing.Route) bool { return rt == op.Route }) {
					t.Errorf("%s is not put back", op.Route)
				}
			}
		}
		r.wait(6 * time.Second)
		r.wantPath("k8s-2", v4, true, "after its time")
	})
}

// TestFlapIsNoFight: what the kernel drops by itself is put back every time.
func TestFlapIsNoFight(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.meddling()
		r.converge()
		for range 20 {
			r.kernel.SetUp("pod0", false)
			r.kernel.SetUp("pod0", true)
			r.kernel.addAddrs("pod0")
			r.wait(200 * time.Millisecond)
			if !r.kernel.has(func(rt routing.Route) bool { return rt.Table == 47 && rt.Link == "pod0" }) || r.condition("route", "Fight") != nil {
				t.Fatalf("conditions %v", r.state().Conditions)
			}
		}
	})
}

// TestUnfencedDefaultGoes: a default does not stand alone while its fence cannot
// be put back.
func TestUnfencedDefaultGoes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		refuse := func(ops []routing.Op) []error {
			errs := make([]error, len(ops))
			for i, op := range ops {
				if op.Stage == routing.StageFence && op.Family() == v6 {
					errs[i] = errors.New("no such device")
				}
			}
			return errs
		}
		r.kernel.set(func(k *fakeKernel) { k.onApply = refuse })
		hasDefault := func(f routing.Family) bool {
			return r.kernel.has(func(rt routing.Route) bool { return rt.Table == 47 && rt.Dst == f.Default() })
		}
		r.kernel.foreign(routing.Delete, routing.Route{
			Table: 47, Dst: routePrefix("fd00:10:244::/48"), Metric: routing.MetricFence, Type: routing.Unreachable, Protocol: routing.ProtocolNetclass,
		})
		r.wait(50 * time.Millisecond)
		if hasDefault(v6) || !hasDefault(v4) {
			t.Errorf("defaults: IPv4 %v, IPv6 %v", hasDefault(v4), hasDefault(v6))
		}
		r.wait(time.Second)
		if hasDefault(v6) {
			t.Error("the default came back without its fence")
		}
		r.kernel.set(func(k *fakeKernel) { k.onApply = nil })
		r.wait(11 * time.Second)
		if !hasDefault(v6) || r.state().Health != routing.Ready {
			t.Errorf("healed: default %v, conditions %v", hasDefault(v6), r.state().Conditions)
		}
	})
}

// TestDeaf: while the kernel tells of nothing, it is read every other second,
// and that is said.
func TestDeaf(t *testing.T) {
	for text, err := range map[string]error{"too many open files": errors.New("too many open files"), "the watch has ended": nil} {
		deaf(t, text, err)
	}
}

// deaf is a kernel whose watch ends with an error, or without.
func deaf(t *testing.T, text string, err error) {
	bubble(t, func(t *testing.T, r *rig) {
		r.kernel.set(func(k *fakeKernel) {
			k.watching = func(context.Context) error { return err }
		})
		r.start(seedConfig(t))
		r.establish("k8s-2", "k8s-3")
		r.wait(time.Second)
		if c := r.condition("kernel", "NotWatched"); c == nil || !strings.Contains(c.Message, text) {
			t.Fatalf("conditions %v", r.state().Conditions)
		}
		dumps, _ := r.kernel.count()
		r.kernel.taken()
		r.wait(time.Minute)
		if now, _ := r.kernel.count(); now-dumps < 25 || now-dumps > 32 {
			t.Errorf("%d dumps in a minute", now-dumps)
		}
		if n := strings.Count(r.log.String(), "NotWatched"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		r.kernel.set(func(k *fakeKernel) { k.watching = nil })
		r.wait(3 * time.Second)
		if r.condition("kernel", "") != nil || r.state().Health != routing.Ready {
			t.Errorf("healed: %v", r.state().Conditions)
		}
		dumps, _ = r.kernel.count()
		r.wait(time.Minute)
		if now, _ := r.kernel.count(); now-dumps > 3 {
			t.Errorf("%d dumps in a minute of quiet", now-dumps)
		}
	})
}
