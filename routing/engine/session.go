package engine

import (
	"cmp"
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
	kernel Kernel
	wake   func()
	of     map[routing.SessionKey]*session
	prober prober
}

// session is the memory of one session.
type session struct {
	neighbor routing.Neighbor
	up       bool
	paths    []routing.Path // that count now
	before   []routing.Path // of them those of an earlier time, until end-of-RIB
	synced   bool
	held     bool      // it is down, and its paths still count
	until    time.Time // of held, or of waiting for end-of-RIB
	lost     string    // what ended that, for people
	cause    routing.DownCause
	offered  time.Duration // the peer's restart time

	doubt   bool      // it is up, but the peer's kernel does not answer
	silent  bool      // and neither does its next hop: its paths do not count
	trustAt time.Time // when it has answered again for long enough; zero: it has not

	vigil    uint64 // the number of the newest
	endVigil context.CancelFunc
	lastSeen routing.Session
	seen     bool      // the speaker has said something of it
	downAt   time.Time // since when it is down
}

func (ss *sessions) init(k Kernel, wake func()) {
	ss.kernel, ss.wake = k, wake
	ss.of = make(map[routing.SessionKey]*session)
	ss.prober.init()
}

// trustAgain is how long a peer that was silent must have answered again until
// its paths count: a link that fails again and again is not worth going back to
// each time.
const trustAgain = 2 * time.Second

// newSession begins as held: what the kernel has of it may come from before our
// start.
func newSession(n routing.Neighbor, now time.Time) *session {
	s := &session{neighbor: n, downAt: now}
	s.held = s.holdTime() > 0
	s.synced = !s.held
	s.until = now.Add(s.holdTime())
	return s
}

// holdTime is how long what the session said may outlive it, as far as we are
// concerned. What routers say does not.
func (s *session) holdTime() time.Duration {
	if s.neighbor.Upstream {
		return 0
	}
	return s.neighbor.RestartTime
}

// want takes the sessions of the newest plan, and reports whether there are new
// ones.
func (ss *sessions) want(s *routing.Speak, now time.Time) (grown bool) {
	wanted := make(map[routing.SessionKey]bool)
	if s != nil {
		for _, n := range s.Neighbors {
			wanted[n.Key] = true
			old := ss.of[n.Key]
			if old != nil && old.neighbor.Remote == n.Remote && old.neighbor.Link == n.Link {
				old.neighbor = n
				continue
			}
			if old != nil {
				old.stopVigil()
			}
			ss.of[n.Key] = newSession(n, now)
			grown = true
		}
	}
	for key, s := range ss.of {
		if !wanted[key] {
			s.stopVigil()
			delete(ss.of, key)
		}
	}
	return grown
}

// update takes what the speaker says now and returns what the planner may build
// on.
func (ss *sessions) update(ctx context.Context, now time.Time, reported []routing.Session, k *routing.Kernel) []routing.Peering {
	ss.takeDead()
	spoken := make(map[routing.SessionKey]bool, len(reported))
	for i := range reported {
		spoken[reported[i].Key] = true
		if s := ss.of[reported[i].Key]; s != nil {
			s.take(now, &reported[i])
		}
	}
	peerings := make([]routing.Peering, 0, len(ss.of))
	for key, s := range ss.of {
		if s.up && !spoken[key] {
			// A speaker that no longer knows the session has lost it.
			s.take(now, &routing.Session{Key: key, Since: now, Cause: routing.CauseConnection})
		}
		s.expire(now)
		if s.held && !k.Link(s.neighbor.Link).Usable() {
			s.drop()
		}
		ss.attend(ctx, s)
		p := routing.Peering{Key: key, Paths: s.paths, Synced: s.synced, Held: s.held, Why: s.why()}
		if s.up {
			p.RouterID = s.lastSeen.RouterID
		}
		if s.silent {
			p.Paths, p.Synced = nil, true
		}
		peerings = append(peerings, p)
	}
	return peerings
}

// take moves the session to what the speaker reports.
func (s *session) take(now time.Time, r *routing.Session) {
	anew := s.seen && !r.Since.Equal(s.lastSeen.Since)
	s.lastSeen, s.seen = *r, true
	switch {
	case r.State == routing.Established:
		s.established(now, r, anew)
	case s.up:
		s.ended(now, r.Cause)
	case anew && r.Cause != routing.CauseNone:
		// It has come up and ended since the last look.
		s.offered = r.PeerRestartTime
		s.ended(now, r.Cause)
	}
}

