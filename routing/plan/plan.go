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
	m.unrouted()
	m.speak()
	m.filters()
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

	guarded  []netip.Prefix                               // what the guard covers
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
		m.drains = m.drainLinks()
	}
	m.drainedNodes()
	return m
}

// condition records something that is not as it should be.
func (m *maker) condition(object, reason, format string, args ...any) {
	m.plan.Conditions = append(m.plan.Conditions, routing.Condition{
		Object: object, Reason: reason, Message: fmt.Sprintf(format, args...),
	})
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
