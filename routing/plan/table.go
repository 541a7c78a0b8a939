package plan

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// table plans everything of one table: its routes by source, its fence and the
// rules that select it.
func (m *maker) table(t *routing.Table) {
	st := routing.TableStatus{Name: t.Name, ID: t.ID, Health: routing.Ready}
	var waits []waiting
	wait := func(what, why string) {
		waits = append(waits, waiting{what, why})
		st.Waiting = append(st.Waiting, what+": "+why)
	}
	for _, f := range routing.Families {
		m.connected(t, f, wait)
		m.own(t, f, wait)
		fenced := m.fence(t, f, wait)
		m.defaultRoute(t, f, fenced, wait)
	}
	m.peers(t, wait)
	st.RulesText = m.rules(t, wait)
	if len(st.Waiting) > 0 {
		st.Health = routing.Waiting
		st.Reason = summary(waits)
	} else if out := m.takenOut(t); out != "" {
		st.Health, _ = m.takenOutSoFar()
		st.Reason = out
	}
	m.plan.Tables = append(m.plan.Tables, st)
	m.waits = append(m.waits, waits)
}

// connected plans the connected networks of the listed links, so that what the
// table selects reaches them directly.
func (m *maker) connected(t *routing.Table, f routing.Family, wait func(what, why string)) {
	for _, name := range t.Routes.Connected {
		if m.links[name] == nil {
			if f == routing.IPv4 { // say it once
				wait("connected "+name, "link "+name+" does not exist")
			}
			continue
		}
		if ok, why := m.usable(name, f); !ok {
			if len(familyNetworks(m.networks[name], f)) > 0 {
				wait("connected "+name, why)
			}
			continue
		}
		for _, net := range connected(m.links[name], f) {
			m.add(routing.Route{Table: t.ID, Dst: net, Metric: routing.MetricPath, Link: name})
		}
	}
}

// own plans this node's own pod CIDRs: delivered over the CNI's host link, or
// left to main by a throw while that link is missing.
func (m *maker) own(t *routing.Table, f routing.Family, wait func(what, why string)) {
	o := t.Routes.Own
	if o == nil {
		return
	}
	if m.self != nil && len(m.self.PodCIDRs) == 0 && f == routing.IPv4 { // say it once
		wait("own", "node "+m.self.Name+" has no pod CIDR yet")
	}
	for _, p := range m.ownCIDRs(f) {
		r := routing.Route{Table: t.ID, Dst: p, Metric: routing.MetricPath}
		if o.Type == routing.Blackhole {
			r.Type = routing.Blackhole
			m.add(r)
			continue
		}
		if why := m.cannotDeliver(o.Link, f); why == "" {
			r.Link = o.Link
		} else {
			r.Type = routing.Throw
			wait("own "+p.String(), why)
		}
		m.add(r)
	}
}

// cannotDeliver says why no device route of a family can lead over the CNI's
// link; "" when one can. It needs no address and no carrier for that.
func (m *maker) cannotDeliver(name string, f routing.Family) string {
	switch l := m.links[name]; {
	case l == nil:
		return "link " + name + " does not exist"
	case !l.Up:
		return "link " + name + " is down"
	case f == routing.IPv6 && l.NoIPv6:
		return "IPv6 is switched off on link " + name
	}
	return ""
}

// ownCIDRs returns this node's uncontested pod CIDRs of a family. While the
// inventory does not list this node they are those that it delivers already: an
// object deleted by mistake must not cut off the pods that run.
func (m *maker) ownCIDRs(f routing.Family) []netip.Prefix {
	if m.delivers == nil {
		var all []netip.Prefix
		if m.self == nil {
			all = m.delivered()
		} else {
			all = slices.DeleteFunc(slices.Clone(m.self.PodCIDRs), func(p netip.Prefix) bool { return !m.claims.of(m.at, p) })
		}
		m.delivers = &routing.PerFamily[[]netip.Prefix]{
			IPv4: familyNetworks(all, routing.IPv4),
			IPv6: familyNetworks(all, routing.IPv6),
		}
	}
	return m.delivers.Of(f)
}

// delivered returns the pod CIDRs for which the kernel has an own route of ours
// and that no other node claims.
func (m *maker) delivered() []netip.Prefix {
	var ps []netip.Prefix
	m.eachInstalled(func(_ int, r *routing.Route) {
		o := m.ownSource(r.Table)
		if o == nil || r.Metric != routing.MetricPath || r.Via.IsValid() || slices.Contains(ps, r.Dst) {
			return
		}
		if o.Type == routing.Blackhole && r.Type != routing.Blackhole ||
			o.Type != routing.Blackhole && r.Type != routing.Throw && r.Link != o.Link {
			return
		}
		if _, claimed := m.claims.other(m.at, r.Dst); !claimed {
			ps = append(ps, r.Dst)
		}
	})
	slices.SortFunc(ps, netip.Prefix.Compare)
	return ps
}

func (m *maker) ownSource(id routing.TableID) *routing.Own {
	for i := range m.cfg.Tables {
		if m.cfg.Tables[i].ID == id {
			return m.cfg.Tables[i].Routes.Own
		}
	}
	return nil
}

// defaultRoute plans the table's default. It depends on the fence, and on no
// peer: one lost peer must not take egress from every node.
func (m *maker) defaultRoute(t *routing.Table, f routing.Family, fenced string, wait func(what, why string)) {
	d := t.Routes.Default
	if d == nil || !d.Gateway.Of(f).Given() || m.egressOut(d.Link) {
		return
	}
	dst := f.Default()
	if d.OnLinkDown == routing.LinkDownHold {
		m.add(routing.Route{Table: t.ID, Dst: dst, Metric: routing.MetricHold, Type: routing.Unreachable})
	}
	gw, why := m.gateway(t, d, f)
	if why == "" {
		why = fenced
	}
	if why == "" && !m.add(routing.Route{Table: t.ID, Dst: dst, Metric: routing.MetricPath, Via: gw, Link: d.Link}) {
		why = "another route has its place"
	}
	if why != "" {
		wait(f.String()+" default", why)
		if m.defaults[d.Link] == "" {
			m.defaults[d.Link] = f.String() + " default: " + why
		}
		return
	}
	if _, known := m.defaults[d.Link]; !known {
		m.defaults[d.Link] = ""
	}
}

// gateway returns the next hop of a table's default, or why there is none.
func (m *maker) gateway(t *routing.Table, d *routing.Default, f routing.Family) (netip.Addr, string) {
	gw, fault := resolve(d.Gateway.Of(f), m.self, f)
	why := fault.String()
	if fault != nil && (fault.malformed || m.self == nil) {
		last, _ := m.installed(packed(t.ID, f.Default(), routing.MetricPath))
		switch {
		case fault.malformed:
			gw, why = m.instead(m.self, last.Via, fault)
		case last.Via.IsValid():
			gw, why = last.Via, ""
		}
	}
	if why != "" {
		return gw, why
	}
	if ok, why := m.usable(d.Link, f); !ok {
		return gw, why
	}
	return gw, m.hopProblem(d.Link, gw)
}

func familyNetworks(ps []netip.Prefix, f routing.Family) []netip.Prefix {
	var of []netip.Prefix
	for _, p := range ps {
		if routing.FamilyOf(p.Addr()) == f {
			of = append(of, p)
		}
	}
	return of
}
