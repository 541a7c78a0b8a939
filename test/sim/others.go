package sim

import (
	"time"

	"netclass.dev/routing"
)

// mine returns the objects of ours that somebody might touch.
func (w *world) mine() []routing.Op {
	var ops []routing.Op
	k := w.kernel.Picture()
	for _, r := range k.Routes {
		if r.Protocol == ours && r.Table != strayTable {
			ops = append(ops, routing.Op{Verb: routing.Delete, Route: r.Wanted()})
		}
	}
	for _, r := range k.Rules {
		if r.Protocol == ours && r.Priority != strayPriority {
			ops = append(ops, routing.Op{Verb: routing.Delete, Rule: r})
		}
	}
	return ops
}

// meddle lets another daemon do something to what is ours.
func (w *world) meddle() {
	mine := w.mine()
	if len(mine) == 0 {
		return
	}
	op := mine[w.pick(len(mine))]
	switch w.pick(5) {
	case 0, 1:
		w.foreign(op)
	case 2:
		w.note("somebody deletes all our rules")
		for _, op := range mine {
			if op.IsRule() {
				w.must(w.kernel.Foreign(op))
				w.changed()
			}
		}
	case 3:
		if !op.IsRule() && op.Route.Dst.Bits() > 0 && op.Route.Via.IsValid() {
			op.Verb, op.Route.Via = routing.Replace, op.Route.Via.Next()
			w.foreign(op)
		}
	case 4: // everything of one table and family, as networkd does on a restart
		if op.IsRule() {
			return
		}
		w.note("somebody deletes all our routes of %s in table %d", op.Family(), op.Table())
		for _, o := range mine {
			if !o.IsRule() && o.Family() == op.Family() && o.Table() == op.Table() {
				w.must(w.kernel.Foreign(o))
			}
		}
		w.changed()
	}
}

func (w *world) foreign(op routing.Op) {
	if err := w.kernel.Foreign(op); err == nil {
		w.note("somebody else: %s", op)
		w.changed()
	}
}

// stands lets somebody put an object where one of ours is, or would be.
func (w *world) stands() {
	mine := w.mine()
	if len(mine) == 0 {
		return
	}
	op := mine[w.pick(len(mine))]
	if op.IsRule() {
		if isGuard(op) {
			return // half a guard of somebody else's would cut off what main delivers, without us
		}
		op.Verb, op.Rule.Protocol = routing.Add, routing.ProtocolStatic
	} else {
		op.Verb, op.Route.Protocol = routing.Replace, routing.ProtocolBIRD
	}
	w.foreign(op)
	if !op.IsRule() && op.Route.Table == routing.MainID {
		// Nobody hears of what others do in main: the resync finds it.
		w.engine.LookAndDump()
	}
}

// fight lets somebody undo the same again and again.
func (w *world) fight() {
	mine := w.mine()
	if len(mine) == 0 {
		return
	}
	op := mine[w.pick(len(mine))]
	all := w.pick(2) == 0
	w.note("somebody begins to delete %s", map[bool]string{true: "all our rules", false: op.String()}[all])
	for range 3 + w.pick(9) {
		for _, o := range w.mine() {
			if all && o.IsRule() || o == op {
				w.must(w.kernel.Foreign(o))
				w.changed()
			}
		}
		if w.pass(time.Duration(w.pick(1500)) * time.Millisecond); len(w.found) > 0 {
			return
		}
	}
}

// flushOurs lets somebody delete everything of ours.
func (w *world) flushOurs() {
	if len(w.mine()) == 0 {
		return
	}
	w.note("somebody deletes everything of ours")
	for _, op := range w.mine() {
		w.must(w.kernel.Foreign(op))
	}
	w.changed()
}
