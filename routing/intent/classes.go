package intent

import (
	"cmp"
	"net/netip"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

func (r *reader) readNetworks(n *strictyaml.Node) {
	for _, f := range n.Map().Fields() {
		switch {
		case f.Name == routing.World:
			f.Errorf("world is reserved: it is whatever is in no network")
		case !networkName.MatchString(f.Name):
			f.Errorf("network %q is no valid name: want letters, digits, dots, _ and -", f.Name)
		}
		network := routing.Network{Name: f.Name, Prefixes: prefixes(f.Value)}
		if f.Value != nil && f.Value.IsList() && len(f.Value.List()) == 0 {
			f.Value.Warnf("network %s is empty: it selects nothing", f.Name)
		}
		r.config.Networks = append(r.config.Networks, network)
		r.defined = append(r.defined, networkUse{f.Name, f.Value})
	}
}

// prefixes reads a list of networks that do not overlap, and sorts it.
func prefixes(n *strictyaml.Node) []netip.Prefix {
	type placed struct {
		netip.Prefix
		node *strictyaml.Node
	}
	var all []placed
	for _, item := range n.List() {
		if p, ok := item.Prefix(); ok {
			all = append(all, placed{p, item})
		}
	}
	// Sorted, a network comes right before those inside it.
	slices.SortStableFunc(all, func(a, b placed) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var out []netip.Prefix
	var outer placed
	for _, p := range all {
		if outer.IsValid() && outer.Overlaps(p.Prefix) {
			if outer.Prefix == p.Prefix {
				p.node.Errorf("duplicate network %s", p.Prefix)
			} else {
				p.node.Errorf("%s is inside %s (line %d) of the same list; leave it out", p.Prefix, outer.Prefix, outer.node.Line)
			}
			continue
		}
		outer = p
		out = append(out, p.Prefix)
	}
	return out
}

// classPlace is where a class and its parts are.
type classPlace struct {
	link    *strictyaml.Node
	traffic []*strictyaml.Node
}

func (r *reader) readClasses(n *strictyaml.Node) {
	taken := map[string]int{}
	for _, item := range n.List() {
		m := item.Map()
		nameNode, linkNode := m.Require("name"), m.Require("link")
		c := routing.Class{
			Name:      name(nameNode, plainName, wantPlainName),
			Link:      link(linkNode),
			VLAN:      int(m.Get("vlan").Uint(1, 4094, 0)),
			Delegated: m.Get("delegated").Bool(false),
		}
		place := classPlace{link: linkNode}
		for _, t := range m.Get("traffic").List() {
			tm := t.Map()
			from, to := tm.Require("from"), tm.Require("to")
			tm.Done()
			traffic := routing.Traffic{From: r.network(from), To: r.network(to)}
			if traffic.From == routing.World && traffic.To == routing.World {
				t.Errorf("traffic from world to world is none of a node's")
			}
			c.Traffic = append(c.Traffic, traffic)
			place.traffic = append(place.traffic, t)
		}
		m.Done()
		unique(taken, nameNode, "class", c.Name)
		r.config.Classes = append(r.config.Classes, c)
		r.classes = append(r.classes, place)
	}
}
