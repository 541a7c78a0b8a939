package engine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/promise"
)

// Oracle is the kernel asked where packets would go.
type Oracle interface {
	// Lookup returns an answer for each flow.
	Lookup(context.Context, []routing.Flow) ([]routing.Answer, error)
}

// Bounds of what looking at the promises costs. A large cluster's flows are
// looked at in turn.
const (
	verifyBudget = 200                    // flows at once
	verifyGap    = 500 * time.Millisecond // between two looks, and at least so many times as long as one takes:
	verifyShare  = 20
	freshFor     = time.Second // how old a picture may be that a person asks for
	lookupsEach  = 2000        // flows in one question to the kernel
)

// verifier holds the promises against the kernel, beside the loop: after each
// pass that changed or read something, which so includes the resync time.
//
// A fault is told of when it is seen twice, the second time by a picture of its
// own: between an event and the pass that it leads to, kernel and plan differ.
type verifier struct {
	oracle Oracle // nil: nothing is verified
	wake   chan struct{}
	latest atomic.Pointer[routing.Verification]

	changedMu sync.Mutex
	changed   map[netip.Prefix]bool // destinations of routes that passes changed

	mu       sync.Mutex // of one round
	cursor   int
	troubled []routing.Flow

	freshMu sync.Mutex
	fresh   *routing.Kernel
	freshAt time.Time
}

func (v *verifier) init(o Oracle) {
	v.oracle, v.wake, v.changed = o, make(chan struct{}, 1), map[netip.Prefix]bool{}
}

// passed tells of a pass.
func (v *verifier) passed(ops []routing.Op, dumped bool) {
	if v.oracle == nil || len(ops) == 0 && !dumped {
		return
	}
	v.changedMu.Lock()
	for _, op := range ops {
		if !op.IsRule() && len(v.changed) < verifyBudget {
			v.changed[op.Route.Dst] = true
		}
	}
	v.changedMu.Unlock()
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// verifying looks at the promises whenever there is reason to, until ctx ends.
func (e *Engine) verifying(ctx context.Context) {
	suspected := false
	var next time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.verifier.wake:
		}
		if early := time.Until(next); early > 0 && !pause(ctx, early) {
			return
		}
		start := time.Now()
		st := e.State()
		if st.Config.Config == nil || st.Config.Config.Idle() {
			e.verifier.latest.Store(nil)
			continue
		}
		found, err := e.round(ctx, e.viewOf(st, st.Kernel), verifyBudget)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err != nil:
			e.log.Warn("promises not verified", "error", err)
		case faulty(found) && !faulty(e.verifier.latest.Load()) && !suspected:
			suspected = true
			e.LookAndDump()
		default:
			suspected = false
			found.Sequence = st.Sequence
			if news(e.verifier.latest.Swap(found), found) {
				e.Look()
			} else {
				e.reshow(found)
			}
		}
		next = start.Add(max(verifyGap, verifyShare*time.Since(start)))
	}
}

// news reports whether there is something to tell of that was not so before.
func news(old, found *routing.Verification) bool {
	return old == nil || !slices.Equal(old.Promises, found.Promises) || old.Router.Proven != found.Router.Proven ||
		old.Router.Misrouted != found.Router.Misrouted || old.Router.ByChoice != found.Router.ByChoice || old.Router.Reason != found.Router.Reason
}

// reshow puts what was found, and is no news, into the state that is shown. A
// pass for it would only wake an idle daemon.
func (e *Engine) reshow(found *routing.Verification) {
	last := e.shown.Load()
	if last.state.Verified == nil {
		return
	}
	st := *last.state
	st.Verified = found
	// A pass that publishes meanwhile takes the newest by itself.
	e.shown.CompareAndSwap(last, &published{state: &st, next: last.next})
}

// faulty reports whether something is found that a second look may disprove.
func faulty(f *routing.Verification) bool {
	return f != nil && (!f.Router.Proven && !f.Router.ByChoice || slices.ContainsFunc(f.Promises, func(p routing.Promise) bool { return p.State == routing.PromiseViolated }))
}

// viewOf is what the promises are, by a state and a picture of the kernel.
func (e *Engine) viewOf(st *routing.State, k *routing.Kernel) *promise.View {
	return promise.New(promise.Inputs{Config: st.Config.Config, Node: st.Node, Inventory: &st.Inventory, Kernel: k, Plan: st.Plan})
}

