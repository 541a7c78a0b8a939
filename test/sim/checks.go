package sim

import (
	"net/netip"
	"slices"
	"time"

	"netclass.dev/routing"
)

// checkOrder judges an order to the speaker: a pod CIDR is announced only while
// the route that delivers it is in.
func (w *world) checkOrder(s *speaker, order *routing.Speak) {
	if order == nil {
		return
	}
	k := w.hand.picture
	if s.orders == 1 && order.Restarting != w.hand.adopts {
		w.violated(5, "the first order says restarting: %v; the kernel kept class paths: %v", order.Restarting, w.hand.adopts)
	}
	for _, a := range order.Announce {
		if a.To == "" && !w.plain && !isMarker(a) && !delivered(k, a.Prefix) {
			w.violated(8, "%s is announced and not delivered", a.Prefix)
		}
		if l := k.Link("cilium_host"); a.To != "" && !w.plain && (l == nil || !l.Up) {
			w.violated(8, "%s is advertised to %s though nothing leads to pods", a.Prefix, a.To)
		}
		if a.To != "" && !stopped(k, a.Prefix) {
			w.violated(8, "%s is advertised to %s and nothing stops what is unused of it", a.Prefix, a.To)
		}
	}
}

func delivered(k *routing.Kernel, p netip.Prefix) bool {
	return slices.ContainsFunc(k.Routes, func(r routing.Route) bool {
		return r.Protocol == ours && r.Dst == p && r.Link == "cilium_host" && r.Metric == routing.MetricPath
	})
}

func stopped(k *routing.Kernel, p netip.Prefix) bool {
	return slices.ContainsFunc(k.Rules, func(r routing.Rule) bool {
		return r.Protocol == ours && r.To == p && r.IIF == "ingress0" && r.Action == routing.ActionUnreachable
	})
}

// withdrawnFirst demands that what leads to an announcement goes after it.
func (w *world) withdrawnFirst(op routing.Op) {
	s := w.speaker
	if s.dead || s.order == nil || op.Verb == routing.Add {
		return
	}
	for _, a := range s.order.Announce {
		takesRoute := !op.IsRule() && a.To == "" && op.Route.Table == w.inForce.Tables[0].ID && op.Route.Dst == a.Prefix && op.Route.Metric == routing.MetricPath &&
			(op.Verb == routing.Delete && op.Route.Link == "cilium_host" || op.Verb == routing.Replace && op.Route.Link != "cilium_host")
		takesRule := op.IsRule() && a.To != "" && op.Rule.To == a.Prefix && op.Rule.IIF == "ingress0"
		if takesRoute || takesRule {
			w.violated(8, "%s while %s is announced", op, a.Prefix)
		}
	}
}

// settled reports whether a pass has gone through over the world as it is.
func (w *world) settled() bool {
	if w.crashed || w.deaf || !w.watched || w.refuseAll != nil || w.dumpsFail > 0 || w.engine == nil {
		return false
	}
	st := w.engine.State()
	return st.Sequence > w.since && st.Pass.Error == "" && len(st.Pending) == 0 && st.Config.Config == w.config
}

// check judges a settled world: no debt is left, and class paths are those of
// the peers that are to have one.
func (w *world) check() {
	if !w.settled() {
		return
	}
	k := w.kernel.Picture()
	s := w.seeBoth()
	for _, f := range routing.Families {
		for x, route := range s.wrongs.Of(f) {
			w.violated(x.inv, "left by a whole pass: %s by %s", x, route)
		}
	}
	w.checkDrain(k)
	if !w.plain {
		w.checkImports(k)
	}
	if !w.listed.Synced || !w.hand.seen {
		return // nothing is deleted
	}
	for _, r := range k.Routes {
		if !w.classPath(r) {
			continue
		}
		if n := w.hop(r.Via, r.Family()); n == nil || w.pathOf(n, r.Dst) == no {
			w.violated(8, "%s stays, which nobody has said or may still say", r)
		}
	}
	if !w.plain && time.Since(w.quiet) > 300*time.Millisecond {
		w.checkPackets(k)
	}
}

func (w *world) classPath(r routing.Route) bool {
	return r.Protocol == ours && r.Table != strayTable && r.Metric == routing.MetricPath && r.Via.IsValid() && r.Dst.Bits() > 0
}

func (w *world) hop(a netip.Addr, f routing.Family) *node {
	for _, n := range w.nodes {
		if podAddr(n.n, f) == a {
			return n
		}
	}
	return nil
}

// verdict is whether a class path is to be there.
type verdict int

const (
	unsure verdict = iota // it may
	yes
	no
)

// slack is how late the daemon may be with what it decides by time.
const slack = 700 * time.Millisecond

// pathOf says whether a peer's pod CIDR is to have its class path, by what the
// peer has said and how its session ended.
func (w *world) pathOf(n *node, dst netip.Prefix) verdict {
	f := routing.FamilyOf(dst.Addr())
	table := w.config.Tables[0]
	listed := w.listed.Node(n.name)
	switch {
	case !w.listed.Synced || w.contested:
		return unsure
	case listed == nil:
		return no
	case !slices.Contains(listed.PodCIDRs, dst):
		return no
	case listed.Annotations["net.renner.uno/pod0-v"+f.String()[3:]] != podAddr(n.n, f).String():
		return unsure // the last good value, if there is one
	case table.Routes.Peers.Learn == routing.LearnNodes:
		return yes
	}
	se := w.speaker.sessions[routing.SessionKey{Peer: n.name, Family: f}]
	if se == nil {
		return unsure
	}
	if se.State == routing.Established {
		said := slices.ContainsFunc(se.Paths, func(p routing.Path) bool { return p.Prefix == dst && p.NextHop == podAddr(n.n, f) })
		switch {
		case said && !n.powered && time.Since(n.since) > doubtAfter+5*time.Second:
			return no // long before the hold timer
		case said && (se.timer != nil || time.Since(se.heard) < 4*time.Second):
			return unsure
		case said:
			return yes
		case se.EndOfRIB || time.Since(se.Since) > restartTime+slack:
			return no
		}
		return unsure
	}
	hold := w.config.BGP.GracefulRestart
	if w.shifted { // begun under another configuration, perhaps
		hold = restartTime
	}
	since := se.Since
	if se.Cause != routing.CauseNone {
		hold = min(hold, time.Duration(se.offered())*time.Second)
	}
	dead := !n.powered && time.Since(n.since) > 4*time.Second && time.Since(since) > 4*time.Second+slack
	if se.Cause == routing.CauseCease || se.Cause == routing.CauseError || hold == 0 && se.Cause != routing.CauseNone ||
		dead || time.Since(since) > hold+slack {
		return no
	}
	return unsure
}

// offered is the restart time in seconds that the peer offered when the session
// was up.
func (se *session) offered() int { return int(se.PeerRestartTime / time.Second) }
