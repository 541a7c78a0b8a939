package speaker

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	speakerv1 "netclass.dev/proto/netclass/speaker/v1"
	"netclass.dev/routing"
)

const (
	// A neighbour whose message crashed the process is left out for this long,
	// doubling each time, so that one peer cannot keep all others down.
	firstQuarantine = 15 * time.Second
	maxQuarantine   = 30 * time.Minute
	// goodConduct after its last quarantine, a neighbour begins anew.
	goodConduct = 10 * time.Minute
)

// quarantine holds the neighbours that crashed the process, by address.
type quarantine map[string]*sentence

type sentence struct {
	until time.Time
	term  time.Duration
	why   string
}

// put leaves the neighbour out for a while.
func (q quarantine) put(addr, why string, now time.Time) time.Duration {
	s := q[addr]
	if s == nil || now.Sub(s.until) > goodConduct {
		s = &sentence{}
		q[addr] = s
	}
	s.term = min(max(2*s.term, firstQuarantine), maxQuarantine)
	s.until, s.why = now.Add(s.term), why
	return s.term
}

// holds reports whether the neighbour is left out.
func (q quarantine) holds(n *routing.Neighbor, now time.Time) bool {
	s := q[n.Remote.String()]
	return s != nil && now.Before(s.until)
}

// filter returns the order without the neighbours that are left out.
func (q quarantine) filter(m *speakerv1.Speak, neighbors []routing.Neighbor, now time.Time) *speakerv1.Speak {
	var kept []*speakerv1.Neighbor
	for i := range neighbors {
		if !q.holds(&neighbors[i], now) {
			kept = append(kept, m.Neighbors[i])
		}
	}
	if len(kept) == len(m.Neighbors) {
		return m
	}
	m = proto.CloneOf(m)
	m.Neighbors = kept
	return m
}

// blame leaves out the neighbour that made the process panic. It is called with
// s.mu held.
func (s *Speaker) blameLocked(addr, why string, now time.Time) {
	for i := range s.neighbors {
		n := &s.neighbors[i]
		if n.Remote.String() != addr {
			continue
		}
		term := s.quarantine.put(addr, why, now)
		old := s.state.known[n.Key]
		if old == nil {
			return
		}
		x := *old
		x.Cause, x.Since = routing.CauseError, now
		x.Detail = fmt.Sprintf("it crashed the speaker; left out for %s: %s", term, why)
		s.state.known[n.Key] = &x
		time.AfterFunc(term, s.parole)
		s.cfg.Log.Warn("peer left out", "peer", n.Key.String(), "address", addr, "for", term, "crash", why)
		return
	}
}

// parole gives the process the neighbours whose time is over.
func (s *Speaker) parole() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != nil && s.want != nil {
		s.child.order(s.orderLocked())
	}
}
