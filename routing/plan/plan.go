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
	"strings"
	"time"

	"netclass.dev/routing"
)

// Make computes the desired state. It never fails: what cannot be done waits,
// with a reason, and everything else goes on.
func Make(in *routing.Inputs) *routing.Plan {
	m := newMaker(in)
	for i := range in.Config.Tables {
		m.table(&in.Config.Tables[i])
	}
	m.imports()
	m.leftDefaults()
	m.guard()
	m.speak()
	m.classes()
	m.waitingTables()
	m.ownership()
	return m.plan
}

// maker holds one run of Make: the inputs, what has been derived from them so
// far, and the plan as it grows.
type maker struct {
	in    *routing.Inputs
	cfg   *routing.Config
	nodes []routing.Node // by name
	self  *routing.Node
	at    int // index of self in nodes; -1: not there
	plan  *routing.Plan

	links     map[string]*routing.Link
	networks  map[string][]netip.Prefix // of each class link, seen now or remembered
	claims    claims
	foreign   map[key]int32 // index into the kernel's routes: in our tables, not ours
	ours      map[key]int32 // the same of our own; made when first asked for
	planned   map[key]int32 // index into plan.Routes
	owners    []int32       // for each of plan.Routes: the node that has the class path, or none
	peerings  map[routing.SessionKey]*routing.Peering
	tallies   map[string]*tally                  // class paths by link
	defaults  map[string]string                  // link -> why its default waits; "" when it is planned
	waits     [][]waiting                        // of each table
	rulesWait map[linkTraffic]string             // why the rule of a class's traffic waits
	sessions  []session                          // of each node
	delivers  *routing.PerFamily[[]netip.Prefix] // own pod CIDRs; made when first asked for
	via       map[nextHop][]netip.Prefix         // class paths in the kernel; made when first asked for
	hops      map[string][]nodeIP                // link -> each node's addresses there
	remotes   map[netip.Addr]int                 // address -> the node that is spoken to there
	hosts     []host                             // by address; made when first asked for

	ruled    map[routing.Rule]bool                        // planned
	delivery map[routing.Family]rulePlace                 // the rule that delivers local packets; zero: none
	others   map[rulePlace][]routing.Rule                 // the kernel's that are not ours; made when first asked for
	drains   []string                                     // the links that a drain of this node takes out
	kept     []string                                     // pod CIDRs of one table whose class path stays in spite of a drain
	tolds    map[routing.SessionKey]map[netip.Prefix]bool // what routers were told; made when first asked for
	imported map[routing.SessionKey]*routing.PeerStatus   // what became of the paths of routers
}

// rulePlace is where rules stand that are asked in no known order.
type rulePlace struct {
	family   routing.Family
	priority uint32
}

// tally counts the pod CIDRs of peers by where their packets go.
type tally struct {
	table                      routing.TableID
	peers, separated, fallback int
	missed                     []missed // of the first few nodes
	missing, last              int      // nodes with a CIDR that is not separated, and the last of them
}

func newMaker(in *routing.Inputs) *maker {
	m := &maker{
		in:        in,
		cfg:       in.Config,
		plan:      &routing.Plan{},
		links:     make(map[string]*routing.Link, len(in.Kernel.Links)),
		foreign:   make(map[key]int32),
		peerings:  make(map[routing.SessionKey]*routing.Peering, len(in.Peerings)),
		tallies:   make(map[string]*tally),
		defaults:  make(map[string]string),
		rulesWait: make(map[linkTraffic]string),
		hops:      make(map[string][]nodeIP),
		ruled:     make(map[routing.Rule]bool),
		delivery:  make(map[routing.Family]rulePlace),
	}
	for i := range in.Kernel.Links {
		m.links[in.Kernel.Links[i].Name] = &in.Kernel.Links[i]
	}
	for i := range in.Peerings {
		m.peerings[in.Peerings[i].Key] = &in.Peerings[i]
	}
	m.nodes = byName(in.Inventory.Nodes)
	m.at = slices.IndexFunc(m.nodes, func(n routing.Node) bool { return n.Name == in.Node })
	if m.at >= 0 {
		m.self = &m.nodes[m.at]
	}
	m.hold()
	m.networks = linkNetworks(m.cfg, m.links, in.Ledger)
	m.plan.Links = m.networks
	for i := range in.Kernel.Routes {
		r := &in.Kernel.Routes[i]
		if metricOfOurs(r.Metric) && !m.mine(r) && m.mineTable(r.Table) {
			if _, ok := m.foreign[keyOf(r)]; !ok {
				m.foreign[keyOf(r)] = int32(i)
			}
		}
	}
	size := 2*2*len(m.nodes) + 64 // a path and a fallback for each family's pod CIDR
	m.plan.Routes = make([]routing.Route, 0, size)
	m.owners = make([]int32, 0, size)
	m.planned = make(map[key]int32, size)
	m.sessions = make([]session, len(m.nodes))
	if m.cfg.BGP != nil {
		m.plan.Peers = make([]routing.PeerStatus, 0, 2*(len(m.nodes)+len(m.cfg.BGP.Upstreams)))
	}
	m.claims = m.settleClaims()
	if in.Draining.Step != routing.DrainNone {
		m.drains, _ = m.cfg.DrainLinks(in.Draining.Classes)
	}
	m.plan.Drained = m.drainedNodes()
	return m
}

