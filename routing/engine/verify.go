package engine

import (
	"context"
	"fmt"
	"maps"
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
	lookupsEach  = 2000 // flows in one question to the kernel
)

// verifier holds the promises against the kernel, beside the loop: after each
// pass that changed or read something, which so includes the resync time.
//
// A fault is told of when it is seen twice, the second time by a picture of its
// own: between an event and the pass that it leads to, kernel and plan differ.
type verifier struct {
	oracle Oracle // nil: nothing is verified
	wake   chan struct{}
	latest atomic.Pointer[proof] // nil: there has been no look

	changedMu sync.Mutex
	changed   map[netip.Prefix]bool // destinations of routes that passes changed

	turn     turn // of one round
	cursor   int
	troubled []routing.Flow

	questions questions
}

// proof is what a look at the promises has found, by how things stood at a time.
type proof struct {
	found *routing.Verification // nil: there was nothing to look at
	asOf  time.Time
}

// newest returns what the newest look has found; nil: nothing yet.
func (v *verifier) newest() *routing.Verification {
	if p := v.latest.Load(); p != nil {
		return p.found
	}
	return nil
}

// learn takes in what a look has found, and reports whether there is nothing newer:
// looks of the daemon's own and of people overtake each other.
func (v *verifier) learn(found *routing.Verification, asOf time.Time) bool {
	p := &proof{found, asOf}
	for {
		last := v.latest.Load()
		if last != nil && asOf.Before(last.asOf) {
			return false
		}
		if v.latest.CompareAndSwap(last, p) {
			return true
		}
	}
}

func (v *verifier) init(o Oracle) {
	v.oracle, v.wake, v.changed = o, make(chan struct{}, 1), map[netip.Prefix]bool{}
	v.turn, v.questions.turn = make(turn, 1), make(turn, 1)
}

// passed tells of a pass.
func (v *verifier) passed(ops []routing.Op, dumped bool) {
	if v.oracle == nil || len(ops) == 0 && !dumped {
		return
	}
	for _, op := range ops {
		if !op.IsRule() {
			v.change(op.Route.Dst)
		}
	}
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// change has the next round look at what goes to destinations, as far as there is
// room.
func (v *verifier) change(dsts ...netip.Prefix) {
	v.changedMu.Lock()
	defer v.changedMu.Unlock()
	for _, dst := range dsts {
		if len(v.changed) < verifyBudget {
			v.changed[dst] = true
		}
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
		if idles(st) {
			continue
		}
		found, err := e.round(ctx, e.viewOf(st, st.Kernel), verifyBudget)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err != nil:
			e.log.Warn("promises not verified", "error", err)
		case faulty(found) && !faulty(e.verifier.newest()) && !suspected:
			suspected = true
			e.LookAndDump()
		default:
			suspected = false
			e.conclude(found, st, st.Now)
		}
		next = start.Add(max(verifyGap, verifyShare*time.Since(start)))
	}
}

// conclude takes in what a look has found by a state and how things stood at a time,
// and has it shown. It reports whether there is nothing newer.
func (e *Engine) conclude(found *routing.Verification, st *routing.State, asOf time.Time) bool {
	found.Sequence = st.Sequence
	if !e.verifier.learn(found, asOf) {
		return false
	}
	e.present()
	return true
}

// present has the newest look shown: by a pass where it says something new, for that
// is what conditions come from; else at once, as a pass for it would only wake an
// idle daemon. After each state that is published it is called again, as what was
// found meanwhile is not in that.
func (e *Engine) present() {
	for {
		found, last := e.verifier.newest(), e.shown.Load()
		if found == nil || found == last.state.Verified {
			return
		}
		if news(last.state.Verified, found) {
			e.Look()
			return
		}
		st := *last.state
		st.Verified = found
		if e.shown.CompareAndSwap(last, &published{state: &st, next: last.next}) {
			return
		}
	}
}

// news reports whether there is something to tell of that was not so before. How
// many flows had their turn is none.
func news(old, found *routing.Verification) bool {
	same := func(a, b routing.Promise) bool {
		a.Checked = b.Checked
		return a == b
	}
	return old == nil || !slices.EqualFunc(old.Promises, found.Promises, same) || old.Router.Proven != found.Router.Proven ||
		old.Router.Misrouted != found.Router.Misrouted || old.Router.ByChoice != found.Router.ByChoice || old.Router.Reason != found.Router.Reason
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
	if err := v.turn.take(ctx); err != nil {
		return nil, err
	}
	defer v.turn.give()
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
			v.change(slices.Collect(maps.Keys(changed))...) // the next round sees to them
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

// violations adds what was found to what is published: a condition of the class
// whose promise is broken, and of the router.
func (e *Engine) violations(p *routing.Plan, found *routing.Verification) {
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
