package plan

import (
	"fmt"
	"net/netip"

	"netclass.dev/routing"
)

// table plans everything of one table: its routes by source, its fence and the
// rules that select it.
func (m *maker) table(t *routing.Table) {
	st := routing.TableStatus{Name: t.Name, ID: t.ID, Health: routing.Ready}
	wait := func(what, why string) {
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
		st.Reason = st.Waiting[0]
	}
	m.plan.Tables = append(m.plan.Tables, st)
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
			m.addOnce(routing.Route{Table: t.ID, Dst: net, Metric: routing.MetricPath, Link: name})
		}
	}
}

// addOnce adds a route whose place another of the plan may hold already: two
// links in one network, say. The first keeps it.
func (m *maker) addOnce(r routing.Route) {
	for i := range m.plan.Routes {
		if m.plan.Routes[i].Key() == r.Key() {
			m.condition("table/"+m.tableName(r.Table), "SamePrefix", "%q is left out: %q has its place", r, m.plan.Routes[i])
			return
		}
	}
	m.add(r)
}

// own plans this node's own pod CIDRs: delivered over the CNI's host link, or
// left to main by a throw while that link is missing.
func (m *maker) own(t *routing.Table, f routing.Family, wait func(what, why string)) {
	o := t.Routes.Own
	if o == nil || m.self == nil {
		return
	}
	for _, p := range m.ownCIDRs(f) {
		r := routing.Route{Table: t.ID, Dst: p, Metric: routing.MetricPath}
		if o.Type == routing.Blackhole {
			r.Type = routing.Blackhole
			m.addOnce(r)
			continue
		}
		if l := m.links[o.Link]; l != nil && l.Up {
			r.Link = o.Link
		} else {
			r.Type = routing.Throw
			why := "link " + o.Link + " does not exist"
			if l != nil {
				why = "link " + o.Link + " is down"
			}
			wait("own "+p.String(), why)
		}
		m.addOnce(r)
	}
}

// ownCIDRs returns this node's uncontested pod CIDRs of a family.
func (m *maker) ownCIDRs(f routing.Family) []netip.Prefix {
	if m.self == nil {
		return nil
	}
	var ps []netip.Prefix
	at := m.indexOf(m.self)
	for _, p := range m.self.PodCIDRs {
		if routing.FamilyOf(p.Addr()) == f && m.claims.of(at, p) {
			ps = append(ps, p)
		}
	}
	return ps
}

func (m *maker) indexOf(n *routing.Node) int {
	for i := range m.in.Inventory.Nodes {
		if &m.in.Inventory.Nodes[i] == n {
			return i
		}
	}
	return -1
}

// defaultRoute plans the table's default. It depends on the fence, and on no
// peer: one lost peer must not take egress from every node.
func (m *maker) defaultRoute(t *routing.Table, f routing.Family, fenced string, wait func(what, why string)) {
	d := t.Routes.Default
	if d == nil || !d.Gateway.Of(f).Given() {
		return
	}
	dst := f.Default()
	if d.OnLinkDown == routing.LinkDownHold {
		m.add(routing.Route{Table: t.ID, Dst: dst, Metric: routing.MetricHold, Type: routing.Unreachable})
	}
	gw, why := m.gateway(d, f)
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

func (m *maker) gateway(d *routing.Default, f routing.Family) (netip.Addr, string) {
	gw, why := resolve(d.Gateway.Of(f), m.self, f)
	if why != "" {
		return gw, why
	}
	if ok, why := m.usable(d.Link, f); !ok {
		return gw, why
	}
	if !m.onLink(d.Link, gw) {
		return gw, fmt.Sprintf("gateway %s is in no network of %s", gw, d.Link)
	}
	return gw, ""
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
