package bgp

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	"github.com/osrg/gobgp/v3/pkg/apiutil"
	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"netclass.dev/routing"
)

const (
	// resetPause is the least time between two resets of one neighbour: one
	// that only ever connects and closes must not keep us busy.
	resetPause = time.Second
	// limitPause is how long a neighbour that announced too much stays down.
	limitPause = time.Minute
	// restartPause is how long after a restart, once a session is up, the peer
	// gets our End-of-RIB. BIRD 2.0.12 holds back what it has to say until its
	// next KEEPALIVE when an End-of-RIB comes while it prepares it.
	restartPause = 150 * time.Millisecond
	// quietEOR is how long after its last UPDATE a peer without graceful
	// restart, which sends no End-of-RIB, is taken to have said all.
	quietEOR = time.Second
)

// session is one neighbour and what is known of its session.
type session struct {
	routing.Session
	neighbor routing.Neighbor
	addr     string
	failed   string // why GoBGP does not have it
	ended    string // how the last session ended

	added    time.Time // to GoBGP, last
	resetAt  time.Time // when to be reset; zero: not
	eorAt    time.Time // when to be taken to be complete; zero: not
	lastSeen time.Time // of its last UPDATE
	endAt    time.Time // when to be sent our End-of-RIB, after a restart; zero: not
	pulseAt  time.Time // when its connection is to be looked at; zero: not
	unsent   unsent    // what we said last
	end      ending    // what was heard of the present session's end
	look     bool      // its Adj-RIB-In is to be read
	report   bool      // the daemon is to be told
}

func newSession(n routing.Neighbor, addr string) *session {
	return &session{Session: routing.Session{Key: n.Key, Since: time.Now()}, neighbor: n, addr: addr}
}

// down notes the end of a session. Nothing that it announced remains.
func (p *session) down(now time.Time, cause routing.DownCause, detail string) {
	if p.State == routing.Established {
		p.Since, p.Cause = now, cause
	}
	p.State, p.Detail, p.ended = routing.Idle, detail, detail
	p.EndOfRIB, p.Received, p.Paths, p.Doubt, p.RouterID, p.Unsent = false, 0, nil, false, netip.Addr{}, 0
	p.pulseAt, p.eorAt, p.endAt, p.end, p.look, p.report = time.Time{}, time.Time{}, time.Time{}, ending{}, false, true
}

// unreached notes why the peer could not be dialled, behind how the session
// ended.
func (p *session) unreached(why string) {
	if p.neighbor.Password != "" && strings.HasSuffix(why, os.ErrDeadlineExceeded.Error()) {
		why += " (nor would there be to a wrong password)"
	}
	if p.ended != "" {
		why = p.ended + "; " + why
	}
	if p.State != routing.Established && p.Detail != why {
		p.Detail, p.report = why, true
	}
}

// digest takes in what GoBGP has said since the last time.
func (s *speaker) digest(now time.Time) {
	for _, h := range s.watch.take() {
		p, ok := s.sessions[h.addr]
		if !ok {
			continue // removed meanwhile
		}
		switch h.kind {
		case stateChanged:
			s.relisten = true
			s.changed(p, h, now)
		case updated:
			p.look, p.lastSeen = true, now
		case endOfRIB:
			p.EndOfRIB, p.eorAt, p.look, p.report = true, time.Time{}, true, true
		case holdExpired:
			p.end.holdTimer = true
		case notified:
			n := h.note
			p.end.notified = &n
			if p.State != routing.Established && p.Detail != n.String() {
				p.Detail, p.ended, p.report = n.String(), n.String(), true
			}
		case dialFailed:
			p.unreached(h.text)
		}
	}
	for _, p := range s.sessions {
		if p.look && p.State == routing.Established {
			s.read(p)
		}
		p.look = false
	}
}

// changed follows the session's state.
func (s *speaker) changed(p *session, h happening, now time.Time) {
	switch {
	case h.to == routing.Established:
		p.State, p.Since, p.Detail = h.to, now, ""
		p.end, p.lastSeen, p.report = ending{}, now, true
		if s.watch.isRestarting(p.addr) {
			p.endAt = now.Add(restartPause)
		}
		s.watch.setRestarting(p.addr, false)
		if !p.neighbor.Upstream {
			p.pulseAt = now
		}
		p.unsent, p.Unsent = unsent{since: now}, 1 // until it is looked at
		if at := now.Add(unsentAgain); s.unsentAt.IsZero() || at.Before(s.unsentAt) {
			s.unsentAt = at
		}
		s.established(p, now)
	case h.from == routing.Established:
		cause, detail := p.end.cause()
		overLimit := p.end.prefixLimit()
		p.down(now, cause, detail)
		p.State = h.to
		// We go on forwarding for the peer while the session is away, unless
		// one of us meant it to end.
		again := cause == routing.CauseConnection || cause == routing.CauseHoldTimer
		s.watch.setRestarting(p.addr, again && p.neighbor.RestartTime > 0)
		p.resetAt = now
		if overLimit {
			p.Detail += fmt.Sprintf(" (more than %d); again in %s", hardLimit(&p.neighbor), limitPause)
			p.resetAt = now.Add(limitPause)
		}
	default:
		if h.to == routing.OpenSent {
			p.unreached("connected, no OPEN from the peer yet")
		}
		if n := p.end.notified; h.from == routing.OpenSent && n != nil && n.sent && n.code == codeHoldTimer {
			p.ended, p.end = "connected, but no OPEN from the peer within "+openTime.String(), ending{}
			p.Detail = p.ended
		}
		if h.to == routing.Idle && h.from != routing.Idle {
			p.resetAt = later(now, p.added.Add(resetPause))
		}
		p.State, p.report = h.to, true
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// established asks for what the peer said in its OPEN.
func (s *speaker) established(p *session, now time.Time) {
	offered := false
	p.PeerRestartTime = 0
	_ = s.bgp.ListPeer(background, &api.ListPeerRequest{Address: p.addr}, func(peer *api.Peer) {
		if id, err := netip.ParseAddr(peer.GetState().GetRouterId()); err == nil && id.Is4() {
			p.RouterID = id
		}
		caps, err := apiutil.UnmarshalCapabilities(peer.GetState().GetRemoteCap())
		if err != nil {
			return
		}
		for _, c := range caps {
			if gr, ok := c.(*bgp.CapGracefulRestart); ok {
				offered = true
				p.PeerRestartTime = time.Duration(gr.Time) * time.Second
			}
		}
	})
	if !offered || p.neighbor.RestartTime == 0 {
		p.eorAt = now.Add(quietEOR)
	}
}

// tendSession does what is due for the session and returns when the next thing
// will be.
func (s *speaker) tendSession(p *session, now time.Time) time.Time {
	var next time.Time
	due := func(at *time.Time) bool {
		if at.IsZero() {
			return false
		}
		if !now.Before(*at) {
			*at = time.Time{}
			return true
		}
		if next.IsZero() || at.Before(next) {
			next = *at
		}
		return false
	}
	if due(&p.resetAt) {
		if err := s.reset(p); err != nil {
			p.failed, p.report = err.Error(), true
		}
	}
	if p.State != routing.Established {
		return next
	}
	if due(&p.endAt) {
		s.endRestart(p)
	}
	if due(&p.pulseAt) {
		p.pulseAt = s.feel(p, now)
		due(&p.pulseAt)
	}
	if quiet := p.lastSeen.Add(quietEOR); !p.eorAt.IsZero() && p.eorAt.Before(quiet) {
		p.eorAt = quiet
	}
	if due(&p.eorAt) {
		p.EndOfRIB, p.report = true, true
	}
	return next
}
