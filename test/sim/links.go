package sim

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

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
