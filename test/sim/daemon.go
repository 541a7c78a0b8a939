package sim

import (
	"slices"
	"strings"

	"netclass.dev/routing"
)

// crashLater kills the daemon between two changes.
func (w *world) crashLater() {
	in := w.pick(80)
	w.setTrap(in, func(op routing.Op) error {
		w.note("  kill -9 before %s", op)
		w.die()
		return nil
	})
	if w.pick(2) == 0 {
		w.flushOurs()
	}
}

// restart ends the daemon in one of the ways there are and starts the next.
func (w *world) restart() {
	how := w.pick(4)
	switch how {
	case 0, 1:
		w.note("kill -9")
		w.die()
		w.bury()
	case 2:
		w.end(routing.ExitKeep)
	case 3:
		w.end(routing.ExitFlush)
	}
	if how != 3 && w.pick(4) == 0 && !w.shifted {
		w.note("the state directory is lost")
		w.loseState()
	}
	w.listed.Synced = w.pick(4) > 0
	w.note("the daemon starts; inventory synced: %v", w.listed.Synced)
	w.start()
	w.changed()
}

// reload puts another configuration in force.
func (w *world) reload() {
	if w.plain {
		return
	}
	var chosen []variant
	for range w.pick(3) {
		v := variants[w.pick(len(variants))]
		if !slices.ContainsFunc(chosen, func(o variant) bool { return o.old == v.old || clash(o, v) }) {
			chosen = append(chosen, v)
		}
	}
	if w.full {
		w.diskFull()
	}
	w.note("reload: %s", names(chosen))
	w.shifted = true
	w.setConfig(chosen)
	w.look()
}

// clash reports whether two variants replace parts of one another's text.
func clash(a, b variant) bool {
	return len(a.old) > 0 && len(b.old) > 0 && (strings.Contains(a.old, b.old) || strings.Contains(b.old, a.old))
}

func names(chosen []variant) string {
	s := "the example's configuration"
	for _, v := range chosen {
		s += ", " + v.name
	}
	return s
}
