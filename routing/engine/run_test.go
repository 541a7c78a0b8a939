package engine_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"netclass.dev/routing"
)

func TestIdleCost(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.wait(35 * time.Second) // the last hold and resync
		passes := r.state().Pass.Passes
		r.wait(5 * time.Minute)
		if got := r.state().Pass.Passes - passes; got != 10 {
			t.Errorf("5 idle minutes made %d passes, want one each 30 s", got)
		}
		r.kernel.taken()
	})
}

// TestPassesAreWatched: who watches the loop hears of every pass, also of those
// that fail, and has the next one when it wants it.
func TestPassesAreWatched(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var heard atomic.Uint64
		r.passed = func() time.Duration { heard.Add(1); return 7 * time.Second }
		r.make()
		r.converge()
		r.wait(35 * time.Second)
		if n := heard.Load(); n == 0 || n != r.state().Pass.Passes {
			t.Errorf("%d passes, %d heard of", r.state().Pass.Passes, n)
		}
		before := heard.Load()
		r.wait(70 * time.Second)
		if got := heard.Load() - before; got < 10 || got > 13 {
			t.Errorf("%d passes in 70 s, though one was wanted every 7 s", got)
		}
		r.kernel.set(func(k *fakeKernel) { k.dumpErr = errors.New("not now") })
		r.engine.LookAndDump()
		before = heard.Load()
		r.wait(time.Second)
		if heard.Load() == before {
			t.Error("passes that fail are not heard of")
		}
	})
}

// TestRunEnds: promptly, between two stages, and with nothing left behind (the
// bubble fails when a goroutine is).
func TestRunEnds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.kernel.die(hopOf("k8s-2", routing.IPv4), true)
		r.down("k8s-2", routing.IPv4, routing.CauseConnection)
		r.wait(time.Second) // a probe is under way
		start := time.Now()
		r.end()
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("Run ended after %s", took)
		}
	})
	bubble(t, func(t *testing.T, r *rig) {
		stages := 0
		r.kernel.onApply = func([]routing.Op) []error {
			if stages++; stages == 2 {
				r.stop()
			}
			return nil
		}
		r.start(seedConfig(t))
		<-r.done
		if stages != 2 {
			t.Errorf("%d stages, though the end came in the second", stages)
		}
		if strings.Contains(r.log.String(), "canceled") {
			t.Errorf("log:\n%s", r.log)
		}
	})
}

// TestPublishedStatesStay keeps every published state and compares it later
// with what it said.
func TestPublishedStatesStay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		type kept struct {
			s            *routing.State
			routes, plan []routing.Route
			rules        []routing.Rule
			links        map[string]int
			peers        []string
		}
		var all []kept
		done := make(chan struct{})
		go func() {
			defer close(done)
			var seq uint64
			for {
				s, err := r.engine.Wait(t.Context(), seq)
				if err != nil {
					return
				}
				if s.Sequence <= seq {
					t.Errorf("sequence %d after %d", s.Sequence, seq)
				}
				seq = s.Sequence
				k := kept{s: s, routes: slices.Clone(s.Kernel.Routes), plan: slices.Clone(s.Plan.Routes), rules: slices.Clone(s.Kernel.Rules), links: map[string]int{}}
				for l, ps := range s.Plan.Links {
					k.links[l] = len(ps)
				}
				for _, p := range s.Peers {
					k.peers = append(k.peers, p.Session.State.String())
				}
				all = append(all, k)
				if s.Config.Error == "end" {
					return
				}
			}
		}()
		r.converge()
		r.kernel.SetUp("pod0", false)
		r.wait(100 * time.Millisecond)
		r.kernel.SetUp("pod0", true)
		r.kernel.addAddrs("pod0")
		r.wait(100 * time.Millisecond)
		r.setNodes(seedNodes(t)[:2]...)
		r.engine.Look()
		r.wait(100 * time.Millisecond)
		r.down("k8s-2", routing.IPv6, routing.CauseCease)
		r.wait(100 * time.Millisecond)
		r.engine.Reject("end")
		<-done
		if len(all) < 6 {
			t.Errorf("only %d states", len(all))
		}
		for _, k := range all {
			links := map[string]int{}
			for l, ps := range k.s.Plan.Links {
				links[l] = len(ps)
			}
			var peers []string
			for _, p := range k.s.Peers {
				peers = append(peers, p.Session.State.String())
			}
			if !slices.Equal(k.routes, k.s.Kernel.Routes) || !slices.Equal(k.plan, k.s.Plan.Routes) || !slices.Equal(k.rules, k.s.Kernel.Rules) ||
				!maps.Equal(links, k.links) || !slices.Equal(peers, k.peers) {
				t.Errorf("state %d changed after it was published", k.s.Sequence)
			}
		}
	})
}
