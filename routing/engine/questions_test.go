package engine_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"netclass.dev/routing"
)

// toTheRouter is an oracle's lie that every packet goes to the router.
func toTheRouter(_ []routing.Flow, answers []routing.Answer) error {
	for i := range answers {
		answers[i] = routing.Answer{Outcome: routing.OutcomeForward, Link: "mgmt0", Via: routeAddr("10.40.0.254")}
	}
	return nil
}

// TestVerifyIsShown: who has been told PROVEN or NOT PROVEN reads the same in the
// state, with its conditions, at once.
func TestVerifyIsShown(t *testing.T) {
	verified(t, func(t *testing.T, r *rig, o *oracle) {
		shown := func(found *routing.Verification, err error) *routing.State {
			t.Helper()
			st := r.state()
			if err != nil || st.Verified == nil || st.Verified.At.Before(found.At) || st.Verified.Router.Proven != found.Router.Proven {
				t.Fatalf("found %+v (%v), shown %+v", found.Router, err, st.Verified)
			}
			return st
		}
		for _, all := range []bool{false, true} {
			o.lies(toTheRouter)
			found, err := r.engine.Verify(t.Context(), all)
			if st := shown(found, err); found.Router.Proven || r.condition("router", "Misrouted") == nil || st.Health != routing.Degraded {
				t.Errorf("router %+v, health %s, conditions %v", found.Router, st.Health, st.Conditions)
			}
			o.lies(nil)
			found, err = r.engine.Verify(t.Context(), all)
			shown(found, err)
			wantProven(t, r, "told that all is well")
		}
		r.wait(3 * time.Second)
		wantProven(t, r, "later")
		if n := strings.Count(r.log.String(), "reason=Misrouted"); n != 4 { // it comes and goes
			t.Errorf("%d lines:\n%s", n, r.log)
		}
	})
}

// TestVerifyBetweenEventAndPass: what a pass is about to mend is no fault, neither
// for who asks nor for who reads the state.
func TestVerifyBetweenEventAndPass(t *testing.T) {
	verified(t, func(t *testing.T, r *rig, o *oracle) {
		once := 0
		o.lies(func(flows []routing.Flow, answers []routing.Answer) error {
			if once++; once == 1 {
				return toTheRouter(flows, answers)
			}
			return nil
		})
		found, err := r.engine.Verify(t.Context(), true)
		if err != nil || !found.Router.Proven || once < 2 {
			t.Errorf("after %d looks: %+v %v", once, found.Router, err)
		}
		wantProven(t, r, "after a moment's doubt")
		if log := r.log.String(); strings.Contains(log, "Misrouted") {
			t.Errorf("log:\n%s", log)
		}
	})
}

// TestVerifyWithoutPass: where the loop cannot read the kernel the answer comes all
// the same, in bounded time, and a fault that is seen once is not spread.
func TestVerifyWithoutPass(t *testing.T) {
	verified(t, func(t *testing.T, r *rig, o *oracle) {
		o.lies(toTheRouter)
		dumps := 0
		r.kernel.set(func(k *fakeKernel) {
			k.onDump = func(*routing.Kernel) {
				dumps++
				k.set(func(k *fakeKernel) { k.dumpErr = errors.New("netlink is away") })
			}
		})
		start := time.Now()
		found, err := r.engine.Verify(t.Context(), true)
		if err != nil || found.Router.Proven || dumps != 1 {
			t.Errorf("%d dumps: %+v %v", dumps, found.Router, err)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
		if st := r.state(); !st.Verified.Router.Proven || r.condition("router", "Misrouted") != nil {
			t.Errorf("shown %+v, conditions %v", st.Verified.Router, st.Conditions)
		}
		r.kernel.set(func(k *fakeKernel) { k.onDump, k.dumpErr = nil, nil })
		r.wait(5 * time.Second)
		if r.condition("router", "Misrouted") == nil {
			t.Error("the engine has not looked again")
		}
	})
}

// TestVerifyOfAKernelThatHangs: nobody waits longer than he said, also not for others
// who wait.
func TestVerifyOfAKernelThatHangs(t *testing.T) {
	verified(t, func(t *testing.T, r *rig, o *oracle) {
		hung := make(chan struct{})
		o.set(func(o *oracle) { o.hang = hung })
		var asking sync.WaitGroup
		for range 5 {
			asking.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				_, err := r.engine.Verify(ctx, true)
				if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 1100*time.Millisecond {
					t.Errorf("after %v: %v", took, err)
				}
			})
		}
		asking.Wait()
		close(hung)
		if found, err := r.engine.Verify(t.Context(), true); err != nil || !found.Router.Proven {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// TestQuestionsAfterAPass: a picture that was read for people is not held against
// what a pass has changed since.
func TestQuestionsAfterAPass(t *testing.T) {
	verified(t, func(t *testing.T, r *rig, _ *oracle) {
		ask := func() string {
			list, err := r.engine.Explain(t.Context(), routing.Question{Dst: "10.244.2.9", Src: "pod"})
			if err != nil {
				t.Fatal(err)
			}
			return list[0].Model.String() + ", " + list[0].Kernel.String() + list[0].Disagreement
		}
		if got := ask(); got != "pod0 via 10.48.0.2, pod0 via 10.48.0.2" {
			t.Fatal(got)
		}
		r.down("k8s-2", routing.IPv4, routing.CauseCease)
		r.wait(20 * time.Millisecond)
		if got := ask(); got != "node0 via 10.46.0.2, node0 via 10.46.0.2" {
			t.Error(got)
		}
	})
}

// TestIdleForgetsProofs: what was found under a configuration that has gone is not
// told under the next.
func TestIdleForgetsProofs(t *testing.T) {
	verified(t, func(t *testing.T, r *rig, _ *oracle) {
		r.engine.Configure(&routing.Config{}, routing.ConfigStatus{}, nil)
		r.wait(time.Second)
		if st := r.state(); st.Verified != nil {
			t.Errorf("idle: %+v", st.Verified.Router)
		}
		r.kernel.foreign(routing.Add, routing.Route{
			Table: routing.MainID, Dst: netip.MustParsePrefix("10.244.128.0/17"), Metric: 5, Via: routeAddr("10.40.0.254"), Link: "mgmt0", Protocol: routing.ProtocolBoot,
		})
		r.engine.Configure(seedConfig(t), routing.ConfigStatus{}, nil)
		st, err := r.engine.Wait(t.Context(), r.state().Sequence)
		if err != nil || st.Config.Config.Idle() || st.Verified != nil {
			t.Errorf("the first state shows a proof: %v, %v", st.Verified != nil, err)
		}
		r.wait(3 * time.Second)
		if r.condition("router", "Misrouted") == nil {
			t.Errorf("conditions %v", r.state().Conditions)
		}
	})
}
