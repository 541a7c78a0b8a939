package sim

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// refuses lets the kernel refuse every change, or all of one kind.
func (w *world) refuses() {
	w.refuseAll = []error{unix.EPERM, unix.ENOMEM, unix.ENOBUFS}[w.pick(3)]
	kinds := []struct {
		name string
		is   func(routing.Op) bool
	}{
		{"every change", func(routing.Op) bool { return true }},
		{"guards", isGuard},
		{"fences", func(op routing.Op) bool { return !op.IsRule() && op.Route.Metric == routing.MetricFence }},
		{"rules", routing.Op.IsRule},
		{"deletions", func(op routing.Op) bool { return op.Verb == routing.Delete }},
		{"IPv6", func(op routing.Op) bool { return op.Family() == routing.IPv6 }},
		{"one in three", func(routing.Op) bool { return w.opCount%3 == 0 }},
	}
	kind := kinds[w.pick(len(kinds))]
	w.refused = kind.is
	w.note("the kernel refuses %s: %v", kind.name, w.refuseAll)
}

// opFails lets one of the next changes fail.
func (w *world) opFails() {
	err := []error{unix.EPERM, unix.EEXIST, unix.ENOBUFS, unix.EINVAL}[w.pick(4)]
	w.setTrap(w.pick(40), func(op routing.Op) error {
		w.note("  refused with %v: %s", err, op)
		return err
	})
}

func (w *world) setTrap(in int, do func(routing.Op) error) {
	w.trapIn, w.trap = in, do
}

func (w *world) dumpFails() {
	w.dumpsFail = 1 + w.pick(4)
	w.note("%d dumps are interrupted", w.dumpsFail)
}

// goesDeaf loses the kernel's events until the overrun is told.
func (w *world) goesDeaf() {
	w.note("events are lost")
	w.deaf = true
	w.kernel.SetDeaf(true)
}

// goesBlind ends the subscription to the kernel's events, and lets no other
// begin.
func (w *world) goesBlind() {
	if w.unwatched || w.deaf {
		return
	}
	w.note("the kernel can no longer be watched")
	w.unwatched = true
	w.renew()
}

// renew ends the subscription.
func (w *world) renew() {
	close(w.overrun)
	w.overrun, w.watched = make(chan struct{}), false
	w.changed()
}

// opTrap lets something happen between two changes of one pass.
func (w *world) opTrap() {
	kind := w.pick(5)
	w.setTrap(w.pick(60), func(op routing.Op) error {
		w.note("  before %s:", op)
		[]func(*world){(*world).linkDown, (*world).linkFlap, (*world).meddle, (*world).address, (*world).loopback}[kind](w)
		return nil
	})
}

// clear ends what is wrong with netlink.
func (w *world) clear() {
	if w.refuseAll != nil || w.deaf || w.unwatched || w.dumpsFail > 0 {
		w.note("netlink works again")
	}
	w.refuseAll, w.dumpsFail = nil, 0
	if w.deaf {
		w.deaf = false
		w.kernel.SetDeaf(false)
		w.renew()
	}
	if w.unwatched {
		w.unwatched = false
		w.changed()
	}
}

// diskFull keeps the daemon from writing its state, or lets it again.
func (w *world) diskFull() {
	if w.shifted {
		return // an old configuration must not be forgotten here
	}
	if w.full = !w.full; w.full {
		w.note("the state directory cannot be written")
		w.must(os.MkdirAll(filepath.Join(w.ledgerFile()+".new", "full"), 0o700)) // which cannot be written over
	} else {
		w.note("the state directory can be written")
		w.must(os.RemoveAll(w.ledgerFile() + ".new"))
	}
}