// round looks at the flows whose turn it is; budget 0: at all.
func (e *Engine) round(ctx context.Context, view *promise.View, budget int) (*routing.Verification, error) {
	v := &e.verifier
	v.mu.Lock()
	defer v.mu.Unlock()
	start := time.Now()
	v.changedMu.Lock()
	changed := v.changed
	v.changed = map[netip.Prefix]bool{}
	v.changedMu.Unlock()
	checks := view.Round(promise.Round{Cursor: v.cursor, Budget: budget, Always: v.troubled, Changed: changed})
	flows := checks.Questions()
	answers := make([]routing.Answer, 0, len(flows))
	for some := range slices.Chunk(flows, lookupsEach) {
		said, err := v.oracle.Lookup(ctx, some)
		if err != nil {
			return nil, err
		}
		answers = append(answers, said...)
	}
	found := view.Conclude(checks, answers)
	v.cursor, v.troubled = checks.Cursor, found.Troubled
	found.At, found.Took = start, time.Since(start)
	if budget > 0 && checks.Rounds > 1 {
		found.Within = time.Duration(checks.Rounds) * view.Config.Daemon.Resync
	}
	return found, nil
}

// errNothing is the answer to questions about nothing.
var errNothing = errors.New("there is no configuration to hold the kernel against")

// Verify looks at the promises now, by a picture of the kernel of its own: at
// the flows whose turn it is, or at all. What it finds the engine goes on
// looking at.
func (e *Engine) Verify(ctx context.Context, all bool) (*routing.Verification, error) {
	view, st, err := e.freshView(ctx)
	if err != nil {
		return nil, fmt.Errorf("verify promises: %w", err)
	}
	budget := verifyBudget
	if all {
		budget = 0
	}
	found, err := e.round(ctx, view, budget)
	if err != nil {
		return nil, fmt.Errorf("verify promises: %w", err)
	}
	found.Sequence = st.Sequence
	if faulty(found) != faulty(e.verifier.latest.Load()) {
		e.LookAndDump() // there may be something that no event told of
	}
	return found, nil
}

// Explain says where packets go, by a picture of the kernel of its own, and what
// the kernel itself says.
func (e *Engine) Explain(ctx context.Context, q routing.Question) ([]*routing.Explanation, error) {
	view, _, err := e.freshView(ctx)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	list, err := view.Ask(q)
	if err != nil {
		return nil, err
	}
	flows := make([]routing.Flow, len(list))
	for i := range list {
		flows[i] = list[i].Flow
	}
	answers, err := e.verifier.oracle.Lookup(ctx, flows)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	for i := range list {
		view.Explain(list[i], answers[i])
	}
	return list, nil
}

// freshView reads the kernel for people, at most once a second.
func (e *Engine) freshView(ctx context.Context) (*promise.View, *routing.State, error) {
	st := e.State()
	if e.verifier.oracle == nil || st.Config.Config == nil || st.Config.Config.Idle() {
		return nil, nil, errNothing
	}
	v := &e.verifier
	v.freshMu.Lock()
	defer v.freshMu.Unlock()
	if v.fresh == nil || time.Since(v.freshAt) >= freshFor {
		k, err := e.opt.Kernel.Dump(ctx)
		if err != nil {
			return nil, nil, err
		}
		v.fresh, v.freshAt = k, time.Now()
		time.AfterFunc(freshFor, v.forget)
	}
	return e.viewOf(st, v.fresh), st, nil
}

// forget frees a picture that nobody has asked for lately.
func (v *verifier) forget() {
	v.freshMu.Lock()
	defer v.freshMu.Unlock()
	if time.Since(v.freshAt) >= freshFor {
		v.fresh = nil
	}
}

// violations adds what was found to what is published: a condition of the class
// whose promise is broken, and of the router.
func (e *Engine) violations(p *routing.Plan) {
	found := e.verifier.latest.Load()
	if found == nil {
		return
	}
	for i := range found.Promises {
		f := &found.Promises[i]
		if f.State != routing.PromiseViolated {
			continue
		}
		at := slices.IndexFunc(p.Classes, func(c routing.ClassStatus) bool { return c.Class.Name == f.Class })
		if at < 0 {
			continue // of an older configuration
		}
		said := fmt.Sprintf("%s to %s, %s: %s", f.Traffic.From, f.Traffic.To, f.Family, f.Reason)
		p.Classes[at].Health, p.Classes[at].Reason = routing.Degraded, said
		e.conditions.add("class/"+f.Class, "PromiseViolated", said)
	}
	switch {
	case found.Router.Misrouted:
		e.conditions.add("router", misrouted, found.Router.Reason)
	case !found.Router.Proven && !found.Router.ByChoice:
		e.conditions.add("router", "NotProven", found.Router.Reason)
	}
}

// misrouted is the reason of the condition that a router may carry cluster
// traffic.
const misrouted = "Misrouted"
