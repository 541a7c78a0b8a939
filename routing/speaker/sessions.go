package speaker

import (
	"net/netip"
	"strings"
	"time"

	"netclass.dev/routing"
)

// sessions is what the speaker last said of each wanted session.
type sessions struct {
	order []routing.SessionKey
	known map[routing.SessionKey]*routing.Session
	told  map[routing.SessionKey]time.Time // Since as the process told it
}

func newSessions() sessions {
	return sessions{known: make(map[routing.SessionKey]*routing.Session), told: make(map[routing.SessionKey]time.Time)}
}

// want replaces the set of wanted sessions. What is known of those that stay is
// kept.
func (s *sessions) want(neighbors []routing.Neighbor) {
	known := make(map[routing.SessionKey]*routing.Session, len(neighbors))
	s.order = s.order[:0]
	for i := range neighbors {
		key := neighbors[i].Key
		if known[key] != nil {
			continue
		}
		s.order = append(s.order, key)
		if known[key] = s.known[key]; known[key] == nil {
			known[key] = &routing.Session{Key: key, Since: time.Now()}
		}
	}
	s.known = known
	for key := range s.told {
		if known[key] == nil {
			delete(s.told, key)
		}
	}
}

// list returns a copy; the paths are shared and never written again.
func (s *sessions) list() []routing.Session {
	list := make([]routing.Session, len(s.order))
	for i, key := range s.order {
		list[i] = *s.known[key]
	}
	return list
}

// report takes in what a process said. A new process knows nothing of how
// sessions ended before its time: that is kept until it has had the session up
// itself.
func (s *sessions) report(r *routing.Session) bool {
	old, ok := s.known[r.Key]
	if !ok {
		return false // no longer wanted; it will hear of it
	}
	s.date(r, old, time.Now())
	if r.State == routing.Established {
		r.Unsent = 1 // at first: the process says what else by itself
		if old.State == routing.Established {
			r.Unsent = old.Unsent
		}
	}
	if r.State != routing.Established && r.Cause == routing.CauseNone && old.Cause != routing.CauseNone {
		r.Cause, r.Since, r.PeerRestartTime = old.Cause, old.Since, old.PeerRestartTime
		if r.Detail == "" {
			r.Detail = old.Detail
		}
	}
	s.known[r.Key] = r
	return true
}

// unsent takes in what of which sessions has not left. It reports whether that is
// news.
func (s *sessions) unsent(counts map[routing.SessionKey]uint32) (news bool) {
	for key, old := range s.known {
		if old.Unsent == counts[key] {
			continue
		}
		n := *old
		n.Unsent = counts[key]
		s.known[key], news = &n, true
	}
	return news
}

// date gives a report's Since the process's own clock, which goes on evenly when
// somebody sets the time of day. From process to process only that time travels.
func (s *sessions) date(r, old *routing.Session, now time.Time) {
	told := r.Since
	if s.told[r.Key].Equal(told) {
		r.Since = old.Since
		return
	}
	s.told[r.Key] = told
	r.Since = now // where the time was set between the two
	if age := now.Round(0).Sub(told); age > 0 && age < time.Minute {
		r.Since = now.Add(-age)
	}
}

// lost ends every session: the process is gone, and with it its connections.
func (s *sessions) lost(now time.Time) {
	for key, old := range s.known {
		n := *old
		if old.State == routing.Established {
			n.Since, n.Cause, n.Detail = now, routing.CauseConnection, "the speaker process ended"
		}
		n.State, n.EndOfRIB, n.Received, n.Paths, n.Doubt = routing.Idle, false, 0, nil, false
		n.RouterID, n.Unsent = netip.Addr{}, 0
		s.known[key] = &n
	}
}

func joinErrors(errs []string) string { return strings.Join(errs, "; ") }
