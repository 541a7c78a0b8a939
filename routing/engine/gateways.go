package engine

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"netclass.dev/routing"
)

// A gateway that is gone while its link has carrier takes with it all that leaves by a
// default. Nobody tells of that: it is asked where something speaks against it, which
// is that the kernel has asked it in vain, or that a session with it has ended. Its
// default stays all the same, as there is no other way to the world by that link; what
// is lost is said.
const (
	gatewayAgain = time.Second      // between two times of asking one that is silent
	gatewayGap   = 10 * time.Second // between two of one that has answered, at least
)

// gateway is what is known of the next hop of a default.
type gateway struct {
	askedAt time.Time
	asking  atomic.Bool
	silent  atomic.Bool // it has not answered twice in a row
	end     context.CancelFunc
}

// gateways are the next hops of our defaults.
type gateways map[nextHop]*gateway

// reach says which gateways do not answer, and that a class waits which leads to the
// world by one. Dumped says that the kernel was read in this pass.
func (e *Engine) reach(ctx context.Context, cfg *routing.Config, p *routing.Plan, dumped bool) {
	still := make(gateways)
	for i := range p.Routes {
		r := &p.Routes[i]
		if r.Dst.Bits() > 0 || !r.Via.IsValid() || !e.kernel.Link(r.Link).Usable() {
			continue
		}
		hop := nextHop{r.Link, r.Via}
		g := e.gateways[hop]
		if g == nil {
			g = &gateway{}
		}
		still[hop] = g
		if !g.asking.Load() && e.conditions.now.Sub(g.askedAt) >= gatewayGap && (e.estranged(cfg, hop) || dumped && e.unanswered(ctx, hop)) {
			e.askGateway(ctx, hop, g)
		}
		if g.silent.Load() {
			e.unreached(p, r)
		}
	}
	e.gateways.endBut(still)
	e.gateways = still
}

// estranged reports whether a session with a gateway has ended, or is about to.
func (e *Engine) estranged(cfg *routing.Config, hop nextHop) bool {
	if cfg.BGP == nil {
		return false
	}
	for i := range cfg.BGP.Upstreams {
		key := routing.SessionKey{Peer: cfg.BGP.Upstreams[i].Name, Family: routing.FamilyOf(hop.addr)}
		s := e.sessions.of[key]
		if s == nil || s.neighbor.Link != hop.link || s.neighbor.Remote != hop.addr {
			continue
		}
		late := !e.conditions.now.Before(s.downAt.Add(comesUp))
		if s.doubt || !s.up && (late || s.cause != routing.CauseNone) {
			return true
		}
	}
	return false
}

func (e *Engine) unanswered(ctx context.Context, hop nextHop) bool {
	return e.opt.Unanswered != nil && e.opt.Unanswered(ctx, hop.link, hop.addr)
}

// askGateway has a gateway asked in the background: once where it answers, else until
// it does.
func (e *Engine) askGateway(ctx context.Context, hop nextHop, g *gateway) {
	ctx, end := context.WithCancel(ctx)
	g.askedAt, g.end = e.conditions.now, end
	g.asking.Store(true)
	p := &e.sessions.prober
	p.tasks.Go(func() {
		defer g.asking.Store(false)
		defer end()
		for silent := 0; ctx.Err() == nil; pause(ctx, gatewayAgain) {
			alive, known := p.answers(ctx, e.opt.Kernel, hop)
			switch {
			case ctx.Err() != nil, !known && silent == 0:
				return
			case !known:
			case alive:
				if g.silent.Swap(false) {
					e.Look()
				}
				return
			default:
				if silent++; silent == 2 {
					g.silent.Store(true)
					e.Look()
				}
			}
		}
	})
}

// unreached says of a default that its gateway does not answer.
func (e *Engine) unreached(p *routing.Plan, r *routing.Route) {
	why := fmt.Sprintf("gateway %s does not answer on %s: what leaves by the default is lost", r.Via, r.Link)
	for i := range p.Tables {
		if t := &p.Tables[i]; t.ID == r.Table {
			e.conditions.add("table/"+t.Name, "GatewaySilent", why)
		}
	}
	for i := range p.Classes {
		c := &p.Classes[i]
		out := slices.ContainsFunc(c.Class.Traffic, func(t routing.Traffic) bool { return t.To == routing.World })
		if out && c.Class.Link == r.Link && (c.Health == routing.Ready || c.Health == routing.Shared) {
			c.Health, c.Reason = routing.Waiting, why
		}
	}
}

// endBut ends the asking of all but some.
func (gs gateways) endBut(still gateways) {
	for hop, g := range gs {
		if still[hop] == nil && g.end != nil {
			g.end()
		}
	}
}
