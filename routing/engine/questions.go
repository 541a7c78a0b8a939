package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"netclass.dev/routing"
)

// Bounds of what people's questions cost, and wait for.
const (
	freshFor = time.Second // how old a picture may be that a person asks for
	passTime = time.Second // for a pass of the loop, which may be busy
)

// questions is the kernel as read for people.
type questions struct {
	turn     turn
	kernel   *routing.Kernel
	at       time.Time // when it was read
	sequence uint64    // of the state then
}

// turn is a lock with one place for which nobody waits longer than for the answer
// itself: the kernel may not give any for a while.
type turn chan struct{}

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }

// errNothing is the answer to questions about nothing.
var errNothing = errors.New("there is no configuration to hold the kernel against")

// Verify looks at the promises now, by a picture of the kernel of its own: at
// the flows whose turn it is, or at all. What it finds the engine goes on
// looking at, and its state shows by the time that Verify returns; only where the
// loop is too busy for a pass it comes later.
func (e *Engine) Verify(ctx context.Context, all bool) (*routing.Verification, error) {
	budget := verifyBudget
	if all {
		budget = 0
	}
	st, k, asOf, err := e.fresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("verify promises: %w", err)
	}
	found, err := e.round(ctx, e.viewOf(st, k), budget)
	if err != nil {
		return nil, fmt.Errorf("verify promises: %w", err)
	}
	switch was, is := faulty(e.verifier.newest()), faulty(found); {
	case is && !was:
		// Perhaps it only is that a pass has not caught up with an event.
		again := e.passAnew(ctx)
		if again == nil {
			found.Sequence = st.Sequence
			return found, nil // seen once, it is told to nobody else
		}
		st, asOf = again, again.Now
		if found, err = e.round(ctx, e.viewOf(st, st.Kernel), budget); err != nil {
			return nil, fmt.Errorf("verify promises: %w", err)
		}
	case was && !is:
		e.LookAndDump() // there may be something that no event told of
	}
	if e.conclude(found, st, asOf) {
		e.awaitShown(ctx, found)
	}
	return found, nil
}

// passAnew asks for a pass that reads the kernel anew and returns the state after
// it, or nil where none comes about in time.
func (e *Engine) passAnew(ctx context.Context) *routing.State {
	ctx, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	before, asked := e.State(), time.Now()
	e.LookAndDump()
	for st := before; ; {
		var err error
		if st, err = e.Wait(ctx, st.Sequence); err != nil {
			return nil
		}
		if !st.Pass.At.Before(asked) {
			if st.Pass.Dumps == before.Pass.Dumps || idles(st) {
				return nil // the kernel could not be read, or there is nothing left to look at
			}
			return st
		}
	}
}

// awaitShown waits until the state shows what was found, or something newer is
// known.
func (e *Engine) awaitShown(ctx context.Context, found *routing.Verification) {
	ctx, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	for st := e.State(); st.Verified != found && e.verifier.newest() == found; {
		var err error
		if st, err = e.Wait(ctx, st.Sequence); err != nil {
			return
		}
	}
}

// Explain says where packets go, by a picture of the kernel of its own, and what
// the kernel itself says.
func (e *Engine) Explain(ctx context.Context, q routing.Question) ([]*routing.Explanation, error) {
	st, k, _, err := e.fresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	view := e.viewOf(st, k)
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

// fresh reads the kernel for people and returns it with the state that goes with
// it and when it was read. It does so at most once a second, or as passes change
// something.
func (e *Engine) fresh(ctx context.Context) (*routing.State, *routing.Kernel, time.Time, error) {
	if e.verifier.oracle == nil || idles(e.State()) {
		return nil, nil, time.Time{}, errNothing
	}
	q := &e.verifier.questions
	if err := q.turn.take(ctx); err != nil {
		return nil, nil, time.Time{}, err
	}
	defer q.turn.give()
	age := time.Since(q.at)
	if st := e.State(); q.kernel == nil || age >= freshFor || q.sequence != st.Sequence {
		if q.kernel != nil && age < dumpGap && !pause(ctx, dumpGap-age) {
			return nil, nil, time.Time{}, ctx.Err()
		}
		sequence, at := e.State().Sequence, time.Now()
		k, err := e.opt.Kernel.Dump(ctx)
		if err != nil {
			return nil, nil, time.Time{}, err
		}
		q.kernel, q.at, q.sequence = k, at, sequence
		time.AfterFunc(freshFor, q.forget)
	}
	st := e.State()
	if idles(st) {
		return nil, nil, time.Time{}, errNothing
	}
	return st, q.kernel, q.at, nil
}

// forget frees a picture that nobody has asked for lately.
func (q *questions) forget() {
	q.turn <- struct{}{}
	defer q.turn.give()
	if time.Since(q.at) >= freshFor {
		q.kernel = nil
	}
}
