package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/plan"
)

// pass reads, plans, changes, checks and publishes, and returns when the next
// pass is due even if nothing happens.
func (e *Engine) pass(ctx context.Context) time.Duration {
	start := time.Now()
	conf := e.config.Load()
	cfg := conf.config
	e.stats.Passes++
	e.stats.At = start
	e.conditions.begin(start)
	e.draining = e.drain.Load()
	defer func() { e.stats.Took = time.Since(start) }()

	if cfg == nil || cfg.Idle() {
		e.idle(ctx, conf)
		return time.Hour
	}
	e.watchRange(cfg)
	e.deafness()
	if e.suspects(start) {
		e.dump.Store(true)
	}
	before, dumps := e.kernel, e.stats.Dumps
	err := e.look(ctx, cfg)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		e.stats.Error = err.Error()
		e.stats.Ops, e.stats.Synced = 0, false
		e.failures++
		e.republish(conf, err)
		return e.backoff()
	}
	p := plan.Make(e.inputs(ctx, conf))
	e.remember(p)
	dumped := e.stats.Dumps > dumps
	if !dumped {
		before = nil
	}
	missing, ops := e.changes(ctx, cfg, p, before)
	failed, ok := e.carryOut(ctx, cfg, p, ops)
	if !ok {
		return 0
	}
	pending := missing
	if len(ops) > 0 {
		pending = plan.Diff(p, e.kernel)
	}
	if e.sessions.want(p.Speak, time.Now()) {
		e.Look()
	}
	e.stats.Ops = len(ops)
	e.stats.Synced = p.Hold == "" && len(pending) == 0 && e.sessions.synced()
	if failed {
		e.failures++
		e.dump.Store(true)
	} else {
		e.failures = 0
		e.stats.Error = ""
	}
	e.reach(ctx, cfg, p, e.stats.Dumps != dumps)
	e.publish(conf, p, pending)
	e.verifier.passed(ops, dumped)
	return e.retry(cfg)
}

// changes returns what the kernel lacks of a plan, and of that what is to be done
// now. With before, the picture until now, it takes in what others have undone.
func (e *Engine) changes(ctx context.Context, cfg *routing.Config, p *routing.Plan, before *routing.Kernel) (missing, ops []routing.Op) {
	now := e.stats.At
	e.fights.forget(now)
	e.fights.withhold(now, p)
	missing = plan.Diff(p, e.kernel)
	if before != nil {
		e.noticeFights(now, missing, before)
	}
	return missing, e.await(ctx, now, cfg, e.fights.limit(now, missing, p, e.kernel))
}

// carryOut has speaker and kernel do it: what is no longer to be announced is
// withdrawn before any route that it leads to goes, and what is new is announced once
// its route is in. It reports false when it was cut short.
func (e *Engine) carryOut(ctx context.Context, cfg *routing.Config, p *routing.Plan, ops []routing.Op) (failed, ok bool) {
	e.withdraw(ctx, p, ops)
	failed = e.apply(ctx, ops)
	if ctx.Err() != nil {
		return failed, false
	}
	if e.firstOrderWaits(cfg) <= 0 {
		e.announce(ctx, p)
	}
	return failed, true
}

// retry says when to look again unasked: soon after a failure, when something
// held runs out, and at the resync time.
func (e *Engine) retry(cfg *routing.Config) time.Duration {
	next := time.Until(e.dumpedAt.Add(cfg.Daemon.Resync))
	if e.failures > 0 {
		next = e.backoff()
	}
	// What has become due while the pass was at it is for the next.
	if due, ok := e.sessions.due(e.stats.At); ok {
		next = min(next, time.Until(due))
	}
	if due, ok := e.lackDue(e.stats.At); ok {
		next = min(next, time.Until(due))
	}
	if due, ok := e.fights.due(e.stats.At); ok {
		next = min(next, time.Until(due))
	}
	if due, ok := e.arrivals.due(e.stats.At); ok {
		next = min(next, time.Until(due))
	}
	if e.deaf.Load() != nil {
		next = min(next, time.Until(e.dumpedAt.Add(deafGap)))
	}
	if wait := e.firstOrderWaits(cfg); wait > 0 {
		next = min(next, wait)
	}
	if e.draining.status != nil && e.unconfirmed() {
		next = min(next, confirmGap)
	}
	if wait := time.Until(e.conditions.quiet); wait > 0 && !e.inventory.Synced {
		next = min(next, wait)
	}
	return max(next, settle)
}

