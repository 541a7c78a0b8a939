package engine

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"netclass.dev/routing"
)

// Probing of next hops. The kernel asks at once and then each second, three times
// in all, and a living one answers each within a few hundred milliseconds: the
// limits leave that much time after the last time of asking that they include.
const (
	probeAgain     = 500 * time.Millisecond
	probeTime      = 2500 * time.Millisecond // asked three times
	probeDoubtTime = 1300 * time.Millisecond // twice: TCP has been silent as well
	probeHoldTime  = time.Second             // once: it has been silent for the hold time
	probesAtOnce   = 256
)

// prober asks next hops in the background, again and again, and tells of those
// that are dead.
type prober struct {
	tasks sync.WaitGroup
	slots chan struct{} // bounds the probes under way
	dead  chan vigil
}

// vigil is the watch over the next hop of one session that is held or in doubt.
type vigil struct {
	of     *session
	number uint64
}

func (p *prober) init() {
	p.slots = make(chan struct{}, probesAtOnce)
	p.dead = make(chan vigil, probesAtOnce)
}

// answers asks a next hop when its turn comes.
func (p *prober) answers(ctx context.Context, k Kernel, hop nextHop) (alive, known bool) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return false, false
	}
	defer func() { <-p.slots }()
	return ask(ctx, k, hop, probeTime)
}

// nextHop is an address on a link.
type nextHop struct {
	link string
	addr netip.Addr
}

// ask asks a next hop. Known says that it could be asked: silence is an answer.
func ask(ctx context.Context, k Kernel, hop nextHop, limit time.Duration) (alive, known bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	alive, err := k.Probe(ctx, hop.link, hop.addr)
	return alive && err == nil, err == nil || errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// attend begins the vigils of sessions that are held or in doubt and ends those
// of the others.
func (ss *sessions) attend(ctx context.Context, s *session) {
	switch watched := s.held || s.doubt && !s.silent; {
	case watched && s.endVigil == nil:
		ctx, s.endVigil = context.WithCancel(ctx)
		s.vigil++
		limit := probeTime
		switch {
		case s.doubt:
			limit = probeDoubtTime
		case s.cause == routing.CauseHoldTimer:
			limit = probeHoldTime
		}
		v, hop := vigil{s, s.vigil}, nextHop{s.neighbor.Link, s.neighbor.Remote}
		alive := func(ctx context.Context) bool {
			alive, known := ask(ctx, ss.kernel, hop, limit)
			return alive || !known
		}
		ss.prober.tasks.Go(func() { ss.prober.keep(ctx, v, alive, ss.wake) })
	case !watched:
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

// takeDead drops what is held of next hops that are dead, and leaves aside what
// sessions that are still up say of them.
func (ss *sessions) takeDead() {
	for {
		select {
		case v := <-ss.prober.dead:
			switch {
			case v.number != v.of.vigil:
			case v.of.held:
				v.of.lost = " and it does not answer"
				v.of.drop()
			case v.of.doubt:
				v.of.silent = true
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
