package sim

import (
	"os"
	"slices"
	"time"

	"netclass.dev/routing"
)

// quiesce ends what goes on, and demands that the daemon has done what can be
// done in the world as it has become, then has nothing more to do, and that the
// next daemon has nothing to do either.
func (w *world) quiesce() {
	w.note("the world comes to rest")
	w.clear()
	w.trap = nil
	w.pass(28 * time.Second)
	if len(w.found) > 0 {
		return
	}
	if w.fighting() {
		w.pass(65 * time.Second)
	}
	if !w.settled() {
		st := w.engine.State()
		w.violated(8, "not at rest: pass error %q, pending %v, sequence %d since %d", st.Pass.Error, st.Pending, st.Sequence, w.since)
		return
	}
	w.rest()
}

// rest demands that nothing is done where nothing has happened.
func (w *world) rest() {
	ops, orders := w.opCount, w.speaker.orders
	w.engine.LookAndDump()
	w.pass(3 * time.Second)
	if w.opCount != ops || w.speaker.orders != orders {
		w.violated(6, "a pass over unchanged inputs makes %d changes and gives %d orders", w.opCount-ops, w.speaker.orders-orders)
	}
}

// quietRestart is a restart in which nothing is to change, provided that the
// world has come to rest.
func (w *world) quietRestart() {
	if w.imports() || w.full || w.config.BGP.GracefulRestart == 0 || w.trap != nil || !w.listed.Synced || w.listed.Node(self) == nil || w.contested || w.broken() ||
		!w.addressUsable("ingress0", addr("10.47.0.1")) || !w.addressUsable("ingress0", addr("fd00:47::1")) { // remembered by a running daemon only
		return
	}
	w.clear()
	w.pass(25 * time.Second)
	if len(w.found) > 0 || !w.settled() || w.fighting() {
		return
	}
	kill := w.pick(2) == 0
	if kill {
		w.note("kill -9 at rest")
		w.die()
		w.bury()
	} else {
		w.end(routing.ExitKeep)
	}
	if w.pick(3) == 0 && !w.shifted && w.addressed() {
		w.note("the state directory is lost")
		w.loseState()
	}
	before := w.opCount
	w.listed.Synced = false
	w.note("the daemon starts, and reads the inventory a moment later")
	w.start()
	w.changed()
	w.pass(time.Duration(w.pick(3000)) * time.Millisecond)
	w.listed.Synced = true
	w.look()
	w.pass(15 * time.Second)
	if n := w.opCount - before; n > 0 && len(w.found) == 0 {
		w.violated(5, "a restart at rest makes %d changes", n)
	}
}

// broken reports whether an annotation is such that only this daemon knows what
// it was before.
func (w *world) broken() bool {
	return slices.ContainsFunc(w.nodes, func(n *node) bool {
		for _, f := range routing.Families {
			if n.says.Annotations["net.renner.uno/pod0-v"+f.String()[3:]] != podAddr(n.n, f).String() {
				return true
			}
		}
		return false
	})
}

// addressed reports whether the class links show their networks, so that
// a daemon without memory knows them.
func (w *world) addressed() bool {
	k := w.kernel.Picture()
	return !slices.ContainsFunc(hosts()[:4], func(h host) bool {
		return len(networks(k.Link(h.name), routing.IPv4)) == 0 || len(networks(k.Link(h.name), routing.IPv6)) == 0
	})
}

func (w *world) loseState() {
	_ = os.Remove(w.ledgerFile())
}
