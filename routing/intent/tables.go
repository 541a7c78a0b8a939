package intent

import (
	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

// tablePlace is where a table and its parts are.
type tablePlace struct {
	connected, own, peers, fallback, def, fence *strictyaml.Node

	rules []rulePlace
}

// rulePlace is where a configured rule and its priorities are.
type rulePlace struct {
	node     *strictyaml.Node
	given    bool // there is a mapping of priorities
	priority routing.PerFamily[*strictyaml.Node]
}

// Tables that the kernel and iproute2 know by these names (rt_tables).
var reservedTables = map[string]string{
	"local":   "the kernel's own",
	"default": "the kernel's own",
	"unspec":  "no table",
	"all":     "every table",
}

func (r *reader) readTables(n *strictyaml.Node) {
	names, ids := map[string]int{}, map[routing.TableID]int{}
	r.config.NoTables = n.IsList() && len(n.List()) == 0
	for _, item := range n.List() {
		m := item.Map()
		nameNode := m.Require("name")
		t := routing.Table{Name: name(nameNode, plainName, wantPlainName)}
		t.ID = tableID(m, t.Name)
		if what := reservedTables[t.Name]; what != "" {
			nameNode.Errorf("the table name %s is reserved: it is %s", t.Name, what)
		} else if t.Name != "" && isNumber(t.Name) {
			nameNode.Errorf("a table's name must not be a number; %s goes into id", t.Name)
		}
		unique(names, nameNode, "table", t.Name)
		if line, twice := ids[t.ID]; twice {
			m.Get("id").Errorf("duplicate table id %d; it is on line %d already", t.ID, line)
		} else if !reservedID(t.ID) {
			ids[t.ID] = item.Line
		}
		place := tablePlace{}
		for _, rule := range m.Get("rules").List() {
			s, p := r.readRule(rule)
			t.Rules = append(t.Rules, s)
			place.rules = append(place.rules, p)
		}
		t.Routes = r.readRoutes(m.Get("routes"), &place)
		place.fence = m.Get("fence")
		t.Fence = r.networkList(place.fence, "a fence")
		m.Done()
		r.config.Tables = append(r.config.Tables, t)
		r.tables = append(r.tables, place)
	}
}

func reservedID(id routing.TableID) bool {
	return id == 0 || routing.DefaultID <= id && id <= routing.LocalID
}

func isNumber(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// tableID reads a table's number, which main has by its name.
func tableID(m *strictyaml.Map, name string) routing.TableID {
	if name == routing.MainTable {
		if n := m.Get("id"); n != nil {
			n.Errorf("table main takes no id: it is %d", routing.MainID)
		}
		return routing.MainID
	}
	n := m.Require("id")
	id := routing.TableID(n.Uint(0, 1<<32-1, 0))
	if n == nil || !n.IsInt() {
		return id
	}
	switch id {
	case 0:
		n.Errorf("table 0 is no table; choose a number of 1 to 252, or above 255")
	case routing.DefaultID, routing.LocalID:
		n.Errorf("table %d is the kernel's own; choose a number of 1 to 252, or above 255", id)
	case routing.MainID:
		n.Errorf("table %d is main: write `name: main` without an id", id)
	}
	return id
}

func (r *reader) readRule(n *strictyaml.Node) (routing.Selector, rulePlace) {
	m := n.Map()
	from, to := m.Get("from"), m.Get("to")
	s := routing.Selector{From: r.selector(from, "from"), To: r.selector(to, "to")}
	place := rulePlace{node: n}
	if m.OK() && from == nil && to == nil {
		n.Errorf("a rule needs from, to, or both")
	}
	if priority := m.Require("priority"); priority != nil {
		place.given = priority.IsMap()
		place.priority = perFamily(priority, func(n *strictyaml.Node, _ routing.Family) *strictyaml.Node { return n })
		s.Priority = routing.PerFamily[uint32]{
			IPv4: rulePriority(place.priority.IPv4),
			IPv6: rulePriority(place.priority.IPv6),
		}
	}
	m.Done()
	return s, place
}

// selector reads a rule's from or to.
func (r *reader) selector(n *strictyaml.Node, key string) string {
	name := r.network(n)
	if name == routing.World {
		r.networks = r.networks[:len(r.networks)-1]
		n.Errorf("world cannot be a rule's %s: leave %s out for every address", key, key)
		return ""
	}
	return name
}

// rulePriority reads a priority that is not one of the kernel's own three, nor
// after them.
func rulePriority(n *strictyaml.Node) uint32 {
	p := uint32(n.Uint(0, 1<<32-1, 0))
	if n == nil || !n.IsInt() {
		return 0
	}
	switch {
	case p == 0:
		n.Errorf("priority 0 is the local rule's; choose one of 1 to 32765")
	case p == 32766 || p == 32767:
		n.Errorf("priority %d is the kernel's own; choose one of 1 to 32765", p)
	case p > 32767:
		n.Errorf("priority %d comes after main's rule at 32766 and is never reached; choose one of 1 to 32765", p)
	}
	return p
}
