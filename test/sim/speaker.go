package sim

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"netclass.dev/routing"
)

// BGP's times in the simulated cluster.
const (
	holdTimer   = 9 * time.Second
	doubtAfter  = 1500 * time.Millisecond // without an answer
	restartTime = 10 * time.Second        // as the example configures
)

var errDead = errors.New("the daemon is dead")

// speaker is the speaker of one daemon, with the peers at the other ends of its
// sessions. It follows the world: whoever changes that calls follow.
type speaker struct {
	w        *world
	order    *routing.Speak
	sessions map[routing.SessionKey]*session
	orders   int // that were given
	dead     bool
}

// session is one session and what becomes of it next.
type session struct {
	routing.Session
	neighbor routing.Neighbor
	timer    *time.Timer // to come up, or the hold timer
	pulse    *time.Timer // to the doubt that the peer lives
	heard    time.Time   // when it was reachable again
	turns    uint64
}

// Set takes an order.
func (s *speaker) Set(_ context.Context, order *routing.Speak) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.dead {
		return errDead
	}
	s.orders++
	s.w.checkOrder(s, order)
	s.order = order
	wanted := map[routing.SessionKey]bool{}
	if order != nil {
		for _, n := range order.Neighbors {
			wanted[n.Key] = true
			old := s.sessions[n.Key]
			if old != nil && old.neighbor.Remote == n.Remote && old.neighbor.Local == n.Local && old.neighbor.Link == n.Link {
				old.neighbor = n
				continue
			}
			if old != nil {
				old.stop()
			}
			s.sessions[n.Key] = &session{Session: routing.Session{Key: n.Key, Since: time.Now()}, neighbor: n}
		}
	}
	for key, old := range s.sessions {
		if !wanted[key] {
			old.stop()
			delete(s.sessions, key)
		}
	}
	s.follow()
	return nil
}

// Sessions tells of every session.
func (s *speaker) Sessions() []routing.Session {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	var all []routing.Session
	for _, key := range s.keys() {
		se := s.sessions[key].Session
		se.Paths = slices.Clone(se.Paths)
		se.Received = uint32(len(se.Paths))
		all = append(all, se)
	}
	return all
}

// Status tells of the process.
func (s *speaker) Status() routing.SpeakerStatus {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	st := routing.SpeakerStatus{Wanted: s.order != nil}
	if st.Wanted {
		st.PID = 7
	}
	return st
}

// Close ends the speaker.
func (s *speaker) Close(cease bool) error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.ceased = cease
	s.end()
	return nil
}

func (s *speaker) end() {
	s.dead = true
	for _, se := range s.sessions {
		se.stop()
	}
	s.sessions = nil
}

func (s *speaker) keys() []routing.SessionKey {
	keys := make([]routing.SessionKey, 0, len(s.sessions))
	for k := range s.sessions {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b routing.SessionKey) int {
		if a.Peer != b.Peer {
			if a.Peer < b.Peer {
				return -1
			}
			return 1
		}
		return int(a.Family) - int(b.Family)
	})
	return keys
}

func (se *session) stop() {
	if se.timer != nil {
		se.timer.Stop()
		se.timer = nil
	}
	if se.pulse != nil {
		se.pulse.Stop()
		se.pulse = nil
	}
}

// reachable reports whether packets between the ends of a session pass.
func (s *speaker) reachable(se *session) bool {
	n := se.neighbor
	if !s.w.addressUsable(n.Link, n.Local) {
		return false
	}
	if n.Upstream {
		return true
	}
	nd := s.w.node(n.Key.Peer)
	return nd != nil && nd.powered && n.Remote == podAddr(nd.n, n.Key.Family)
}

func (s *speaker) answered(se *session) bool {
	if !s.reachable(se) {
		return false
	}
	if se.neighbor.Upstream {
		return true
	}
	return s.w.node(se.neighbor.Key.Peer).speaks
}