// hold decides whether anything may be deleted at all. What has not been read
// is not known to be gone.
func (m *maker) hold() {
	if m.cfg.Cluster == nil {
		return
	}
	switch inv := m.in.Inventory; {
	case !inv.Synced && inv.Known():
		m.plan.Hold = "the inventory has not been read yet; a copy stands in for it"
		m.condition("inventory", "NotSynced", "%d nodes are known from a copy of %s%s: nothing is deleted",
			len(inv.Nodes), inv.AsOf.UTC().Format(time.RFC3339), because(inv.Stale))
	case !inv.Synced:
		m.plan.Hold = "the inventory has not been read yet"
		m.condition("inventory", "NotSynced", "no nodes are known yet%s: nothing is deleted", because(inv.Stale))
	case m.self == nil:
		m.plan.Hold = fmt.Sprintf("node %q is not in the inventory", m.in.Node)
		m.condition("inventory", "OwnNodeMissing", "node %q is not in %s: nothing is deleted, what it had stays, and new rules wait; %s", m.in.Node, inv.Source, m.namesake())
	}
	if m.in.Inventory.Synced && m.in.Inventory.Stale != "" {
		m.condition("inventory", "Stale", "the last good copy is in use: %s", m.in.Inventory.Stale)
	}
}

// namesake says what to do where this node is not in the inventory, and names the
// node that it is most likely meant to be: names are compared exactly.
func (m *maker) namesake() string {
	short := func(name string) string { first, _, _ := strings.Cut(strings.ToLower(name), "."); return first }
	var names []string
	for i := range m.nodes {
		name := m.nodes[i].Name
		switch {
		case strings.EqualFold(name, m.in.Node):
			return fmt.Sprintf("there is %q, which differs in upper and lower case: set `node: %s`", name, name)
		case short(name) == short(m.in.Node):
			return fmt.Sprintf("there is %q: if that is meant, set `node: %s` or start netclassd with --node %s", name, name, name)
		}
		names = append(names, name)
	}
	what := "add it there, or say who this node is by `node:` in the configuration or --node"
	if len(names) > 0 {
		what += " (there are " + some(names) + ")"
	}
	return what
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

// byName returns the nodes sorted by name, so that no decision hangs on the
// order they were told in.
func byName(nodes []routing.Node) []routing.Node {
	less := func(a, b routing.Node) int { return strings.Compare(a.Name, b.Name) }
	if slices.IsSortedFunc(nodes, less) {
		return nodes
	}
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, less)
	return nodes
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

// ownership tells Diff what it may touch: what this configuration uses, also
// where it is not wanted just now, and what an earlier one has used.
func (m *maker) ownership() {
	own := m.cfg.Owns(routing.Ownership{
		Protocols:  m.in.Ledger.Protocols,
		Tables:     m.in.Ledger.Tables,
		Priorities: m.in.Ledger.Priorities,
	})
	m.plan.Own = routing.Ownership{
		Protocols:  set(own.Protocols),
		Tables:     set(own.Tables),
		Priorities: set(own.Priorities),
		Adopted:    m.in.Ledger.Adopted,
	}
}

// set returns a sorted copy of s in which no value comes twice.
func set[T interface{ ~uint8 | ~uint32 }](s []T) []T {
	s = slices.Clone(s)
	slices.Sort(s)
	return slices.Compact(s)
}
