package engine

import (
	"context"
	"sync"
	"time"

	"netclass.dev/routing"
)

// Probing of next hops. A living one answers within half a second; the kernel
// gives a dead one up after three.
const (
	probeAgain    = 500 * time.Millisecond
	probeTime     = 4 * time.Second
	probeHoldTime = time.Second // after hold-timer expiry it has been silent long enough
	probesAtOnce  = 64
)

// prober asks next hops in the background, again and again, and tells of those
// that are dead.
type prober struct {
	tasks sync.WaitGroup
	slots chan struct{} // bounds the probes under way
	dead  chan vigil
}

// vigil is the watch over the next hop of one session that is held.
type vigil struct {
	of     *session
	number uint64
}

func (p *prober) init() {
	p.slots = make(chan struct{}, probesAtOnce)
	p.dead = make(chan vigil, probesAtOnce)
}

// attend begins the vigils of sessions that are held and ends those of the
// others.
func (ss *sessions) attend(ctx context.Context, s *session) {
	switch {
	case s.held && s.endVigil == nil:
		ctx, s.endVigil = context.WithCancel(ctx)
		s.vigil++
		limit := probeTime
		if s.cause == routing.CauseHoldTimer {
			limit = probeHoldTime
		}
		v, link, hop := vigil{s, s.vigil}, s.neighbor.Link, s.neighbor.Remote
		alive := func(ctx context.Context) bool {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			alive, err := ss.kernel.Probe(ctx, link, hop)
			if err != nil {
				// A probe that could not be made says nothing; only after the
				// hold timer is silence itself an answer.
				return ctx.Err() == nil || limit != probeHoldTime
			}
			return alive
		}
		ss.prober.tasks.Go(func() { ss.prober.keep(ctx, v, alive, ss.wake) })
	case !s.held:
		s.stopVigil()
	}
}

// keep asks until the next hop is dead, or ctx ends.
func (p *prober) keep(ctx context.Context, v vigil, alive func(context.Context) bool, wake func()) {
	for {
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		lives := alive(ctx)
		<-p.slots
		if ctx.Err() != nil {
			return
		}
		if !lives {
			select {
			case p.dead <- v:
				wake()
			case <-ctx.Done():
			}
			return
		}
		if !pause(ctx, probeAgain) {
			return
		}
	}
}

// takeDead drops what is held of next hops that are dead.
func (ss *sessions) takeDead() {
	for {
		select {
		case v := <-ss.prober.dead:
			if v.of.held && v.number == v.of.vigil {
				v.of.drop()
			}
		default:
			return
		}
	}
}

func (s *session) stopVigil() {
	if s.endVigil != nil {
		s.endVigil()
		s.endVigil = nil
	}
}

// wait returns when no probe is under way any more. Their context has ended.
func (ss *sessions) wait() { ss.prober.tasks.Wait() }