// backoff is the time to the next try after failures in a row.
func (e *Engine) backoff() time.Duration {
	return min(retryMin<<min(e.failures-1, 10), retryMax)
}

// look makes sure that the picture of the kernel can be trusted.
func (e *Engine) look(ctx context.Context, cfg *routing.Config) error {
	stale := e.kernel == nil || time.Since(e.dumpedAt) >= cfg.Daemon.Resync ||
		e.deaf.Load() != nil && time.Since(e.dumpedAt) >= deafGap
	if !e.dump.Load() && !stale {
		return nil
	}
	if gap := time.Until(e.mayDump); gap > 0 && !pause(ctx, gap) {
		return ctx.Err()
	}
	// What happens at once is told of by several events, of which the first must
	// not have to be the last for the look to be soon.
	if now := time.Now(); e.mayDump.Add(dumpBurst * dumpGap).Before(now) {
		e.mayDump = now.Add(-dumpBurst * dumpGap)
	}
	e.mayDump = e.mayDump.Add(dumpGap)
	// The mark is taken down before the dump, so that what happens during it
	// asks for another.
	e.dump.Store(false)
	k, err := e.opt.Kernel.Dump(ctx)
	if err != nil {
		e.dump.Store(true)
		return err
	}
	e.kernel, e.dumpedAt = k, time.Now()
	e.stats.Dumps++
	return nil
}

// watchRange says what of the kernel matters, before it is looked at: what
// happens from then on asks for another look.
func (e *Engine) watchRange(cfg *routing.Config) {
	own := cfg.Owns(ownership(e.ledger.Ledger))
	if !slices.Equal(own.Protocols, e.watched.Protocols) || !slices.Equal(own.Tables, e.watched.Tables) {
		e.opt.Kernel.SetRange(own.Protocols, own.Tables)
		e.watched = own
	}
}

// deafness says that nobody tells of changes, so that the kernel is read more
// often instead.
func (e *Engine) deafness() {
	if why := e.deaf.Load(); why != nil {
		e.conditions.add("kernel", notWatched, fmt.Sprintf("changes are not told of (%s): it is read every %v", *why, deafGap))
	}
}

// noticeFights takes in what others have undone. What the kernel itself drops,
// as with a link that flaps, is nobody's fight.
func (e *Engine) noticeFights(now time.Time, ops []routing.Op, before *routing.Kernel) {
	if e.opt.Meddler == nil || len(ops) == 0 {
		return
	}
	by, at := e.opt.Meddler()
	if now.Sub(at) > meddledLately {
		return
	}
	if e.fights.notice(now, ops, before, by) {
		e.Look() // a default may have to go
	}
}

// inputs gathers what the planner looks at.
func (e *Engine) inputs(ctx context.Context, conf *configuration) *routing.Inputs {
	e.recoverLinks(conf.config)
	node := e.opt.Node(conf.config)
	e.inventory = e.keepGood(conf.config, node, e.opt.Inventory())
	peerings := e.sessions.update(ctx, time.Now(), e.opt.Speaker.Sessions(), e.kernel)
	return &routing.Inputs{
		Config: conf.config, Node: node,
		Inventory: e.inventory, Kernel: e.kernel, Peerings: peerings,
		Ledger: &e.ledger.Ledger, Passwords: conf.passwords, Unread: conf.status.Unread, Speaking: e.speaking,
		Draining: e.draining.order, Unready: e.unready(),
	}
}

func (e *Engine) unready() map[string]string {
	if e.opt.Unready == nil {
		return nil
	}
	return e.opt.Unready()
}

// remember keeps what must not be forgotten, before anything is changed.
func (e *Engine) remember(p *routing.Plan) {
	if !e.ledger.looked {
		e.ledger.looked = true
		e.ledger.adopted = slices.ContainsFunc(e.kernel.Routes, func(r routing.Route) bool {
			return r.Via.IsValid() && r.Dst.Bits() > 0 && (r.Metric == routing.MetricPath && p.Own.HasRoute(&r) || p.Own.Adopts(&r))
		})
	}
	if err := e.saveLedger(routing.Ledger{
		Protocols: p.Own.Protocols, Tables: p.Own.Tables, Priorities: p.Own.Priorities, Links: p.Links, Holders: p.Holders,
		Drained: p.Drained, DrainPhases: p.DrainPhases, Adopted: e.unfinished(p),
	}); err != nil {
		e.conditions.add("state", "NotSaved", err.Error())
	}
}