// follow brings the sessions to what the world allows: those that can come up
// are on their way, and those that hear nothing wait for their hold timer.
func (s *speaker) follow() {
	if s.dead {
		return
	}
	for _, key := range s.keys() {
		se := s.sessions[key]
		up := se.State == routing.Established
		switch {
		case up && s.reachable(se) || !up && !s.answered(se):
			if se.timer != nil {
				se.heard = time.Now()
			}
			se.Doubt = false
			se.stop()
		case up && se.timer == nil:
			// No two at the same instant: their order would be anybody's, and a
			// history would not replay.
			apart := s.w.delay(se.Key, se.turns) / 20
			se.pulse = time.AfterFunc(doubtAfter+apart, func() { s.doubt(se) })
			s.after(se, holdTimer-apart, func() {
				s.down(se, routing.CauseHoldTimer)
			})
		case !up && se.timer == nil:
			s.after(se, s.w.delay(key, se.turns), func() {
				if s.answered(se) {
					s.establish(se)
				}
			})
		}
	}
}

// after does something to a session in a while, unless it is stopped.
func (s *speaker) after(se *session, d time.Duration, do func()) {
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		if s.dead || se.timer != t {
			return
		}
		se.timer = nil
		do()
		s.w.look()
	})
	se.timer = t
}

// doubt tells that a peer has not answered for a while.
func (s *speaker) doubt(se *session) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if !s.dead && se.pulse != nil && se.State == routing.Established {
		se.Doubt = true
		s.w.look()
	}
}

func (s *speaker) establish(se *session) {
	se.turns++
	nd := s.w.node(se.Key.Peer)
	se.State, se.Since, se.EndOfRIB, se.Paths = routing.Established, time.Now(), false, nil
	se.PeerRestartTime = 0
	if nd != nil {
		se.PeerRestartTime = time.Duration(nd.offers) * time.Second
	}
	s.w.note("  session %s is up", se.Key)
	// A peer says what it has a moment later, and then that this was all.
	turn := se.turns
	time.AfterFunc(s.w.delay(se.Key, se.turns+100)/8, func() {
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		if s.dead || s.sessions[se.Key] != se || se.turns != turn || se.State != routing.Established {
			return
		}
		if nd := s.w.node(se.Key.Peer); nd != nil {
			se.Paths = nd.paths(se.Key.Family)
		}
		se.EndOfRIB = true
		s.routerSays()
		s.w.look()
	})
}

// down ends a session.
func (s *speaker) down(se *session, cause routing.DownCause) {
	se.stop()
	if se.State != routing.Established {
		return
	}
	se.turns++
	se.State, se.Since, se.Cause, se.EndOfRIB, se.Paths, se.Doubt = routing.Idle, time.Now(), cause, false, nil, false
	s.w.note("  session %s is down: %s", se.Key, cause)
}

// end ends the sessions of a peer.
func (s *speaker) endPeer(peer string, cause routing.DownCause) {
	for _, key := range s.keys() {
		if key.Peer == peer {
			s.down(s.sessions[key], cause)
		}
	}
	s.follow()
}

// crash is the end of the speaker's process. Its keeper starts another.
func (s *speaker) crash() {
	for _, key := range s.keys() {
		s.down(s.sessions[key], routing.CauseConnection)
	}
	s.follow()
}

// say tells again what a peer announces.
func (s *speaker) say(peer string) {
	for _, key := range s.keys() {
		if se := s.sessions[key]; key.Peer == peer && se.State == routing.Established && se.EndOfRIB {
			se.Paths = s.w.node(peer).paths(key.Family)
		}
	}
}

// delay is how long a session takes to come up: 0.3 to 2 s, by chance that does
// not hang on who asks first.
func (w *world) delay(key routing.SessionKey, turn uint64) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(key.String()))
	sum := (h.Sum64() ^ w.seed*0x9e3779b97f4a7c15 ^ turn*0xbf58476d1ce4e5b9) * 0x94d049bb133111eb
	return 300*time.Millisecond + time.Duration(sum>>33%1700)*time.Millisecond
}
