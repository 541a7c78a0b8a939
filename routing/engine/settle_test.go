package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// withoutBGP is the example's configuration whose class paths come from the nodes.
func withoutBGP(t *testing.T) *routing.Config {
	c := seedConfig(t, "learn: bgp", "learn: nodes")
	c.BGP = nil
	return c
}

// settle puts a configuration in force and waits for what it drops, and returns how
// long that took and what it says.
func (r *rig) settle(c *routing.Config) (time.Duration, string) {
	start := time.Now()
	r.engine.Configure(c, routing.ConfigStatus{}, nil)
	said := r.engine.Settle(r.t.Context(), c)
	return time.Since(start), said
}

// TestSettle: who has put a configuration in force is told when what it drops is
// gone from the kernel and from the speaker.
func TestSettle(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.speaker.taken()
		took, said := r.settle(withoutBGP(t))
		if orders := r.speaker.taken(); said != "" || len(orders) == 0 || orders[len(orders)-1] != nil {
			t.Errorf("%q; %d orders, want the end of the speaker", said, len(orders))
		}
		if took > 200*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if said := second(r.settle(seedConfig(t, "id: 47", "id: 48"))); said != "" || r.kernel.has(func(rt routing.Route) bool { return rt.Table == 47 }) {
			t.Errorf("%q; the kernel has\n%s", said, r.kernel.text())
		}
		if said := second(r.settle(&routing.Config{})); said != "" || r.state().Health != routing.IdleState {
			t.Errorf("%q; health %s", said, r.state().Health)
		}
	})
}

func second[A, B any](_ A, b B) B { return b }

// TestSettleIsBounded: what does not go is named, in time for who waits.
func TestSettleIsBounded(t *testing.T) {
	wants := func(t *testing.T, r *rig, c *routing.Config, text string) {
		t.Helper()
		if took, said := r.settle(c); !strings.Contains(said, text) || took < 2*time.Second || took > 4*time.Second {
			t.Errorf("after %v: %q, want %q", took, said, text)
		}
	}
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.speaker.hang(true)
		wants(t, r, seedConfig(t, "advertise: {networks: [loadBalancers]}", "advertise: {networks: [services]}"),
			"the speaker (pid 7) has not carried it out yet")
		r.speaker.hang(false)

		r.kernel.set(func(k *fakeKernel) {
			k.onApply = func(ops []routing.Op) []error {
				errs := make([]error, len(ops))
				for i, op := range ops {
					if op.Verb == routing.Delete {
						errs[i] = errors.New("refused")
					}
				}
				return errs
			}
		})
		wants(t, r, seedConfig(t, "id: 47", "id: 48"), "refused")
		r.kernel.set(func(k *fakeKernel) { k.onApply, k.dumpErr = nil, errors.New("netlink is away") })
		wants(t, r, seedConfig(t), "netlink is away")
	})
}

// TestSettleGivesUp: who waits does so no longer than there is somebody to wait for.
func TestSettleGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		if took, said := r.settle(seedConfig(t)); took > 0 || said != "" {
			t.Errorf("no loop runs: %v, %q", took, said)
		}
		r.converge()
		r.kernel.set(func(k *fakeKernel) { k.dumpErr = errors.New("netlink is away") })
		first := seedConfig(t)
		r.engine.Configure(first, routing.ConfigStatus{}, nil)
		time.AfterFunc(time.Second, func() { r.engine.Configure(seedConfig(t), routing.ConfigStatus{}, nil) })
		start := time.Now()
		if said := r.engine.Settle(t.Context(), first); said != "" || time.Since(start) > 1100*time.Millisecond {
			t.Errorf("another came: after %v %q", time.Since(start), said)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		second := seedConfig(t)
		r.engine.Configure(second, routing.ConfigStatus{}, nil)
		start = time.Now()
		if said := r.engine.Settle(ctx, second); said == "" || time.Since(start) > 1100*time.Millisecond {
			t.Errorf("nobody waits any more: after %v %q", time.Since(start), said)
		}
		time.AfterFunc(time.Second, r.stop)
		start = time.Now()
		r.engine.Settle(t.Context(), second)
		if time.Since(start) > 1100*time.Millisecond {
			t.Errorf("the loop has ended: after %v", time.Since(start))
		}
	})
}
