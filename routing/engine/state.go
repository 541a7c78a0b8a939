package engine

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"netclass.dev/routing"
)

// published is a state and the sign that a newer one is there.
type published struct {
	state *routing.State
	next  chan struct{} // closed when the next is published
}

// State returns what the newest pass left.
func (e *Engine) State() *routing.State { return e.shown.Load().state }

// Wait returns the first state after a sequence number.
func (e *Engine) Wait(ctx context.Context, after uint64) (*routing.State, error) {
	for {
		p := e.shown.Load()
		if p.state.Sequence > after {
			return p.state, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.next:
		}
	}
}

// publish shows the state after a pass.
func (e *Engine) publish(conf *configuration, p *routing.Plan, pending []routing.Op) {
	for _, c := range p.Conditions {
		e.conditions.add(c.Object, c.Reason, c.Message)
	}
	e.fights.conditions(e.conditions.now, e.conditions.add)
	found := e.verifier.newest()
	e.violations(p, found)
	e.routers(p)
	e.lacking(p)
	s := e.newState(conf)
	s.Verified = found
	s.Plan, s.Kernel, s.Pending = p, e.kernel, pending
	s.Peers = e.peers(p)
	if e.inventory != nil {
		s.Inventory = *e.inventory
	}
	for i := range s.Peers {
		if err := s.Peers[i].Session.Detail; err != "" && s.Peers[i].Session.State != routing.Established {
			s.Peers[i].Reason = cmp.Or(s.Peers[i].Reason, err)
		}
	}
	e.show(s)
	e.present()
}

// republish shows the last state when the kernel could not be read. What was
// not as it should be then still is, as far as anybody knows.
func (e *Engine) republish(conf *configuration, err error) {
	e.conditions.repeat()
	e.conditions.add("kernel", dumpFailed, err.Error())
	last := e.State()
	s := e.newState(conf)
	s.Plan, s.Kernel, s.Pending, s.Peers, s.Inventory = last.Plan, last.Kernel, last.Pending, last.Peers, last.Inventory
	s.Verified = last.Verified
	e.show(s)
}

// idle shows that there is nothing to do.
func (e *Engine) idle(ctx context.Context, conf *configuration) {
	if e.speaking != nil {
		e.order(ctx, nil, withdrawTime)
	}
	e.sessions.want(nil, e.conditions.now)
	e.arrivals.end()
	e.gateways.endBut(nil)
	e.gateways = nil
	e.failures = 0
	e.stats.Ops, e.stats.Error, e.stats.Synced = 0, "", true
	e.verifier.learn(nil, time.Now()) // what was found is of another configuration
	s := e.newState(conf)
	s.Plan, s.Kernel = &routing.Plan{}, &routing.Kernel{}
	e.show(s)
}

func (e *Engine) newState(conf *configuration) *routing.State {
	if conf.status.Error != "" {
		e.conditions.add("config", "Rejected", conf.status.Error)
	}
	speaker := e.opt.Speaker.Status()
	if speaker.Wanted && speaker.PID == 0 {
		e.conditions.add("speaker", "NotRunning", cmp.Or(speaker.LastExit, "it is being started"))
	}
	if !speaker.Wanted && speaker.PID != 0 {
		e.conditions.add("speaker", "NotEnded", fmt.Sprintf("it has been told to end and is still there (pid %d)", speaker.PID))
	}
	for _, text := range speaker.Errors {
		e.conditions.add("speaker", "CannotDo", text)
	}
	s := &routing.State{
		Version: e.opt.Version, Node: e.nodeName(conf), Now: time.Now(), Started: e.started,
		Config: conf.status, Speaker: speaker, Drain: e.draining.status,
	}
	if e.speaking != nil {
		s.Announced = e.speaking.Announce
	}
	return s
}

func (e *Engine) nodeName(conf *configuration) string {
	if conf.config == nil {
		return e.opt.Node(&routing.Config{})
	}
	return e.opt.Node(conf.config)
}

