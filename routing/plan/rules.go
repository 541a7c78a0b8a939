package plan

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// rules plans the rules that select a table and returns them as text.
func (m *maker) rules(t *routing.Table, wait func(what, why string)) []string {
	var text []string
	for i := range t.Rules {
		s := &t.Rules[i]
		for _, f := range routing.Families {
			if s.Priority.Of(f) == 0 {
				continue
			}
			for _, from := range m.selector(s.From, f) {
				if own, ok := m.ownAddressIn(from); ok {
					m.unruled(t, s.From, "its from set contains this node's own address "+own.String())
					wait("rule from "+from.String(), "it contains this node's own address "+own.String()+
						", whose replies would leave by the wrong link; name the narrower networks")
					m.condition("table/"+t.Name, "FromContainsNodeAddress",
						"the rule from %s is not installed: it contains this node's own address %s", from, own)
					continue
				}
				for _, to := range m.selector(s.To, f) {
					r := routing.Rule{
						Family: f, Priority: s.Priority.Of(f), From: from, To: to,
						Table: t.ID, SuppressPrefixLen: routing.NoSuppress,
					}
					why := m.ruleWaits(t, r)
					if why == "" {
						why = m.addRule(r)
					}
					if why != "" {
						m.unruled(t, s.From, why)
						wait("rule "+r.String(), why)
						continue
					}
					text = append(text, r.String())
				}
			}
		}
	}
	return text
}

// unruled notes that a rule from a network into a table waits, for the classes that
// carry its traffic.
func (m *maker) unruled(t *routing.Table, from, why string) {
	links := []string{}
	if p := t.Routes.Peers; p != nil {
		links = append(links, p.Link)
	}
	if d := t.Routes.Default; d != nil {
		links = append(links, d.Link)
	}
	for _, link := range links {
		k := linkTraffic{link, from}
		if m.rulesWait[k] == "" {
			m.rulesWait[k] = "the rule into table " + t.Name + " waits: " + why
		}
	}
}

// linkTraffic is what comes from a network and is to leave by a link.
type linkTraffic struct{ link, from string }

// selector returns the prefixes of a rule's set in a family; a set that is not
// named matches all.
func (m *maker) selector(name string, f routing.Family) []netip.Prefix {
	if name == "" {
		return []netip.Prefix{{}}
	}
	return familyNetworks(m.cfg.Network(name), f)
}

// ruleWaits says why a rule must not come in yet; "" when it may. Before the nodes
// are known no table holds a way to them, only the fence: pods that share the node
// network until then would be cut off from each other. A rule that is in stays
// in.
func (m *maker) ruleWaits(t *routing.Table, r routing.Rule) string {
	why := ""
	if m.plan.Hold != "" && (!m.in.Inventory.Known() || m.self == nil) {
		why = m.plan.Hold
	} else if t.Routes.Own != nil {
		why = m.ownless(r.Family)
	}
	if why == "" {
		return ""
	}
	r.Protocol = m.cfg.Daemon.Protocol
	if slices.Contains(m.in.Kernel.Rules, r) {
		return ""
	}
	return why
}

// ownless says why nothing of a family leads to the pods of this node, which has
// none yet or whose pod CIDRs are another's; "" when something does, or none is
// said to be there.
func (m *maker) ownless(f routing.Family) string {
	switch {
	case m.self == nil || len(m.ownCIDRs(f)) > 0:
		return ""
	case len(m.self.PodCIDRs) == 0:
		return "node " + m.self.Name + " has no pod CIDR yet"
	case len(familyNetworks(m.self.PodCIDRs, f)) > 0:
		return "the " + f.String() + " pod CIDR of node " + m.self.Name + " is another node's"
	}
	return ""
}

// addRule plans a rule unless it would break local delivery, and returns why
// not.
func (m *maker) addRule(r routing.Rule) string {
	r.Protocol = m.cfg.Daemon.Protocol
	if m.ruled[r] {
		return ""
	}
	if local, ok := m.localRule(r.Family); ok && r.Priority <= local {
		m.condition("rule/"+r.String(), "BeforeLocal",
			"rule %q is not installed: the rule that delivers local packets stands at %d, and it would come first", r, local)
		return "it would come before local delivery"
	}
	for _, k := range m.beside(r) {
		m.condition("rule/"+r.String(), "ForeignRule", "protocol %s has the rule %q at the same priority", k.Protocol, k)
	}
	m.ruled[r] = true
	m.plan.Rules = append(m.plan.Rules, r)
	return ""
}

// beside returns the rules of others at a rule's priority that do something else.
func (m *maker) beside(r routing.Rule) []routing.Rule {
	if m.others == nil {
		m.others = make(map[rulePlace][]routing.Rule)
		for _, k := range m.in.Kernel.Rules {
			if !m.mineProtocol(k.Protocol) {
				at := rulePlace{k.Family, k.Priority}
				m.others[at] = append(m.others[at], k)
			}
		}
	}
	there := m.others[rulePlace{r.Family, r.Priority}]
	if !slices.ContainsFunc(there, func(k routing.Rule) bool { return !sameSelector(k, r) }) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(there), func(k routing.Rule) bool { return sameSelector(k, r) })
}

// localRule returns the priority of the first rule that delivers local packets.
// It is 0 unless a CNI has moved it.
func (m *maker) localRule(f routing.Family) (priority uint32, ok bool) {
	if local, known := m.delivery[f]; known {
		return local.priority, local.family != 0
	}
	local := rulePlace{}
	for i := range m.in.Kernel.Rules {
		k := &m.in.Kernel.Rules[i]
		if k.Family == f && k.Table == routing.LocalID && k.Action == routing.ActionLookup &&
			!k.From.IsValid() && !k.To.IsValid() && k.IIF == "" && k.OIF == "" && k.Mask == 0 && !k.Invert && !k.Opaque &&
			(local.family == 0 || k.Priority < local.priority) {
			local = rulePlace{f, k.Priority}
		}
	}
	m.delivery[f] = local
	return local.priority, local.family != 0
}

// sameSelector reports whether two rules do the same for the same packets. A
// twin under another protocol costs nothing, and stays when ours goes.
func sameSelector(a, b routing.Rule) bool {
	a.Protocol, b.Protocol = 0, 0
	return a == b
}

// ownAddressIn returns an address inside a prefix that this node has on a class
// link or on one of which a table lists the network, or an InternalIP.
func (m *maker) ownAddressIn(p netip.Prefix) (netip.Addr, bool) {
	if !p.IsValid() {
		return netip.Addr{}, false
	}
	for _, name := range m.nodeLinks() {
		l := m.links[name]
		if l == nil {
			continue
		}
		for _, a := range l.Addrs {
			if p.Contains(a.Prefix.Addr()) && a.Prefix.Bits() < routing.FamilyOf(a.Prefix.Addr()).Bits() {
				return a.Prefix.Addr(), true
			}
		}
	}
	if m.self != nil {
		for _, a := range m.self.InternalIPs {
			if p.Contains(a) {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// nodeLinks returns the configured links that are not the CNI's.
func (m *maker) nodeLinks() []string {
	var links []string
	for i := range m.cfg.Classes {
		links = append(links, m.cfg.Classes[i].Link)
	}
	for i := range m.cfg.Tables {
		for _, name := range m.cfg.Tables[i].Routes.Connected {
			if o := m.ownSource(m.cfg.Tables[i].ID); o == nil || o.Link != name {
				links = append(links, name)
			}
		}
	}
	return links
}
