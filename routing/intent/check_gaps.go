package intent

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// checkGaps looks for what is missing: each part may well be left out, but here its
// lack cuts somebody off, or leaves a promise that nothing keeps.
func (r *reader) checkGaps() {
	for i := range r.config.Tables {
		t, place := &r.config.Tables[i], &r.tables[i]
		if !r.fencesPods(t) {
			continue
		}
		if !r.servesOwnPods(t) {
			place.fence.Warnf("table %s: the fence has pods, but there is no own: pods of this node that are looked up here cannot reach each other; add own: {link: …} with the CNI's link of the host", t.Name)
		}
		if p := t.Routes.Peers; p != nil && place.fallback == nil {
			place.peers.Warnf("table %s: peers without a fallback, behind a fence: while %s is down pods of different nodes cannot reach each other; add fallback: {link: …, nextHop: internalIP}, or write fallback: none", t.Name, p.Link)
		}
	}
	r.checkUnselected()
	for _, h := range r.hops {
		r.checkHop(h)
	}
}

// fencesPods reports whether pods look in a table whose fence stops them.
func (r *reader) fencesPods(t *routing.Table) bool {
	pods := r.config.Network("pods")
	stopped := func(p netip.Prefix) bool { return r.covered([]netip.Prefix{p}, t.Fence) }
	return slices.ContainsFunc(pods, stopped) && r.selects(t, pods) < 1<<32
}

// fencedOff returns the first table that pods look in, and whose fence has the network
// of a link that it has not connected; "" when there is none.
func (r *reader) fencedOff(link string) string {
	if slices.ContainsFunc(r.config.Classes, func(c routing.Class) bool { return c.Link == link && c.Gateway() }) {
		return ""
	}
	for i := range r.config.Tables {
		t := &r.config.Tables[i]
		if t.Fence != nil && !slices.Contains(t.Routes.Connected, link) && r.selects(t, r.config.Network("pods")) < 1<<32 {
			return t.Name
		}
	}
	return ""
}

// selects returns the first priority at which a table is asked for the way from some
// of the prefixes to others of them; 1<<32: it is not.
func (r *reader) selects(t *routing.Table, prefixes []netip.Prefix) uint64 {
	first := uint64(1 << 32)
	for _, s := range t.Rules {
		for _, f := range routing.Families {
			if p := s.Priority.Of(f); p != 0 && r.overlap(s.From, prefixes, f) && r.overlap(s.To, prefixes, f) {
				first = min(first, uint64(p))
			}
		}
	}
	return first
}

// overlap reports whether a rule's set shares addresses of a family with prefixes.
func (r *reader) overlap(set string, prefixes []netip.Prefix, f routing.Family) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool {
		return routing.FamilyOf(p.Addr()) == f && (set == "" || slices.ContainsFunc(r.config.Network(set), p.Overlaps))
	})
}

// servesOwnPods reports whether something leads to the pods of the node itself,
// from a table or before it is asked: own, the network of a link that no class
// has, as a CNI's bridge, or main.
func (r *reader) servesOwnPods(t *routing.Table) bool {
	pods := r.config.Network("pods")
	asked := r.selects(t, pods)
	for i := range r.config.Tables {
		o := &r.config.Tables[i]
		if o != t && r.selects(o, pods) > asked {
			continue
		}
		if o.Routes.Own != nil || o.Name == routing.MainTable ||
			slices.ContainsFunc(o.Routes.Connected, func(link string) bool { return !r.classLink(link) }) {
			return true
		}
	}
	return false
}

