// Package plan thinks: from the configuration, the inventory, a picture of the
// kernel and what the peers say it makes the desired state, and from that and
// the picture the ops that lead there.
//
// It is pure. It knows no I/O, no clock, no goroutine and no chance, so the
// same inputs always give the same plan, and every question about it is
// answered by a table in a test.
package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// Make computes the desired state. It never fails: what cannot be done waits,
// with a reason, and everything else goes on.
func Make(in *routing.Inputs) *routing.Plan {
	m := newMaker(in)
	for i := range in.Config.Tables {
		m.table(&in.Config.Tables[i])
	}
	m.guard()
	m.speak()
	m.classes()
	m.ownership()
	return m.plan
}

// maker holds one run of Make: the inputs, what has been derived from them so
// far, and the plan as it grows.
type maker struct {
	in   *routing.Inputs
	cfg  *routing.Config
	self *routing.Node
	plan *routing.Plan

	links    map[string]*routing.Link
	networks map[string][]netip.Prefix // of each class link, seen now or remembered
	claims   claims
	foreign  map[routing.RouteKey]routing.Route // in our tables, not ours
	ours     map[routing.RouteKey]routing.Route // made when first asked for
	peerings map[routing.SessionKey]*routing.Peering
	tallies  map[string]*tally            // class paths by link
	defaults map[string]string            // link -> why its default waits; "" when it is planned
	speaks   map[routing.SessionKey]int   // index into plan.Peers
	holders  map[routing.RouteKey]string  // which peer has a class path
	hops     map[string]map[string]nodeIP // link -> node -> its addresses there
	remotes  map[netip.Addr]string        // address -> the peer that has it
}

// tally counts the pod CIDRs of peers by where their packets go.
type tally struct{ peers, separated, fallback int }

func newMaker(in *routing.Inputs) *maker {
	m := &maker{
		in:       in,
		cfg:      in.Config,
		plan:     &routing.Plan{},
		links:    make(map[string]*routing.Link, len(in.Kernel.Links)),
		foreign:  make(map[routing.RouteKey]routing.Route),
		peerings: make(map[routing.SessionKey]*routing.Peering, len(in.Peerings)),
		tallies:  make(map[string]*tally),
		defaults: make(map[string]string),
		speaks:   make(map[routing.SessionKey]int),
		holders:  make(map[routing.RouteKey]string),
		hops:     make(map[string]map[string]nodeIP),
		remotes:  make(map[netip.Addr]string),
	}
	for i := range in.Kernel.Links {
		m.links[in.Kernel.Links[i].Name] = &in.Kernel.Links[i]
	}
	for i := range in.Peerings {
		m.peerings[in.Peerings[i].Key] = &in.Peerings[i]
	}
	m.self = in.Inventory.Node(in.Node)
	m.hold()
	m.networks = linkNetworks(m.cfg, m.links, in.Ledger)
	m.plan.Links = m.networks
	for _, r := range in.Kernel.Routes {
		if m.mineTable(r.Table) && !m.mineProtocol(r.Protocol) {
			if _, ok := m.foreign[r.Key()]; !ok {
				m.foreign[r.Key()] = r
			}
		}
	}
	size := 2 * len(in.Inventory.Nodes) * 2
	m.plan.Routes = make([]routing.Route, 0, size+64)
	m.claims = m.settleClaims()
	return m
}

// hold decides whether anything may be deleted at all. What has not been read
// is not known to be gone.
func (m *maker) hold() {
	if m.cfg.Cluster == nil {
		return
	}
	switch inv := m.in.Inventory; {
	case !inv.Synced:
		m.plan.Hold = "the inventory has not been read yet"
		m.condition("inventory", "NotSynced", "no nodes are known yet%s: nothing is deleted", because(inv.Stale))
	case m.self == nil:
		m.plan.Hold = fmt.Sprintf("node %q is not in the inventory", m.in.Node)
		m.condition("inventory", "OwnNodeMissing", "node %q is not in %s: nothing is deleted, and no own pod CIDR is announced", m.in.Node, inv.Source)
	}
	if m.in.Inventory.Synced && m.in.Inventory.Stale != "" {
		m.condition("inventory", "Stale", "the last good copy is in use: %s", m.in.Inventory.Stale)
	}
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// condition records something that is not as it should be.
func (m *maker) condition(object, reason, format string, args ...any) {
	m.plan.Conditions = append(m.plan.Conditions, routing.Condition{
		Object: object, Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}

// add plans a route unless somebody else's stands in its place, and reports
// whether it did. A foreign route is never replaced: `replace` would take it
// over without a word.
func (m *maker) add(r routing.Route) bool {
	r.Protocol = m.cfg.Daemon.Protocol
	if f, taken := m.foreign[r.Key()]; taken {
		m.condition("table/"+m.tableName(r.Table), "ForeignRoute",
			"%q cannot be installed: protocol %d has %q in its place", r, f.Protocol, f)
		return false
	}
	m.plan.Routes = append(m.plan.Routes, r)
	return true
}

// installed returns our route at a key as the kernel has it.
func (m *maker) installed(k routing.RouteKey) (routing.Route, bool) {
	if m.ours == nil {
		m.ours = make(map[routing.RouteKey]routing.Route)
		for _, r := range m.in.Kernel.Routes {
			if m.mineTable(r.Table) && m.mineProtocol(r.Protocol) {
				m.ours[r.Key()] = r
			}
		}
	}
	r, ok := m.ours[k]
	return r, ok
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

func (m *maker) tableName(id routing.TableID) string {
	for i := range m.cfg.Tables {
		if m.cfg.Tables[i].ID == id {
			return m.cfg.Tables[i].Name
		}
	}
	if id == routing.MainID {
		return routing.MainTable
	}
	return fmt.Sprint(id)
}

// ownership tells Diff what it may touch: what this configuration uses and what
// an earlier one has used.
func (m *maker) ownership() {
	own := &m.plan.Own
	own.Protocols = union(m.in.Ledger.Protocols, m.cfg.Daemon.Protocol)
	own.Tables = slices.Clone(m.in.Ledger.Tables)
	for i := range m.cfg.Tables {
		own.Tables = union(own.Tables, m.cfg.Tables[i].ID)
	}
	if m.cfg.Guard != nil {
		own.Tables = union(own.Tables, routing.MainID)
	}
	own.Priorities = slices.Clone(m.in.Ledger.Priorities)
	for _, r := range m.plan.Rules {
		own.Priorities = union(own.Priorities, r.Priority)
	}
}

// union returns a sorted copy of s with the values added.
func union[T interface {
	~uint8 | ~uint32
}](s []T, values ...T) []T {
	s = append(slices.Clone(s), values...)
	slices.Sort(s)
	return slices.Compact(s)
}
