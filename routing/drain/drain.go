// Package drain takes this node out of its classes' traffic step by step, proves
// that nothing uses their links any more, and puts it back.
//
// One goroutine owns a machine whose every step is on disk before it is ordered:
// what has begun goes on after a restart, a crash and a reboot. Callers come and
// go; what they began goes on without them.
package drain

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"netclass.dev/routing"
)

// Engine is what carries out the steps.
type Engine interface {
	// SetDrain orders how far the node is taken out. The states that this made
	// have the very status given here as their Drain.
	SetDrain(routing.Draining, *routing.DrainStatus)
	State() *routing.State
	Wait(ctx context.Context, after uint64) (*routing.State, error)
}

// Lease is the lock in the Kubernetes API.
type Lease interface {
	ReadDrain(context.Context) (*routing.DrainLease, error)
	String() string // its name: "kube-system/netclass-drain"
	// WriteDrain writes the lease if it still has its Version, and returns what it
	// is then. Else the error is routing.ErrDrainConflict.
	WriteDrain(context.Context, *routing.DrainLease) (*routing.DrainLease, error)
}

// Options are what a Drainer is made of.
type Options struct {
	Engine Engine
	// Lease returns the lock of a name, or of no name the one that the configuration in
	// force names; nil: there is no Kubernetes API, and the lock is a marker in BGP.
	Lease    func(name string) Lease
	Counters func(context.Context) (map[string]routing.LinkCounters, error)
	StateDir string // empty: nothing is remembered
	Log      *slog.Logger
}

// Drainer drains this node. All its fields but the mailbox belong to the goroutine
// of Run.
type Drainer struct {
	opt  Options
	log  *slog.Logger
	wake chan struct{} // one slot

	mu      sync.Mutex
	mailbox []*caller
	closed  bool // nobody reads it any more

	rec       record                // on disk, but for moments
	status    *routing.DrainStatus  // as the engine was last told; nil: there is no drain
	callers   []*caller             // of what is being done
	turned    *caller               // who wants it undone
	said      progress              // as last logged
	seen      []routing.LinkRate    // when it was proved that the links are free
	costs     []string              // of the drain that is beginning
	toldAt    time.Time             // when anybody was told anything
	lock      string                // who keeps others from draining, for people
	scribe    *scribe               // writes what is said to the lease
	heard     lastHeard             // the request in the lease
	handled   map[string]time.Time  // requests of other nodes that have been taken up
	ended     map[string]bool       // drains of ours that have ended, by their ID
	cordonAt  time.Time             // when a cordon is heeded again
	waiting   *routing.DrainRequest // a cordon's that was refused
	rejoinAt  time.Time             // when the lease is looked at again
	rejoinOf  string                // its version then, as long as nobody changes it
	strangeAt time.Time             // since when its status has been another node's
	freeAt    time.Time             // when its release is tried again
	joined    string                // the lease that was won last
	joinAt    time.Time             // when one that is configured since is tried again
	oldAt     time.Time             // when those that are no longer configured are looked at again
}

// progress is what is logged once.
type progress struct {
	phase routing.DrainPhase
	step  routing.DrainStep
	error string
}

// New takes up what an earlier run was doing, and orders it before the engine's
// first pass.
func New(opt Options) *Drainer {
	d := &Drainer{
		opt: opt, log: opt.Log, wake: make(chan struct{}, 1),
		handled: make(map[string]time.Time), ended: make(map[string]bool),
	}
	d.scribe = newScribe(d.leaseOf, opt.Log)
	d.load()
	if d.rec.active() {
		d.log.Info("drain taken up", "phase", string(d.rec.Phase), "step", d.rec.Step.String(), "by", d.rec.Request.By)
		d.say("taken up again after a restart", nil)
	} else if d.rec.Releasing {
		d.stillNamed()
	} else if d.rec.Overridden {
		d.opt.Engine.SetDrain(d.rec.order(), nil)
	}
	return d
}

// Run drains and undrains as asked until ctx ends. What is under way then stays as
// it is, and is gone on with by the next run.
func (d *Drainer) Run(ctx context.Context) {
	var helpers sync.WaitGroup
	helpers.Go(func() { d.watch(ctx) })
	helpers.Go(func() { d.scribe.run(ctx) })
	defer helpers.Wait()
	// Nothing can be judged before the first pass.
	_, _ = d.opt.Engine.Wait(ctx, 0)
	for ctx.Err() == nil {
		switch d.rec.Phase {
		case routing.DrainGoing:
			d.drain(ctx)
		case routing.DrainDone:
			d.stay(ctx)
		case routing.DrainUndoing, routing.DrainBack:
			d.undo(ctx)
		default:
			d.idle(ctx)
		}
	}
	d.dismiss()
}

// watch turns new states into wakes.
func (d *Drainer) watch(ctx context.Context) {
	var seen uint64
	for {
		s, err := d.opt.Engine.Wait(ctx, seen)
		if err != nil {
			return
		}
		seen = s.Sequence
		d.poke()
	}
}

func (d *Drainer) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// pause waits for news, or until a time (zero: none). It fails only when ctx ends.
func (d *Drainer) pause(ctx context.Context, until time.Time) error {
	var due <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-d.wake:
	case <-due:
	}
	return nil
}

// pauseAloud is pause for those waits in which nothing is said: whoever asked from
// another node knows by what changes that this one is alive, and so it says now and
// then what it said last.
func (d *Drainer) pauseAloud(ctx context.Context, until time.Time) error {
	if !time.Now().Before(d.toldAt.Add(stuckTime)) {
		d.sayOn(d.status.Progress.Message, d.status.Progress.Rates)
	}
	return d.pause(ctx, soonest(until, d.toldAt.Add(stuckTime)))
}
