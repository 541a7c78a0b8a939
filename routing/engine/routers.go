package engine

import (
	"cmp"
	"fmt"
	"time"

	"netclass.dev/routing"
)

// comesUp is how long a session with a router may be down before it is worth a
// word: a router that restarts, and our own start, take less.
const comesUp = 10 * time.Second

// routers says which routers there is no session with, and that a class waits
// which leads to the world by a link where no router of a family is spoken to: it
// may well send, but nobody knows what to send to it.
func (e *Engine) routers(p *routing.Plan) {
	type side struct {
		link   string
		family routing.Family
	}
	down, spoken := make(map[side]string), make(map[side]bool)
	for i := range p.Peers {
		n := &p.Peers[i].Neighbor
		if !n.Upstream {
			continue
		}
		at := side{n.Link, n.Key.Family}
		s := e.sessions.of[n.Key]
		why := p.Peers[i].Reason // the planner has said so
		if s != nil {
			var reason string
			if reason, why = s.missing(e.conditions.now); reason != "" {
				e.conditions.add("peer/"+n.Key.String(), reason, why)
				p.Peers[i].Reason = cmp.Or(p.Peers[i].Reason, why)
			}
		}
		if why == "" {
			spoken[at] = true
		} else if down[at] == "" {
			down[at] = n.Key.Peer + ": " + why
		}
	}
	for i := range p.Classes {
		c := &p.Classes[i]
		if c.Health != routing.Ready || !c.Class.Gateway() {
			continue
		}
		for _, f := range routing.Families {
			if at := (side{c.Class.Link, f}); down[at] != "" && !spoken[at] {
				c.Health, c.Reason = routing.Waiting, fmt.Sprintf("no %s session with a router over %s: %s", f, at.link, down[at])
				break
			}
		}
	}
}

// missing says what there is instead of a session with a router, and why; "" while
// there is one, or while it may still be coming up.
func (s *session) missing(now time.Time) (reason, why string) {
	if s.up || now.Before(s.downAt.Add(comesUp)) {
		return "", ""
	}
	why = s.lastSeen.Detail
	if s.cause != routing.CauseNone {
		if why == "" {
			why = s.cause.String()
		}
		return "SessionDown", why
	}
	if why == "" {
		why = fmt.Sprintf("nothing answers at %s on %s", s.neighbor.Remote, s.neighbor.Link)
	}
	return "NoSession", why
}
