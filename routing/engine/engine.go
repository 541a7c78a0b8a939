// Package engine is the one loop that owns everything: it reads the inputs, has
// the planner think, has the kernel and the speaker act, checks the result and
// publishes it.
//
// Events carry no data into it. They set a mark, and the next pass looks again,
// so that a lost, doubled or unreadable event never means more than "look".
package engine

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"netclass.dev/routing"
)

// Kernel is the hand that dumps, changes and watches the kernel.
type Kernel interface {
	// Dump returns a complete picture, or an error: never a part of one.
	Dump(context.Context) (*routing.Kernel, error)
	// Apply makes the changes of one stage. It returns nil, or one error (or
	// nil) for each op.
	Apply(context.Context, []routing.Op) []error
	// Watch calls notify on every event that matters, until ctx ends; dump says
	// whether the picture can no longer be trusted.
	Watch(ctx context.Context, notify func(dump bool)) error
	// SetRange says whose routes and which tables matter to Watch.
	SetRange([]routing.Protocol, []routing.TableID)
	// Probe asks whether a next hop on a link is alive.
	Probe(ctx context.Context, link string, hop netip.Addr) (alive bool, err error)
}

// Speaker is the hand that talks BGP.
type Speaker interface {
	// Set gives the whole wanted state; nil ends the speaker. It returns once
	// the speaker has confirmed it, or with ctx; the order stands either way.
	Set(context.Context, *routing.Speak) error
	Sessions() []routing.Session
	Status() routing.SpeakerStatus
	// Close ends the speaker, with CEASE to its peers or without a word.
	Close(cease bool) error
}

// Options are what an engine is made of.
type Options struct {
	Kernel    Kernel
	Speaker   Speaker
	Oracle    Oracle                    // nil: what the classes promise is not verified
	Inventory func() *routing.Inventory // never nil
	Node      func(*routing.Config) string
	StateDir  string // empty: nothing is remembered
	Version   string
	Log       *slog.Logger
	// Meddler says which other program has last changed a rule or route of ours,
	// and when. Nil: nobody can say, and no fight is noticed.
	Meddler func() (who string, at time.Time)
	// Alarm calls Look once, after a time that replaces the last one given. It is
	// for long waits, for which a timer of Go wakes an idle process dozens of
	// times. Nil: timers of Go do.
	Alarm func(time.Duration)
	// Passed is called by the loop after every pass, for who watches that it goes
	// on, and returns how long the next may be away at most; 0: any time. It must
	// not block.
	Passed func() (within time.Duration)
	// Unready says of each URL that upstreams wait for why it does not answer well;
	// empty: it does. Nil: none has been asked.
	Unready func() map[string]string
	// Unanswered reports whether the kernel has asked a next hop on a link in vain, for
	// all that it remembers. Nil: nobody can say.
	Unanswered func(ctx context.Context, link string, hop netip.Addr) bool
}

// Engine runs passes. All its fields but the marks and the published state
// belong to the goroutine of Run.
type Engine struct {
	opt     Options
	log     *slog.Logger
	started time.Time

	wake    chan struct{}          // one slot
	dump    atomic.Bool            // the picture can no longer be trusted
	deaf    atomic.Pointer[string] // why the kernel cannot be watched; nil: it is
	running atomic.Bool            // Run runs
	config  atomic.Pointer[configuration]
	shown   atomic.Pointer[published]
	drain   atomic.Pointer[drain]

	kernel     *routing.Kernel // the last confirmed picture; nil: none
	dumpedAt   time.Time
	mayDump    time.Time         // the next dump must not be earlier
	watched    routing.Ownership // what Watch was told matters
	ledger     ledger
	inventory  *routing.Inventory // with what was good of earlier ones
	sessions   sessions
	speaking   *routing.Speak // the newest order
	spoke      bool           // an order has been given
	draining   *drain         // of this pass
	failures   int            // passes in a row that had one
	conditions conditions
	unrouted   map[netip.Prefix]time.Time // pod CIDRs that main has no route to, since when
	fights     fights
	arrivals   arrivals
	gateways   gateways
	stats      routing.PassStatus

	verifier verifier // with a goroutine of its own
}

