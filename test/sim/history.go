package sim

import (
	"os"
	"slices"
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
	if w.full || w.config.BGP.GracefulRestart == 0 || w.trap != nil || !w.listed.Synced || w.listed.Node(self) == nil || w.contested || w.broken() ||
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

// heal makes the cluster healthy and demands that every class is on its link.
func (w *world) heal() {
	w.note("the cluster is healed")
	k := w.kernel.Picture()
	if !k.Link("lo").Up {
		w.must(w.kernel.SetUp("lo", true))
	}
	w.must(w.kernel.SetNoIPv6("lo", false))
	if w.full {
		w.diskFull()
	}
	for _, l := range k.Links {
		if strings.HasPrefix(l.Name, "old-") {
			w.must(w.kernel.DeleteLink(l.Name))
		}
	}
	for _, h := range hosts() {
		switch l := w.kernel.Link(h.name); {
		case l == nil:
			w.makeLink(h)
		default:
			w.must(w.kernel.SetUp(h.name, true))
			w.must(w.kernel.SetNoIPv6(h.name, false))
			w.must(w.kernel.SetCarrier(h.name, true))
		}
		for _, a := range w.kernel.Link(h.name).Addrs {
			if !slices.Contains(h.addrs, a.Prefix) {
				w.must(w.kernel.DelAddr(h.name, a.Prefix))
			}
			w.must(w.kernel.SetTentative(h.name, a.Prefix, false))
			w.must(w.kernel.SetDADFailed(h.name, a.Prefix, false))
		}
		w.static(h.name)
	}
	w.healOthers()
	w.changed()
	w.look()
	w.pass(40 * time.Second)
	if len(w.found) > 0 {
		return
	}
	if !w.settled() || len(w.speaker.sessions) == 0 && !w.plain && w.config.Tables[0].Routes.Peers.Learn == routing.LearnBGP {
		st := w.engine.State()
		w.violated(8, "not healed: pass error %q, pending %v, conditions %v", st.Pass.Error, st.Pending, st.Conditions)
		return
	}
	w.classes()
	w.rest()
}

// healOthers sets peers, inventory and other daemons right.
func (w *world) healOthers() {
	k := w.kernel.Picture()
	for _, r := range k.Routes {
		_, mine := w.owned[r.Table]
		mine = mine || slices.ContainsFunc(w.config.Tables, func(t routing.Table) bool { return t.ID == r.Table && t.ID != routing.MainID })
		if r.Protocol != ours && (mine || r.Metric == routing.MetricGuard) {
			w.must(w.kernel.Foreign(routing.Op{Verb: routing.Delete, Route: r.Wanted()}))
		}
	}
	for _, r := range k.Rules {
		if r.Protocol == routing.ProtocolStatic && r.Priority != 5270 {
			w.must(w.kernel.Foreign(routing.Op{Verb: routing.Delete, Rule: r}))
		}
	}
	for _, n := range w.nodes {
		fresh := newNode(n.n)
		n.powered, n.speaks, n.silent, n.extra, n.says = true, true, fresh.silent, fresh.extra, fresh.says
	}
	w.contested = false
	w.list()
	w.listed.Synced, w.listed.Stale = true, ""
	for _, n := range w.nodes {
		w.speaker.say(n.name)
	}
	w.cni()
}

// classes demands that packets of each class use its link, exactly.
func (w *world) classes() {
	k := w.kernel.Picture()
	for _, n := range w.nodes[0:] {
		for _, f := range routing.Families {
			if n.name == self {
				continue
			}
			if v := w.pathOf(n, n.says.PodCIDRs[f/6%2]); v != yes {
				w.violated(8, "%s/%s has not come back in a healthy cluster", n.name, f)
			}
		}
	}
	if !w.plain {
		w.checkPackets(k)
	}
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
