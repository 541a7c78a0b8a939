package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
	"netclass.dev/routing/fib"
)

// oracle answers as the fake kernel's rules and routes give, unless a test lies.
type oracle struct {
	kernel *fakeKernel
	mu     sync.Mutex
	lie    func([]routing.Flow, []routing.Answer) error
	hang   chan struct{} // until it is closed nothing is answered
	asked  int           // flows
}

func (o *oracle) Lookup(ctx context.Context, flows []routing.Flow) ([]routing.Answer, error) {
	o.mu.Lock()
	hang := o.hang
	o.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	f := fib.New(o.kernel.Picture())
	answers := make([]routing.Answer, len(flows))
	for i, flow := range flows {
		r := f.Lookup(fib.Flow(flow), fib.Stack)
		answers[i] = routing.Answer{Outcome: routing.Outcome(r.Action), Table: r.Route.Table}
		if r.Action == fib.Forward {
			answers[i].Link, answers[i].Via = r.Route.Link, r.Route.Via
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked += len(flows)
	if o.lie != nil {
		return answers, o.lie(flows, answers)
	}
	return answers, nil
}

// lies makes the oracle lie, or tell the truth again.
func (o *oracle) lies(f func([]routing.Flow, []routing.Answer) error) {
	o.set(func(o *oracle) { o.lie = f })
}

func (o *oracle) set(f func(*oracle)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f(o)
}

// verified runs a test on a converged rig with an oracle and a CNI.
func verified(t *testing.T, f func(t *testing.T, r *rig, o *oracle)) {
	t.Helper()
	bubble(t, func(t *testing.T, r *rig) {
		o := &oracle{kernel: r.kernel}
		r.engine = engine.New(engine.Options{
			Kernel: r.kernel, Speaker: r.speaker, Oracle: o, Inventory: r.nodes.Load,
			Node:     func(*routing.Config) string { return "k8s-1" },
			StateDir: r.stateDir, Version: "test", Log: slog.New(slog.NewTextHandler(r.log, nil)),
		})
		r.speaker.notify = r.engine.Look
		for _, c := range []struct{ dst, via, link string }{
			{"0.0.0.0/0", "10.40.0.254", "mgmt0"}, {"::/0", "fd00:40::fe", "mgmt0"},
			{"10.244.2.0/24", "10.46.0.2", "node0"}, {"fd00:10:244:2::/64", "fd00:46::2", "node0"},
			{"10.244.3.0/24", "10.46.0.3", "node0"}, {"fd00:10:244:3::/64", "fd00:46::3", "node0"},
		} {
			r.kernel.foreign(routing.Add, routing.Route{
				Table: routing.MainID, Dst: netip.MustParsePrefix(c.dst), Metric: 1024, Via: routeAddr(c.via), Link: c.link, Protocol: routing.ProtocolKernel,
			})
		}
		r.converge()
		r.wait(2 * time.Second)
		f(t, r, o)
	})
}

// podsToMain is somebody's rule that goes before ours.
var podsToMain = routing.Op{Rule: routing.Rule{
	Family: routing.IPv4, Priority: 500, From: netip.MustParsePrefix("10.244.0.0/16"), Table: routing.MainID,
	Protocol: routing.ProtocolBoot, SuppressPrefixLen: routing.NoSuppress,
}}

func wantProven(t *testing.T, r *rig, when string) {
	t.Helper()
	st := r.state()
	if st.Verified == nil || !st.Verified.Router.Proven {
		t.Fatalf("%s: %+v", when, st.Verified)
	}
	for _, p := range st.Verified.Promises {
		if p.State != routing.PromiseHeld {
			t.Errorf("%s: %+v", when, p)
		}
	}
	if st.Health != routing.Ready || len(st.Conditions) > 0 {
		t.Errorf("%s: health %s, conditions %v", when, st.Health, st.Conditions)
	}
}

func TestViolation(t *testing.T) {
	verified(t, func(t *testing.T, r *rig, _ *oracle) {
		wantProven(t, r, "converged")
		before := r.state()

		add := podsToMain
		if err := r.kernel.Foreign(add); err != nil {
			t.Fatal(err)
		}
		r.wait(2 * time.Second)
		st := r.state()
		c := r.condition("class/pod-pod", "PromiseViolated")
		if c == nil || !strings.Contains(c.Message, "leaves by node0 via 10.46.0.2, not pod0 (rule 500: from 10.244.0.0/16 lookup main)") {
			t.Fatalf("conditions %v", st.Conditions)
		}
		if r.condition("router", "Misrouted") == nil || st.Verified.Router.Proven {
			t.Errorf("services go to the router, and nobody says so: %+v", st.Verified.Router)
		}
		if st.Plan.Classes[1].Health != routing.Degraded || st.Health != routing.Degraded {
			t.Errorf("class %+v, daemon %s", st.Plan.Classes[1], st.Health)
		}
		if st.Sequence == before.Sequence {
			t.Error("no event for who watches")
		}
		if log := r.log.String(); strings.Count(log, "PromiseViolated") != 2 { // of two classes
			t.Errorf("log:\n%s", log)
		}

		remove := podsToMain
		remove.Verb = routing.Delete
		if err := r.kernel.Foreign(remove); err != nil {
			t.Fatal(err)
		}
		r.wait(2 * time.Second)
		wantProven(t, r, "after it is gone")
	})
}

// TestNoNews wants an idle daemon to go on looking without waking itself up.
func TestNoNews(t *testing.T) {
	verified(t, func(t *testing.T, r *rig, o *oracle) {
		before := r.state()
		r.wait(time.Minute)
		st := r.state()
		if passes := st.Pass.Passes - before.Pass.Passes; passes != 2 {
			t.Errorf("%d passes in two resyncs", passes)
		}
		if age := st.Verified.At.Sub(before.Verified.At); age < 59*time.Second {
			t.Errorf("the look that is shown is only %v newer", age)
		}
		wantProven(t, r, "idle")
		if o.asked == 0 {
			t.Error("nobody asked")
		}
	})
}

// TestSeenTwice wants a fault to be seen twice before anybody is told, and a look
// that fails to change nothing.
func TestSeenTwice(t *testing.T) {
	verified(t, func(t *testing.T, r *rig, o *oracle) {
		once := 0
		o.lies(func(_ []routing.Flow, answers []routing.Answer) error {
			if once++; once == 1 {
				for i := range answers {
					answers[i] = routing.Answer{Outcome: routing.OutcomeForward, Link: "mgmt0", Via: routeAddr("10.40.0.254")}
				}
			}
			return nil
		})
		r.engine.LookAndDump()
		r.wait(3 * time.Second)
		wantProven(t, r, "after a moment's doubt")
		if once != 2 {
			t.Errorf("looked %d times", once)
		}
		if log := r.log.String(); strings.Contains(log, "PromiseViolated") || strings.Contains(log, "Misrouted") {
			t.Errorf("log:\n%s", log)
		}

		o.lies(func([]routing.Flow, []routing.Answer) error { return errors.New("netlink is away") })
		r.engine.LookAndDump()
		r.wait(3 * time.Second)
		wantProven(t, r, "while the kernel does not answer")
		if !strings.Contains(r.log.String(), "netlink is away") {
			t.Error("nobody is told that the kernel does not answer")
		}
	})
}

// TestQuestions asks as people do: at most one reading of the kernel a second,
// and none of it in the way of passes.
func TestQuestions(t *testing.T) {
	verified(t, func(t *testing.T, r *rig, _ *oracle) {
		dumps, _ := r.kernel.count()
		passes := r.state().Pass.Passes
		for range 5 {
			list, err := r.engine.Explain(t.Context(), routing.Question{Dst: "pod", Src: "pod"})
			if err != nil || len(list) != 2 || list[0].Verdict != routing.VerdictOK || list[1].Kernel.String() != "pod0 via fd00:48::2" {
				t.Fatalf("%+v %v", list, err)
			}
			found, err := r.engine.Verify(t.Context(), true)
			if err != nil || !found.Router.Proven || found.Checked != found.Flows {
				t.Fatalf("%+v %v", found, err)
			}
		}
		if now, _ := r.kernel.count(); now != dumps+1 {
			t.Errorf("%d dumps", now-dumps)
		}
		if r.state().Pass.Passes != passes {
			t.Error("questions make passes")
		}
		if _, err := r.engine.Explain(t.Context(), routing.Question{Dst: "nobody"}); err == nil {
			t.Error("nobody is a destination")
		} else if _, ok := errors.AsType[*routing.BadQuestion](err); !ok {
			t.Error(err)
		}

		// What no event tells of is found by who asks, and then by the daemon.
		r.wait(2 * time.Second)
		r.kernel.foreign(routing.Add, routing.Route{
			Table: routing.MainID, Dst: netip.MustParsePrefix("10.244.128.0/17"), Metric: 5, Via: routeAddr("10.40.0.254"), Link: "mgmt0", Protocol: routing.ProtocolBoot,
		})
		r.wait(100 * time.Millisecond)
		if found, err := r.engine.Verify(t.Context(), false); err != nil || !found.Router.Misrouted {
			t.Fatalf("%+v %v", found, err)
		}
		r.wait(3 * time.Second)
		if r.condition("router", "Misrouted") == nil {
			t.Errorf("conditions %v", r.state().Conditions)
		}
	})
}

func TestQuestionsWithoutConfiguration(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start(nil)
		if _, err := r.engine.Verify(t.Context(), true); err == nil {
			t.Error("verified nothing")
		}
		if _, err := r.engine.Explain(t.Context(), routing.Question{Dst: "world"}); err == nil {
			t.Error("explained nothing")
		}
	})
}
