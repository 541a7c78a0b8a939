package sim

import (
	"slices"
	"strings"
	"time"

	"netclass.dev/routing"
)

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
		if w.kernel.Link(h.name) == nil {
			w.makeLink(h)
		} else {
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
	w.wait(0) // the kernel's events first, in every replay
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
	w.draining = routing.Draining{}
	w.order()
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