// checkUnselected looks for traffic to the world that is promised a link, or
// answered from an address that a router is told of, and that no rule leads away
// from main's default, where that leaves by another link.
func (r *reader) checkUnselected() {
	type flow struct{ link, from string }
	said := map[flow]bool{}
	for i := range r.config.Classes {
		c := &r.config.Classes[i]
		for j, tr := range c.Traffic {
			f := flow{c.Link, tr.From}
			if tr.To != routing.World || c.Delegated || said[f] || !r.strays(c.Link, tr.From) {
				continue
			}
			said[f] = true
			r.classes[i].traffic[j].Warnf("class %s promises %s → world over %s, and no rule selects %s: it leaves by main's default", c.Name, tr.From, c.Link, tr.From)
		}
	}
	if r.config.BGP == nil {
		return
	}
	for i := range r.config.BGP.Upstreams {
		u := &r.config.BGP.Upstreams[i]
		sets := slices.Clone(u.Advertise.Networks)
		if u.Advertise.Services != nil {
			sets = append(sets, "loadBalancers")
		}
		for _, set := range sets {
			f := flow{u.Link, set}
			if said[f] || !r.strays(u.Link, set) {
				continue
			}
			said[f] = true
			r.upstreams[i].Warnf("upstream %s is told of %s over %s, and no rule selects %s: the answers from there leave by main's default", u.Name, set, u.Link, set)
		}
	}
}

// strays reports whether what comes from a network leaves by main's default, and
// that is another link's than the given one.
func (r *reader) strays(link, from string) bool {
	prefixes := r.config.Network(from)
	if from == "nodes" || len(prefixes) == 0 || !r.mainElsewhere(link) {
		return false
	}
	for _, p := range prefixes {
		f := routing.FamilyOf(p.Addr())
		selected := false
		for i := range r.config.Tables {
			for _, s := range r.config.Tables[i].Rules {
				selected = selected || s.To == "" && s.Priority.Of(f) != 0 && r.covered([]netip.Prefix{p}, []string{s.From})
			}
		}
		if !selected {
			return true
		}
	}
	return false
}

// mainElsewhere reports whether main's default is known to leave by another link: as
// the nodes' own traffic to the world is promised that one, or as a table has a
// default of its own by the given one, which main's need not.
func (r *reader) mainElsewhere(link string) bool {
	elsewhere := false
	for i := range r.config.Classes {
		c := &r.config.Classes[i]
		if !slices.Contains(c.Traffic, routing.Traffic{From: "nodes", To: routing.World}) {
			continue
		}
		if c.Link == link {
			return false
		}
		elsewhere = true
	}
	for i := range r.config.Tables {
		d := r.config.Tables[i].Routes.Default
		elsewhere = elsewhere || d != nil && d.Link == link
	}
	return elsewhere
}

// checkHop looks at a link over which the other nodes are looked for at their
// InternalIPs, because nothing says otherwise, although those are another link's.
func (r *reader) checkHop(h hopPlace) {
	if h.link == "" || h.given || r.config.Cluster == nil {
		return
	}
	other := r.internalLink()
	named := false
	for i := range r.config.Classes {
		c := &r.config.Classes[i]
		if c.Link != h.link {
			continue
		}
		named = true
		if slices.ContainsFunc(c.Traffic, func(t routing.Traffic) bool { return t.From == "nodes" || t.To == "nodes" }) {
			return // the InternalIPs may well be there
		}
	}
	if other == h.link || other == "" && !named {
		return
	}
	where := ""
	if other != "" {
		where = ", which are on " + other
	}
	h.node.Warnf("%s over %s: cluster.addresses.%s is missing, so the other nodes are looked for at their InternalIPs%s; add it, or write %s: internalIP if they are on %s", h.node.Key, h.link, h.link, where, h.key, h.link)
}

// internalLink returns the link that InternalIPs are on, as far as the configuration
// says so: where a fallback leads to them; "" when it does not.
func (r *reader) internalLink() string {
	for i := range r.config.Tables {
		if p := r.config.Tables[i].Routes.Peers; p != nil && p.Fallback.Link != "" && p.Fallback.NextHop == routing.HopInternalIP {
			return p.Fallback.Link
		}
	}
	return ""
}
