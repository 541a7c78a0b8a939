package sim

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"netclass.dev/routing"
)

// Outcome is what came of one history.
type Outcome struct {
	Seed        uint64
	Events, Ops int
	History     []string // readable, one event a line
	Violations  []string
}

// Options are how histories are made.
type Options struct {
	Example string // the text of the configuration
	Older   string // another's, of the design before it, for some of the histories
	Dir     string // an empty directory for the daemon's state
	Trace   bool   // every change in the history, too
}

// Run plays the history of a seed in a bubble of its own time.
func Run(t *testing.T, seed uint64, o Options) (out Outcome) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(seed, o.Example, o.Dir)
		w.trace = o.Trace
		if seed%12 == 0 && o.Older != "" {
			w.example, w.plain = o.Older, true
		}
		w.mu.Lock()
		w.play()
		w.mu.Unlock()
		out = Outcome{Seed: seed, Events: w.events, Ops: w.opCount, History: w.history}
		for _, v := range w.found {
			out.Violations = append(out.Violations, v.text)
		}
	})
	_ = os.Remove(o.Dir + "/ledger.json")
	_ = os.Remove(o.Dir + "/ledger.json.new")
	return out
}

// play is one history: a start, some events, and the way back to a healthy
// cluster. It ends at the first violation.
func (w *world) play() {
	var chosen []variant
	if w.pick(2) == 0 && !w.plain {
		v := variants[w.pick(len(variants))]
		chosen = []variant{v}
	}
	w.note("configuration: %s", names(chosen))
	if w.plain {
		w.note("in its older design, with two tables")
	}
	w.setConfig(chosen)
	w.use(w.config)
	w.list()
	w.listed.Synced = w.pick(5) > 0
	switch w.pick(4) {
	case 0:
		w.opFails()
	case 1:
		w.opTrap()
	case 2:
		w.crashLater()
	}
	w.note("the daemon starts; inventory synced: %v", w.listed.Synced)
	w.start()
	w.pass(3 * time.Second)
	steps := 4 + w.pick(12)
	if w.pick(20) == 0 {
		steps *= 5
	}
	for range steps {
		if len(w.found) > 0 {
			break
		}
		w.step()
		w.pass(w.while())
	}
	if len(w.found) == 0 {
		w.quiesce()
	}
	if len(w.found) == 0 {
		w.heal()
	}
	if len(w.found) == 0 {
		w.finish()
	}
	if w.engine != nil {
		w.die()
		w.bury()
	}
	w.wait(0)
}

// while is how long it is until the next event.
func (w *world) while() time.Duration {
	switch w.pick(6) {
	case 0:
		return time.Duration(w.pick(5)) * time.Millisecond
	case 1, 2:
		return time.Duration(w.pick(120)) * time.Millisecond
	case 3, 4:
		return time.Duration(w.pick(3000)) * time.Millisecond
	}
	return time.Duration(w.pick(25)) * time.Second
}

// pass lets time pass, looking at the world from time to time, and starts the
// next daemon when this one was killed.
func (w *world) pass(d time.Duration) {
	often, steps := 900*time.Millisecond, 0
	for d >= 0 && len(w.found) == 0 {
		step := min(max(d, time.Millisecond), often)
		if steps++; steps == 6 {
			often *= 4
		}
		w.wait(step)
		d -= step
		if d == 0 {
			d = -1
		}
		if w.crashed {
			w.bury()
			w.note("the daemon starts again")
			w.start()
			w.changed()
			continue
		}
		w.check()
	}
}

// end stops the daemon in good order.
func (w *world) end(policy routing.ExitPolicy) {
	w.note("stop: %s", policy)
	w.trap = nil
	broken := w.refuseAll != nil || w.dumpsFail > 0
	before := w.opCount
	w.stop()
	done, e, h := w.done, w.engine, w.hand
	w.mu.Unlock()
	<-done
	w.mu.Lock()
	h.pass.disturb = true // the pass under way was cut off
	h.newPass()
	h.flush = policy == routing.ExitFlush
	begun := w.opCount
	w.mu.Unlock()
	err := e.Stop(policy)
	w.mu.Lock()
	switch {
	case policy == routing.ExitFlush && !w.ceased:
		w.violated(7, "flush without CEASE")
	case policy == routing.ExitKeep && w.ceased:
		w.violated(7, "CEASE though everything is kept")
	case policy == routing.ExitKeep && w.opCount != begun:
		w.violated(7, "stopping with keep changed the kernel (%d ops, %d before)", w.opCount-begun, before)
	case policy == routing.ExitFlush && err == nil:
		for _, op := range w.mine() {
			w.violated(7, "left by flush: %s", strings.TrimPrefix(op.String(), "delete "))
		}
	case policy == routing.ExitFlush && !broken:
		w.violated(7, "flush failed: %v", err)
	}
	h.dead = true
}

// finish ends the daemon for good.
func (w *world) finish() {
	if w.pick(2) == 0 {
		w.end(routing.ExitFlush)
	} else {
		w.end(routing.ExitKeep)
	}
	w.stop()
}