func (e *Engine) show(s *routing.State) {
	s.Conditions = e.conditions.end(e.log)
	s.Health = health(s)
	last := e.shown.Load()
	s.Sequence = last.state.Sequence + 1
	e.stats.Took = time.Since(e.stats.At)
	s.Pass = e.stats
	e.shown.Store(&published{state: s, next: make(chan struct{})})
	close(last.next)
}

// peers joins what the planner says of each session with what the speaker says.
func (e *Engine) peers(p *routing.Plan) []routing.PeerStatus {
	peers := slices.Clone(p.Peers)
	adopted := make(map[netip.Addr]bool)
	for i := range p.Routes {
		if r := &p.Routes[i]; r.Metric == routing.MetricPath && r.Via.IsValid() && r.Dst.Bits() > 0 {
			adopted[r.Via] = true
		}
	}
	for i := range peers {
		s := e.sessions.of[peers[i].Neighbor.Key]
		if s == nil {
			continue
		}
		peers[i].Session, peers[i].Notes = s.lastSeen, notes(s.lastSeen.Paths)
		peers[i].Session.Paths = nil
		if s.silent {
			peers[i].Reason, peers[i].Aside = e.silent(p, s), uint32(len(s.paths))
		}
		if s.held && (len(s.paths) > 0 || adopted[s.neighbor.Remote]) {
			peers[i].Held, peers[i].HeldTill = true, s.until
		}
	}
	return peers
}

// notes returns what a node says of itself, with each of its paths alike.
func notes(paths []routing.Path) routing.Notes {
	for i := range paths {
		if n := paths[i].Notes; n != "" {
			return n
		}
	}
	return ""
}

// silent says why the paths of a session that is up are left aside. Where our own
// link is down all its peers are silent, which one condition is enough for: that of a
// class that waits for the link, if there is one.
func (e *Engine) silent(p *routing.Plan, s *session) string {
	const aside = ": its paths are left aside, though the session is up yet"
	link := s.neighbor.Link
	if !e.kernel.Link(link).Usable() {
		if !slices.ContainsFunc(p.Classes, func(c routing.ClassStatus) bool { return c.Class.Link == link && c.Health == routing.Waiting }) {
			e.conditions.add("link/"+link, "Down", "its peers cannot be reached: their paths are left aside, though the sessions are up yet")
		}
		return "link " + link + " is down" + aside
	}
	why := s.neighbor.Remote.String() + " does not answer on " + link + aside
	e.conditions.add("peer/"+s.lastSeen.Key.String(), "Silent", why)
	return why
}

// idles reports whether a state is that of a daemon without a configuration.
func idles(s *routing.State) bool { return s.Config.Config == nil || s.Config.Config.Idle() }

// health sums the state up in one word.
func health(s *routing.State) routing.Health {
	if idles(s) {
		if len(s.Conditions) > 0 {
			return routing.Degraded
		}
		return routing.IdleState
	}
	worst := routing.Ready
	for _, c := range s.Plan.Classes {
		switch c.Health {
		case routing.Degraded:
			return routing.Degraded
		case routing.Waiting:
			worst = routing.Waiting
		case routing.Shared:
			if worst == routing.Ready {
				worst = routing.Shared
			}
		case routing.Drained, routing.DrainingState:
			if worst != routing.Waiting {
				worst = c.Health
			}
		}
	}
	if degrading(s) {
		return routing.Degraded
	}
	if slices.ContainsFunc(s.Plan.Tables, func(t routing.TableStatus) bool { return t.Health == routing.Waiting }) {
		return routing.Waiting
	}
	return worst
}

// degrading reports whether something is wrong that no class shows.
func degrading(s *routing.State) bool {
	for _, c := range s.Conditions {
		if c.Reason == fightReason {
			return true
		}
		switch c.Object {
		case "kernel", "config", "inventory", "speaker", "state":
			return true
		}
		if c.Reason == misrouted {
			return true
		}
	}
	return s.Pass.Error != ""
}
