package engine

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"netclass.dev/routing"
)

// withdraw takes back at once what is no longer to be announced, before any
// route that it leads to goes.
func (e *Engine) withdraw(ctx context.Context, p *routing.Plan, ops []routing.Op) {
	if e.speaking == nil {
		return
	}
	if p.Speak == nil {
		e.order(ctx, nil, withdrawTime)
		return
	}
	type told struct {
		to     string
		prefix netip.Prefix
	}
	planned := make(map[told]*routing.Origin, len(p.Announce))
	for i := range p.Announce {
		o := &p.Announce[i]
		planned[told{o.To, o.Prefix}] = o
	}
	stays := backingOf(p.Announce, e.kernel)
	stays.without(ops)
	var still []routing.Announcement
	for _, a := range e.speaking.Announce {
		// What only gets other attributes is said anew below; a withdrawal in
		// between would move its packets.
		if o := planned[told{a.To, a.Prefix}]; o != nil && o.NextHop == a.NextHop && stays.has(o) {
			still = append(still, a)
		}
	}
	if len(still) == len(e.speaking.Announce) {
		return
	}
	less := *e.speaking
	less.Announce = still
	e.order(ctx, &less, withdrawTime)
}

// firstOrderWaits is how long the first order still waits for the nodes. It
// alone tells the peers that we have restarted and kept our routes, so that it
// has to name them; once their restart time is over it makes no difference.
func (e *Engine) firstOrderWaits(cfg *routing.Config) time.Duration {
	if e.spoke || !e.ledger.adopted || e.inventory.Known() || cfg.BGP == nil {
		return 0
	}
	return cfg.BGP.GracefulRestart - time.Since(e.started)
}

// announce gives the speaker the whole order, with every announcement whose
// route and rule are in the kernel.
func (e *Engine) announce(ctx context.Context, p *routing.Plan) {
	if p.Speak == nil {
		return
	}
	want := *p.Speak
	want.Announce = nil
	backed := backingOf(p.Announce, e.kernel)
	for i := range p.Announce {
		if o := &p.Announce[i]; backed.has(o) {
			want.Announce = append(want.Announce, o.Announcement)
		}
	}
	if !e.spoke {
		want.Restarting = e.ledger.adopted
	} else if e.speaking != nil {
		want.Restarting = e.speaking.Restarting
	}
	if e.speaking == nil || !equalSpeak(e.speaking, &want) {
		e.order(ctx, &want, announceTime)
	}
}

// Time to wait for the speaker. A withdrawal is worth waiting for; after that
// the order stands, and what it leads to comes back as an event.
const (
	withdrawTime = time.Second
	announceTime = 100 * time.Millisecond
)

// order gives the speaker an order. It stands even if the speaker does not
// confirm it now: the speaker's keeper gives it to the next one.
func (e *Engine) order(ctx context.Context, s *routing.Speak, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	e.speaking, e.spoke = s, true
	err := e.opt.Speaker.Set(ctx, s)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		e.log.Warn("speaker cannot carry out its order", "error", err)
	}
}

// backing is which routes and rules that announcements lead to are in the kernel.
type backing struct {
	routes map[routing.Route]bool
	rules  map[routing.Rule]bool
}

// backingOf looks for what the announcements lead to. Once through either list:
// there may be thousands of announcements, and of routes.
func backingOf(list []routing.Origin, k *routing.Kernel) backing {
	b := backing{make(map[routing.Route]bool), make(map[routing.Rule]bool)}
	asked := make(map[netip.Prefix]bool)
	for i := range list {
		if o := &list[i]; o.Needs.Dst.IsValid() {
			b.routes[o.Needs], asked[o.Needs.Dst] = false, true
		}
		if o := &list[i]; o.NeedsRule.Family != 0 {
			b.rules[o.NeedsRule] = false
		}
	}
	for i := 0; i < len(k.Routes) && len(asked) > 0; i++ {
		if r := &k.Routes[i]; asked[r.Dst] {
			if _, is := b.routes[r.Wanted()]; is {
				b.routes[r.Wanted()] = true
			}
		}
	}
	for _, r := range k.Rules {
		if _, is := b.rules[r]; is {
			b.rules[r] = true
		}
	}
	return b
}

// without takes out what ops delete or replace.
func (b *backing) without(ops []routing.Op) {
	replaced := make(map[routing.RouteKey]bool)
	for i := range ops {
		switch op := &ops[i]; {
		case op.IsRule() && op.Verb == routing.Delete:
			delete(b.rules, op.Rule)
		case op.IsRule():
		case op.Verb == routing.Delete:
			delete(b.routes, op.Route)
		case op.Verb == routing.Replace:
			replaced[op.Route.Key()] = true
		}
	}
	maps.DeleteFunc(b.routes, func(r routing.Route, _ bool) bool { return replaced[r.Key()] })
}

// has reports whether everything that an announcement leads to is there.
func (b *backing) has(o *routing.Origin) bool {
	return (!o.Needs.Dst.IsValid() || b.routes[o.Needs]) && (o.NeedsRule.Family == 0 || b.rules[o.NeedsRule])
}

func sameAnnouncement(a, b routing.Announcement) bool {
	return a.Prefix == b.Prefix && a.NextHop == b.NextHop && a.To == b.To &&
		a.LocalPreference == b.LocalPreference && a.MED == b.MED && a.Prepend == b.Prepend &&
		slices.Equal(a.Communities, b.Communities)
}

func equalSpeak(a, b *routing.Speak) bool {
	return a.ASN == b.ASN && a.RouterID == b.RouterID && a.Port == b.Port && a.Restarting == b.Restarting &&
		slices.Equal(a.Listen, b.Listen) && slices.Equal(a.Neighbors, b.Neighbors) &&
		slices.EqualFunc(a.Announce, b.Announce, sameAnnouncement)
}