// established takes in a session that is up. Also when the end in between was
// never seen, what it said before counts until it has said all again.
func (s *session) established(now time.Time, r *routing.Session, anew bool) {
	if !s.up || anew {
		s.before = s.paths
		s.until = now.Add(s.holdTime())
		s.silent = false
	}
	s.up, s.held, s.lost = true, false, ""
	s.answers(now, !r.Doubt)
	s.cause, s.offered = routing.CauseNone, r.PeerRestartTime
	s.synced = r.EndOfRIB || !now.Before(s.until)
	if s.synced {
		s.before = nil
	}
	s.paths = merge(s.before, r.Paths)
}

// answers notes whether the peer of a session that is up answers. One that has
// been found to be gone is trusted again after a while.
func (s *session) answers(now time.Time, yes bool) {
	s.doubt = !yes
	switch {
	case !yes || !s.silent:
		s.trustAt = time.Time{}
	case s.trustAt.IsZero():
		s.trustAt = now.Add(trustAgain)
	case !now.Before(s.trustAt):
		s.silent = false
	}
}

// ended decides by the cause whether the paths of a session outlive it.
func (s *session) ended(now time.Time, cause routing.DownCause) {
	silent := s.silent
	s.up, s.cause, s.doubt, s.silent, s.lost, s.downAt = false, cause, false, false, "", now
	s.stopVigil()
	hold := min(s.holdTime(), s.offered)
	if silent || cause == routing.CauseCease || cause == routing.CauseError || hold <= 0 {
		s.drop()
		return
	}
	s.held, s.synced = true, false
	s.until = now.Add(hold)
}

// expire ends a hold, or the wait for end-of-RIB, whose time is over.
func (s *session) expire(now time.Time) {
	if !s.up && !s.synced && !now.Before(s.until) {
		if len(s.paths) > 0 {
			s.lost = " for longer than its paths are held"
		}
		s.drop()
	}
}

// why says why nothing that the peer has said counts; "" when something does, or
// when it is for the peer to say something.
func (s *session) why() string {
	switch {
	case s.silent:
		return "it does not answer on " + s.neighbor.Link
	case s.up || len(s.paths) > 0:
		return ""
	case s.cause == routing.CauseNone && s.lastSeen.Detail == "":
		return "no session yet"
	case s.cause == routing.CauseNone:
		return "no session yet (" + s.lastSeen.Detail + ")"
	}
	return "its session is down (" + cmp.Or(s.lastSeen.Detail, s.cause.String()) + ")" + s.lost
}

// drop forgets the paths: the fallback carries on.
func (s *session) drop() {
	s.paths, s.before, s.held, s.synced = nil, nil, false, true
}

// merge returns old and new paths; where both have a prefix the new one counts.
func merge(old, fresh []routing.Path) []routing.Path {
	if len(old) == 0 {
		return fresh
	}
	said := make(map[netip.Prefix]bool, len(fresh))
	for _, p := range fresh {
		said[p.Prefix] = true
	}
	all := slices.Clone(fresh)
	for _, p := range old {
		if !said[p.Prefix] {
			all = append(all, p)
		}
	}
	return all
}

// due returns when the next hold, wait for end-of-RIB, for trust or for a router is
// over, of those that are not yet.
func (ss *sessions) due(now time.Time) (due time.Time, any bool) {
	soonest := func(t time.Time) {
		if !any || t.Before(due) {
			due, any = t, true
		}
	}
	for _, s := range ss.of {
		if !s.synced {
			soonest(s.until)
		}
		if s.silent && !s.trustAt.IsZero() {
			soonest(s.trustAt)
		}
		if late := s.downAt.Add(comesUp); s.neighbor.Upstream && !s.up && now.Before(late) {
			soonest(late)
		}
	}
	return due, any
}

// synced reports whether every peer has said all it had to say.
func (ss *sessions) synced() bool {
	for _, s := range ss.of {
		if !s.synced {
			return false
		}
	}
	return true
}
