package engine

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"netclass.dev/routing"
)

// A class path that a session has told of works: the session uses the same link. One
// that is learned from the nodes has nothing to go by, and a link that was plugged in
// just now may have carrier and pass no packet yet, or its far end may still be
// looking for duplicates of its address. Where the fallback stands, such a path waits
// until its next hop answers. One that does not answer for answerTime has its path
// all the same: that is what `learn: nodes` asks for.
const (
	answerTime  = 5 * time.Second
	answerAgain = 100 * time.Millisecond // between two times of asking
)

// arrival is a next hop that a path is to lead to.
type arrival struct {
	since    time.Time
	answered atomic.Bool
	end      context.CancelFunc // of asking
}

// arrivals are the next hops that paths wait for, and those whose paths are about to
// be put in.
type arrivals map[nextHop]*arrival

// await returns the ops without those that have to wait for a next hop.
func (e *Engine) await(ctx context.Context, now time.Time, cfg *routing.Config, ops []routing.Op) []routing.Op {
	if !slices.ContainsFunc(ops, func(op routing.Op) bool { return onNodesWord(cfg, op) }) {
		e.arrivals.end()
		return ops
	}
	fallback := standIns(ops, e.kernel)
	kept, still := make([]routing.Op, 0, len(ops)), make(arrivals)
	for _, op := range ops {
		if !onNodesWord(cfg, op) || !fallback[standIn(op)] {
			kept = append(kept, op)
			continue
		}
		hop := nextHop{op.Route.Link, op.Route.Via}
		a := e.arrivals[hop]
		if a == nil {
			a = e.askUntilAnswered(ctx, now, hop)
			e.arrivals[hop] = a
		}
		still[hop] = a
		if a.answered.Load() || !now.Before(a.since.Add(answerTime)) {
			a.end()
			kept = append(kept, op)
		}
	}
	maps.DeleteFunc(e.arrivals, func(hop nextHop, _ *arrival) bool { return still[hop] != nil })
	e.arrivals.end()
	maps.Copy(e.arrivals, still)
	return kept
}

// onNodesWord reports whether an op puts in a class path that no session tells of.
func onNodesWord(cfg *routing.Config, op routing.Op) bool {
	return !op.IsRule() && op.Verb == routing.Add && op.Stage == routing.StagePeers && op.Route.Metric == routing.MetricPath &&
		slices.ContainsFunc(cfg.Tables, func(t routing.Table) bool {
			return t.ID == op.Route.Table && t.Routes.Peers != nil && t.Routes.Peers.Learn == routing.LearnNodes
		})
}

// askUntilAnswered has a next hop asked in the background until it answers, and a
// pass made then.
func (e *Engine) askUntilAnswered(ctx context.Context, now time.Time, hop nextHop) *arrival {
	ctx, cancel := context.WithCancel(ctx)
	a := &arrival{since: now, end: cancel}
	p := &e.sessions.prober
	p.tasks.Go(func() {
		for ; ctx.Err() == nil; pause(ctx, answerAgain) {
			if alive, _ := p.answers(ctx, e.opt.Kernel, hop); alive {
				a.answered.Store(true)
				e.Look()
				return
			}
		}
	})
	return a
}

// end ends all asking.
func (as arrivals) end() {
	for hop, a := range as {
		a.end()
		delete(as, hop)
	}
}

// due returns when the first path waits no longer for an answer, of those that did in
// a pass at a time.
func (as arrivals) due(at time.Time) (due time.Time, any bool) {
	for _, a := range as {
		if till := a.since.Add(answerTime); !a.answered.Load() && till.After(at) && (!any || till.Before(due)) {
			due, any = till, true
		}
	}
	return due, any
}
