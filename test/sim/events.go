package sim

import (
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// event is one thing that may happen, with how often it does.
type event struct {
	weight int
	do     func(*world)
}

var events = []event{
	{6, (*world).linkDown}, {4, (*world).linkUp}, {4, (*world).linkFlap}, {3, (*world).carrier}, {3, (*world).linkGone}, {1, (*world).linkRenamed},
	{2, (*world).loopback}, {2, (*world).ipv6}, {1, (*world).diskFull}, {4, (*world).address}, {2, (*world).tentative}, {3, (*world).renumbered},
	{5, (*world).peerEnds}, {4, (*world).peerReturns}, {3, (*world).peerSays}, {2, (*world).speakerDies},
	{4, (*world).nodeChanges}, {1, (*world).nodesVanish}, {5, (*world).nodesSync}, {2, (*world).annotation},
	{6, (*world).meddle}, {2, (*world).stands}, {4, (*world).refuses}, {2, (*world).opFails}, {2, (*world).dumpFails}, {1, (*world).goesDeaf}, {1, (*world).goesBlind}, {1, (*world).fight},
	{3, (*world).opTrap}, {4, (*world).restart}, {2, (*world).crashLater}, {3, (*world).reload}, {2, (*world).quietRestart}, {2, (*world).clear},
}

func (w *world) pick(n int) int { return w.rng.IntN(n) }

// step lets one event happen.
func (w *world) step() {
	total := 0
	for _, e := range events {
		total += e.weight
	}
	at := w.pick(total)
	for _, e := range events {
		if at -= e.weight; at < 0 {
			w.events++
			e.do(w)
			return
		}
	}
}

func (w *world) someLink() string { return hosts()[w.pick(5)].name }

func (w *world) linkDown() { w.setUp(w.someLink(), false) }

func (w *world) setUp(link string, up bool) {
	if w.kernel.Link(link) == nil {
		return
	}
	w.note("link %s %s", link, map[bool]string{true: "up", false: "down"}[up])
	w.must(w.kernel.SetUp(link, up))
	if up {
		w.static(link)
	}
	w.changed()
}

// static gives a link back the addresses that its configuration has, and main
// its routes.
func (w *world) static(link string) {
	for _, h := range hosts() {
		for _, a := range h.addrs {
			if h.name == link {
				_ = w.kernel.AddAddr(link, a)
			}
		}
	}
	w.cni()
}

func (w *world) linkUp() {
	for _, h := range hosts() {
		if l := w.kernel.Link(h.name); l == nil || !l.Up {
			w.linkBack(h)
			return
		}
	}
}

func (w *world) linkBack(h host) {
	if w.kernel.Link(h.name) == nil {
		if old := "old-" + h.name; w.kernel.Link(old) != nil {
			if w.pick(2) == 0 {
				w.note("link %s has its name again", h.name)
				w.must(w.kernel.RenameLink(old, h.name))
				w.changed()
				return
			}
			w.must(w.kernel.DeleteLink(old)) // its addresses are the new one's
		}
		w.note("link %s is made anew", h.name)
		w.makeLink(h)
		w.cni()
		w.changed()
		return
	}
	w.setUp(h.name, true)
}

// linkFlap is over before anybody looks: links and addresses are as they were.
func (w *world) linkFlap() {
	link := w.someLink()
	l := w.kernel.Link(link)
	if l == nil || !l.Up {
		return
	}
	w.note("link %s flaps", link)
	w.must(w.kernel.SetUp(link, false))
	w.must(w.kernel.SetUp(link, true))
	for _, a := range l.Addrs {
		_ = w.kernel.AddAddr(link, a.Prefix)
	}
	if !l.Carrier {
		w.must(w.kernel.SetCarrier(link, false))
	}
	w.cni()
	w.changed()
}

func (w *world) carrier() {
	link := w.someLink()
	l := w.kernel.Link(link)
	if l == nil || !l.Up {
		return
	}
	w.note("carrier of %s: %v", link, !l.Carrier)
	w.must(w.kernel.SetCarrier(link, !l.Carrier))
	w.changed()
}

func (w *world) linkGone() {
	link := w.someLink()
	if w.kernel.Link(link) == nil {
		return
	}
	w.note("link %s is removed", link)
	w.must(w.kernel.DeleteLink(link))
	w.changed()
}

func (w *world) linkRenamed() {
	link := w.someLink()
	if w.kernel.Link(link) == nil || w.kernel.Link("old-"+link) != nil {
		return
	}
	w.note("link %s is renamed", link)
	w.must(w.kernel.RenameLink(link, "old-"+link))
	w.changed()
}

func (w *world) loopback() {
	l := w.kernel.Link("lo")
	w.note("lo up: %v", !l.Up)
	w.must(w.kernel.SetUp("lo", !l.Up))
	w.changed()
}

// ipv6 switches IPv6 off on a link, or on again.
func (w *world) ipv6() {
	name := "lo"
	if w.pick(2) == 0 {
		name = w.someLink()
	}
	l := w.kernel.Link(name)
	if l == nil {
		return
	}
	w.note("IPv6 of %s: %v", name, l.NoIPv6)
	w.must(w.kernel.SetNoIPv6(name, !l.NoIPv6))
	if l.NoIPv6 {
		w.static(name)
	}
	w.changed()
}

// diskFull keeps the daemon from writing its state, or lets it again.
func (w *world) diskFull() {
	if w.shifted {
		return // an old configuration must not be forgotten here
	}
	if w.full = !w.full; w.full {
		w.note("the state directory cannot be written")
		w.must(os.Mkdir(w.ledgerFile()+".new", 0o700))
	} else {
		w.note("the state directory can be written")
		w.must(os.Remove(w.ledgerFile() + ".new"))
	}
}

// address takes an address away or gives it back.
func (w *world) address() {
	h := hosts()[w.pick(5)]
	a := h.addrs[w.pick(2)]
	l := w.kernel.Link(h.name)
	if l == nil {
		return
	}
	if slices.ContainsFunc(l.Addrs, func(la routing.LinkAddr) bool { return la.Prefix == a }) {
		w.note("address %s of %s is removed", a, h.name)
		w.must(w.kernel.DelAddr(h.name, a))
	} else {
		w.note("address %s of %s is added", a, h.name)
		w.must(w.kernel.AddAddr(h.name, a))
		w.cni()
	}
	w.changed()
}

func (w *world) tentative() {
	h := hosts()[w.pick(4)]
	on, failed := w.pick(2) == 0, w.pick(3) == 0
	if w.kernel.Link(h.name) == nil {
		return
	}
	w.note("address %s of %s tentative: %v, duplicate: %v", h.addrs[1], h.name, on, failed)
	w.must(w.kernel.SetTentative(h.name, h.addrs[1], on))
	w.must(w.kernel.SetDADFailed(h.name, h.addrs[1], failed))
	w.changed()
}

// renumbered gives pod0 another network, beside its own or in its place.
func (w *world) renumbered() {
	l := w.kernel.Link("pod0")
	if l == nil {
		return
	}
	i := w.pick(2)
	old, fresh := hosts()[3].addrs[i], []netip.Prefix{prefix("10.49.0.1/24"), prefix("fd00:49::1/64")}[i]
	switch w.pick(4) {
	case 0:
		w.note("pod0 has the network of %s too", fresh)
		w.must(w.kernel.AddAddr("pod0", fresh))
	case 1:
		w.note("pod0 loses %s", fresh)
		w.must(w.kernel.DelAddr("pod0", fresh))
	case 2:
		w.note("pod0 is renumbered from %s to %s", old, fresh)
		w.must(w.kernel.AddAddr("pod0", fresh))
		w.must(w.kernel.DelAddr("pod0", old))
	case 3:
		w.note("pod0 is renumbered from %s to %s, the old one gone first", old, fresh)
		w.must(w.kernel.DelAddr("pod0", old))
		w.must(w.kernel.AddAddr("pod0", fresh))
	}
	w.changed()
}

func (w *world) somePeer() *node {
	if len(w.nodes) < 2 {
		return nil
	}
	n := w.nodes[w.pick(len(w.nodes))]
	if n.name == self {
		return nil
	}
	return n
}

// peerEnds ends a peer's sessions in one of the ways that there are.
func (w *world) peerEnds() {
	n := w.somePeer()
	if n == nil {
		return
	}
	switch w.pick(6) {
	case 0:
		w.note("%s says CEASE and is gone", n.name)
		n.speaks = false
		w.speaker.endPeer(n.name, routing.CauseCease)
	case 1:
		w.note("the daemon of %s ends, its sessions close", n.name)
		n.speaks = false
		w.speaker.endPeer(n.name, routing.CauseConnection)
	case 2:
		w.note("the daemon of %s restarts", n.name)
		w.speaker.endPeer(n.name, routing.CauseConnection)
	case 3:
		w.note("%s loses power", n.name)
		n.powered, n.speaks, n.since = false, false, time.Now()
	case 4:
		w.note("the daemon of %s ends, then it loses power", n.name)
		n.powered, n.speaks, n.since = false, false, time.Now()
		w.speaker.endPeer(n.name, routing.CauseConnection)
	case 5:
		w.note("a session with %s ends by a NOTIFICATION", n.name)
		w.speaker.endPeer(n.name, routing.CauseError)
	}
	w.look()
}

func (w *world) peerReturns() {
	for _, n := range w.nodes {
		if n.name != self && (!n.powered || !n.speaks) {
			n.offers = []int{10, 10, 5, 0}[w.pick(4)]
			w.note("%s is back, and offers a restart time of %d s", n.name, n.offers)
			n.powered, n.speaks, n.since = true, true, time.Now()
			w.look()
			return
		}
	}
}

// peerSays lets a peer withdraw its pod CIDRs, announce them again, or announce
// what is not its own.
func (w *world) peerSays() {
	n := w.somePeer()
	if n == nil {
		return
	}
	f := routing.Families[w.pick(2)]
	if w.pick(2) == 0 {
		n.silent[f] = !n.silent[f]
		w.note("%s announces its %s pod CIDR: %v", n.name, f, !n.silent[f])
	} else {
		lies := []string{"0.0.0.0/0", "10.244.1.0/24", "10.244.3.0/24", "10.244.2.64/26", "10.244.9.0/24", "10.46.0.0/24", "192.0.2.0/24"}
		if f == routing.IPv6 {
			lies = []string{"::/0", "fd00:10:244:1::/64", "fd00:10:244:3::/64", "fd00:10:244:2:8000::/66", "fd00:10:244:9::/64", "fd00:46::/64", "2001:db8::/32"}
		}
		p := routing.Path{Prefix: prefix(lies[w.pick(len(lies))]), NextHop: podAddr(n.n, f)}
		if w.pick(4) == 0 {
			p = routing.Path{Prefix: n.says.PodCIDRs[f/6%2], NextHop: podAddr(n.n+50, f)}
		}
		n.extra[f] = append(n.extra[f], p)
		w.note("%s announces %s via %s", n.name, p.Prefix, p.NextHop)
	}
	w.speaker.say(n.name)
	w.look()
}

func (w *world) speakerDies() {
	w.note("the speaker crashes")
	w.speaker.crash()
	w.look()
}

// nodeChanges adds, removes or renumbers a node.
func (w *world) nodeChanges() {
	switch w.pick(5) {
	case 0, 1:
		if w.highest < 6 {
			w.highest++
			w.nodes = append(w.nodes, newNode(w.highest))
			w.note("node k8s-%d is added", w.highest)
			w.cni()
		}
	case 2:
		if n := w.somePeer(); n != nil {
			w.note("node %s is removed", n.name)
			w.nodes = slices.DeleteFunc(w.nodes, func(o *node) bool { return o == n })
			w.speaker.endPeer(n.name, routing.CauseConnection)
		}
	case 3:
		if n := w.somePeer(); n != nil && w.highest < 6 {
			w.highest++
			n.says.PodCIDRs = podCIDRs(w.highest)
			w.note("node %s has other pod CIDRs: %v", n.name, n.says.PodCIDRs)
			w.speaker.say(n.name)
			w.cni()
		}
	case 4:
		if n := w.somePeer(); n != nil {
			other := w.nodes[w.pick(len(w.nodes))]
			n.says.PodCIDRs = append(slices.Clone(n.says.PodCIDRs), other.says.PodCIDRs[w.pick(len(other.says.PodCIDRs))])
			w.note("node %s claims %v", n.name, n.says.PodCIDRs)
			w.contested = w.contested || n != other
		}
	}
	w.list()
	w.look()
}

// nodesVanish makes the inventory unreadable, or lose this node.
func (w *world) nodesVanish() {
	w.list()
	switch w.pick(3) {
	case 0:
		w.listed.Synced = false
		w.note("the inventory is not synced")
	case 1:
		w.listed.Nodes = slices.DeleteFunc(w.listed.Nodes, func(n routing.Node) bool { return n.Name == self })
		w.note("this node vanishes from the inventory")
	case 2:
		w.listed.Stale = "the API server is away"
		w.note("the inventory is stale")
	}
	w.look()
}

// nodesSync lets the inventory be read whole again.
func (w *world) nodesSync() {
	if w.listed.Synced && w.listed.Stale == "" && w.listed.Node(self) != nil {
		return
	}
	w.note("the inventory is synced")
	w.list()
	w.listed.Synced, w.listed.Stale = true, ""
	w.look()
}

func (w *world) annotation() {
	n := w.somePeer()
	if n == nil {
		return
	}
	f := routing.Families[w.pick(2)]
	key := "net.renner.uno/pod0-v" + f.String()[3:]
	value := []string{"", "nonsense", "10.48.0.1", "fd00:48::1", podAddr(n.n, f).String()}[w.pick(5)]
	n.says.Annotations = maps.Clone(n.says.Annotations)
	if n.says.Annotations[key] = value; value == "" {
		delete(n.says.Annotations, key)
	}
	w.note("%s is annotated %s=%q", n.name, key, value)
	w.list()
	w.look()
}

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
