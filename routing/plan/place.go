package plan

import (
	"slices"

	"netclass.dev/routing"
)

// add plans a route unless another stands in its place, and reports whether it
// did. Of two that the plan itself wants (a pod CIDR that is also a connected
// network, say) the first keeps the place: both would take turns for ever.
func (m *maker) add(r routing.Route) bool {
	at, ok := m.place(r)
	if ok || at == none {
		return ok
	}
	return m.sameAs(at, r)
}

// sameAs reports whether a route is the one planned in its place, and says so if
// it is not.
func (m *maker) sameAs(at int32, r routing.Route) bool {
	first := m.plan.Routes[at]
	r.Protocol = first.Protocol
	if r == first {
		return true
	}
	m.condition("table/"+m.tableName(r.Table), "SamePrefix", "%q is left out: %q has its place", r, first)
	return false
}

// place puts a route into the plan and returns its index there, or that of the
// one that has its place. It is none where a foreign route has it, which is
// never replaced: `replace` would take it over without a word.
func (m *maker) place(r routing.Route) (at int32, ok bool) {
	r.Protocol = m.cfg.Daemon.Protocol
	k := keyOf(&r)
	if at, taken := m.foreign[k]; taken {
		f := m.in.Kernel.Routes[at]
		m.condition("table/"+m.tableName(r.Table), "ForeignRoute",
			"%q cannot be installed: protocol %s has %q in its place", r, f.Protocol, f)
		return none, false
	}
	if at, taken := m.planned[k]; taken {
		return at, false
	}
	at = int32(len(m.plan.Routes))
	m.planned[k] = at
	m.plan.Routes = append(m.plan.Routes, r)
	m.owners = append(m.owners, none)
	return at, true
}

// none is the index of what does not exist: the owner of a route that is no class
// path, say.
const none = -1

// metricOfOurs reports whether we ever use a metric: main may hold very many
// routes of others, and none with another metric can be in our way.
func metricOfOurs(metric uint32) bool {
	switch metric {
	case routing.MetricPath, routing.MetricImport, routing.MetricFallback, routing.MetricFence, routing.MetricHold, routing.MetricGuard:
		return true
	}
	return false
}

// installed returns our route at a key as the kernel has it.
func (m *maker) installed(k key) (routing.Route, bool) {
	if m.ours == nil {
		m.ours = make(map[key]int32, len(m.in.Kernel.Routes))
		m.eachInstalled(func(i int, r *routing.Route) { m.ours[keyOf(r)] = int32(i) })
	}
	i, ok := m.ours[k]
	if !ok {
		return routing.Route{}, false
	}
	return m.in.Kernel.Routes[i], true
}

// eachInstalled calls f for every route of ours that the kernel has.
func (m *maker) eachInstalled(f func(i int, r *routing.Route)) {
	for i := range m.in.Kernel.Routes {
		if r := &m.in.Kernel.Routes[i]; m.mine(r) {
			f(i, r)
		}
	}
}

// mine reports whether a route of the kernel is ours, or is to become ours.
func (m *maker) mine(r *routing.Route) bool {
	return m.mineProtocol(r.Protocol) && m.mineTable(r.Table) || m.adopts(r)
}

// adopts reports whether a route of the kernel is another's that we take over.
func (m *maker) adopts(r *routing.Route) bool {
	return slices.ContainsFunc(m.in.Ledger.Adopted, func(a routing.Adoption) bool { return a.Has(r) })
}

func (m *maker) mineProtocol(p routing.Protocol) bool {
	return p == m.cfg.Daemon.Protocol || slices.Contains(m.in.Ledger.Protocols, p)
}

// mineTable reports whether we put routes into the table.
func (m *maker) mineTable(id routing.TableID) bool {
	for i := range m.cfg.Tables {
		if m.cfg.Tables[i].ID == id {
			return true
		}
	}
	return id == routing.MainID && m.cfg.Guard != nil || slices.Contains(m.in.Ledger.Tables, id)
}