// configuration is a configuration in force and what came with it.
type configuration struct {
	config    *routing.Config // nil: idle
	status    routing.ConfigStatus
	passwords map[string]routing.Secret
}

// New returns an engine that idles until it is configured.
func New(opt Options) *Engine {
	e := &Engine{
		opt:     opt,
		log:     opt.Log,
		started: time.Now(),
		wake:    make(chan struct{}, 1),
		fights:  make(fights), arrivals: make(arrivals),
	}
	e.sessions.init(opt.Kernel, e.Look)
	e.conditions.quiet = e.started.Add(conditionQuiet)
	e.verifier.init(opt.Oracle)
	e.config.Store(&configuration{})
	e.drain.Store(&drain{})
	e.shown.Store(&published{state: &routing.State{
		Version: opt.Version, Started: e.started, Now: e.started,
		Health: routing.IdleState, Plan: &routing.Plan{}, Kernel: &routing.Kernel{},
	}, next: make(chan struct{})})
	e.dump.Store(true)
	return e
}

// Configure puts a configuration in force, from the next pass on.
func (e *Engine) Configure(c *routing.Config, status routing.ConfigStatus, passwords map[string]routing.Secret) {
	status.Config = c
	e.config.Store(&configuration{config: c, status: status, passwords: passwords})
	e.LookAndDump()
}

// Reject says why the newest configuration is not in force. The last good one
// stays.
func (e *Engine) Reject(reason string) {
	c := *e.config.Load()
	c.status.Error = reason
	e.config.Store(&c)
	e.Look()
}

// Look asks for a pass.
func (e *Engine) Look() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// LookAndDump asks for a pass that reads the kernel anew.
func (e *Engine) LookAndDump() {
	e.dump.Store(true)
	e.Look()
}

// Timing of the loop.
const (
	settle    = 10 * time.Millisecond // between passes, so that a burst of events costs one
	dumpGap   = 50 * time.Millisecond // between dumps, likewise, on the average
	dumpBurst = 2                     // dumps that may come earlier
	longWait  = time.Second           // from which on the alarm is better than a timer
	retryMin  = 100 * time.Millisecond
	retryMax  = 10 * time.Second
	deafGap   = 2 * time.Second // between dumps while the kernel cannot be watched
	// meddledLately is how fresh a sign of another program must be for what is
	// missing now to be its doing.
	meddledLately = time.Second
)

// Run passes until ctx ends. It leaves kernel and sessions as they are; Stop
// decides what becomes of them.
func (e *Engine) Run(ctx context.Context) {
	e.running.Store(true)
	defer e.running.Store(false)
	e.loadLedger()
	watching := make(chan struct{})
	go func() { defer close(watching); e.watch(ctx) }()
	verifying := make(chan struct{})
	go func() { defer close(verifying); e.verifying(ctx) }()
	defer func() { <-watching; <-verifying; e.sessions.wait() }()
	e.Look()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var passed time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		case <-timer.C:
		}
		// Only when the last pass was just now: in an idle process every timer
		// costs a dozen wakes.
		if rest := settle - time.Since(passed); rest > 0 {
			if !pause(ctx, rest) {
				return
			}
			select {
			case <-e.wake:
			default:
			}
		}
		next := e.pass(ctx)
		if e.opt.Passed != nil && ctx.Err() == nil {
			if within := e.opt.Passed(); within > 0 {
				next = min(next, within)
			}
		}
		if e.opt.Alarm != nil && next >= longWait {
			timer.Stop()
			e.opt.Alarm(next)
		} else {
			timer.Reset(next)
		}
		passed = time.Now()
	}
}

// watch keeps the kernel watched.
func (e *Engine) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := e.opt.Kernel.Watch(ctx, func(dump bool) {
			e.deaf.Store(nil)
			if dump {
				e.dump.Store(true)
			}
			e.Look()
		})
		if ctx.Err() != nil {
			return
		}
		why := "the watch has ended"
		if err != nil {
			why = err.Error()
		}
		if e.deaf.Swap(&why) == nil {
			e.LookAndDump()
		}
		pause(ctx, time.Second)
	}
}

// pause waits, and reports false when ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
