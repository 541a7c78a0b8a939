package engine

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"netclass.dev/routing"
)

// sessions decides what a session's paths are worth once it has ended. A peer
// that restarts keeps them, a peer that is gone loses them, and only the kernel
// can tell the two apart: by asking the next hop.
type sessions struct {
	kernel  Kernel
	wake    func()
	of      map[routing.SessionKey]*session
	answers chan answer
	slots   chan struct{} // bounds the probes under way
}

// session is the memory of one session.
type session struct {
	neighbor routing.Neighbor
	up       bool
	paths    []routing.Path
	synced   bool
	held     bool
	until    time.Time // of held, or of waiting for end-of-RIB
	cause    routing.DownCause
	offered  time.Duration // the peer's restart time

	probing  bool
	probeAt  time.Time // when to ask again, while held
	lastSeen routing.Session
}

// answer is what a probe found.
type answer struct {
	key   routing.SessionKey
	hop   netip.Addr
	alive bool
}

// Probing of next hops. A living one answers within half a second; the kernel
// gives a dead one up after three.
const (
	probeAgain    = 500 * time.Millisecond
	probeTime     = 4 * time.Second
	probeHoldTime = time.Second // after hold-timer expiry it has been silent long enough
	probesAtOnce  = 64
)

func (ss *sessions) init(k Kernel, wake func()) {
	ss.kernel, ss.wake = k, wake
	ss.of = make(map[routing.SessionKey]*session)
	ss.answers = make(chan answer, probesAtOnce)
	ss.slots = make(chan struct{}, probesAtOnce)
}

// want takes the sessions of the newest plan. New ones begin as held: what the
// kernel has of them may come from before our start.
func (ss *sessions) want(s *routing.Speak) {
	wanted := make(map[routing.SessionKey]bool)
	if s != nil {
		for _, n := range s.Neighbors {
			wanted[n.Key] = true
			if old := ss.of[n.Key]; old != nil && old.neighbor.Remote == n.Remote {
				old.neighbor = n
				continue
			}
			ss.of[n.Key] = &session{neighbor: n, held: n.RestartTime > 0, synced: n.RestartTime == 0, until: time.Now().Add(n.RestartTime)}
		}
	}
	for key := range ss.of {
		if !wanted[key] {
			delete(ss.of, key)
		}
	}
}

// update takes what the speaker says now and returns what the planner may build
// on.
func (ss *sessions) update(now time.Time, reported []routing.Session, k *routing.Kernel, restart time.Duration) []routing.Peering {
	ss.takeAnswers(now)
	for i := range reported {
		if s := ss.of[reported[i].Key]; s != nil {
			s.take(now, &reported[i], restart)
		}
	}
	peerings := make([]routing.Peering, 0, len(ss.of))
	for key, s := range ss.of {
		s.expire(now)
		if s.held && !k.Link(s.neighbor.Link).Usable() {
			s.drop()
		}
		if s.held && !s.probing && !now.Before(s.probeAt) {
			ss.probe(s)
		}
		if s.neighbor.Upstream {
			continue
		}
		peerings = append(peerings, routing.Peering{Key: key, Paths: s.paths, Synced: s.synced, Held: s.held})
	}
	return peerings
}

// take moves the session to what the speaker reports.
func (s *session) take(now time.Time, r *routing.Session, restart time.Duration) {
	again := r.State == routing.Established && (!s.up || !r.Since.Equal(s.lastSeen.Since))
	s.lastSeen = *r
	switch {
	case r.State == routing.Established:
		if again {
			// Also when the end in between was never seen: what it said before
			// counts until it has said all again.
			s.up = true
			s.until = now.Add(restart)
		}
		s.cause, s.offered = routing.CauseNone, r.PeerRestartTime
		if r.EndOfRIB || !now.Before(s.until) {
			s.paths, s.synced, s.held = r.Paths, true, false
			return
		}
		s.synced = false
		s.paths = merge(s.paths, r.Paths)
	case s.up:
		s.up = false
		s.cause = r.Cause
		hold := min(restart, s.offered)
		if r.Cause == routing.CauseCease || r.Cause == routing.CauseError || hold <= 0 {
			s.drop()
			return
		}
		s.held, s.synced = true, false
		s.until = now.Add(hold)
		s.probeAt = now
	}
}

// expire ends a hold, or the wait for end-of-RIB, whose time is over.
func (s *session) expire(now time.Time) {
	if s.synced || now.Before(s.until) {
		return
	}
	if s.up {
		s.paths, s.synced, s.held = s.lastSeen.Paths, true, false
		return
	}
	s.drop()
}

// drop forgets the paths: the fallback carries on.
func (s *session) drop() {
	s.paths, s.held, s.synced = nil, false, true
}

// merge returns old and new paths; where both have a prefix the new one counts.
func merge(old, fresh []routing.Path) []routing.Path {
	all := slices.Clone(fresh)
	for _, p := range old {
		if !slices.ContainsFunc(fresh, func(q routing.Path) bool { return q.Prefix == p.Prefix }) {
			all = append(all, p)
		}
	}
	return all
}

// probe asks in the background whether the peer is alive on its link.
func (ss *sessions) probe(s *session) {
	s.probing = true
	n := s.neighbor
	limit := probeTime
	if s.cause == routing.CauseHoldTimer {
		limit = probeHoldTime
	}
	go func() {
		ss.slots <- struct{}{}
		defer func() { <-ss.slots }()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		alive, err := ss.kernel.Probe(ctx, n.Link, n.Remote)
		// A probe that could not be made says nothing; only after the hold
		// timer is silence itself an answer.
		if err != nil && (ctx.Err() == nil || limit != probeHoldTime) {
			alive = true
		}
		ss.answers <- answer{n.Key, n.Remote, alive}
		ss.wake()
	}()
}

// takeAnswers drops what is held of next hops that are dead.
func (ss *sessions) takeAnswers(now time.Time) {
	for {
		select {
		case a := <-ss.answers:
			s := ss.of[a.key]
			if s == nil || s.neighbor.Remote != a.hop {
				continue
			}
			s.probing = false
			s.probeAt = now.Add(probeAgain)
			if s.held && !a.alive {
				s.drop()
			}
		default:
			return
		}
	}
}

// due returns when the next hold or probe is due.
func (ss *sessions) due() (time.Time, bool) {
	var due time.Time
	for _, s := range ss.of {
		if s.synced {
			continue
		}
		at := s.until
		if s.held && !s.probing && s.probeAt.Before(at) {
			at = s.probeAt
		}
		if due.IsZero() || at.Before(due) {
			due = at
		}
	}
	return due, !due.IsZero()
}

// synced reports whether every peer has said all it had to say.
func (ss *sessions) synced(now time.Time) bool {
	for _, s := range ss.of {
		if !s.synced && !s.neighbor.Upstream {
			return false
		}
	}
	return true
}
