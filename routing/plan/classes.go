package plan

import (
	"fmt"
	"slices"

	"netclass.dev/routing"
)

// classes says how each class stands.
func (m *maker) classes() {
	for i := range m.cfg.Classes {
		st := m.class(&m.cfg.Classes[i])
		if st.Health == routing.Waiting || st.Health == routing.Shared {
			reason := "Waiting"
			if st.Health == routing.Shared {
				reason = "OnFallback"
			}
			m.condition("class/"+st.Class.Name, reason, "%s", st.Reason)
		}
		m.plan.Classes = append(m.plan.Classes, st)
	}
}

func (m *maker) class(c *routing.Class) routing.ClassStatus {
	st := routing.ClassStatus{Class: *c, Health: routing.Ready}
	l := m.links[c.Link]
	if l != nil {
		st.KernelVLAN = l.VLAN
		if c.VLAN != 0 && l.VLAN != 0 && l.VLAN != c.VLAN {
			m.condition("class/"+c.Name, "OtherVLAN", "link %s is on VLAN %d, not %d", c.Link, l.VLAN, c.VLAN)
		}
	}
	if t := m.tallies[c.Link]; t != nil {
		st.Peers, st.Separated, st.Fallback = t.peers, t.separated, t.fallback
	}
	switch {
	case l == nil && c.Delegated:
		st.Health, st.Reason = routing.Delegated, "link "+c.Link+" is not in this namespace, as configured"
		return st
	case m.drained(c.Link, routing.DrainShutdown):
		st.Health, st.Reason = m.takenOutSoFar()
		return st
	case l == nil:
		st.Health, st.Reason = routing.Waiting, "link "+c.Link+" does not exist"
		return st
	case c.Delegated:
		return st
	}
	ok4, why := m.usable(c.Link, routing.IPv4)
	ok6, _ := m.usable(c.Link, routing.IPv6)
	if !ok4 && !ok6 {
		st.Health, st.Reason = routing.Waiting, why
		return st
	}
	for _, tr := range c.Traffic {
		if why := m.rulesWait[linkTraffic{c.Link, tr.From}]; why != "" {
			st.Health, st.Reason = routing.Waiting, why
			return st
		}
	}
	if why := m.defaults[c.Link]; why != "" {
		st.Health, st.Reason = routing.Waiting, why
		return st
	}
	if why := m.noDefault(c); why != "" {
		st.Health, st.Reason = routing.Waiting, why
		return st
	}
	if st.Separated < st.Peers {
		st.Health = routing.Shared
		st.Reason = fmt.Sprintf("%d of %d pod CIDRs of peers are not reached over %s: %s",
			st.Peers-st.Separated, st.Peers, c.Link, m.unseparated(m.tallies[c.Link], c.Link))
		return st
	}
	st.Reason = m.drainedElsewhere(c.Link)
	return st
}

// drainedElsewhere names the nodes whose drain shows at a link that is itself as it
// should be: routers that are spoken to over it may send their share here.
func (m *maker) drainedElsewhere(link string) string {
	if len(m.plan.Drained) == 0 || m.cfg.BGP == nil ||
		!slices.ContainsFunc(m.cfg.BGP.Upstreams, func(u routing.Upstream) bool { return u.Link == link }) {
		return ""
	}
	var drained, draining string
	for _, name := range m.plan.Drained {
		if m.plan.DrainPhase(name) == routing.DrainDone {
			drained += ", " + name
		} else {
			draining += ", " + name
		}
	}
	text := ""
	if drained != "" {
		text = "; drained elsewhere: " + drained[2:]
	}
	if draining != "" {
		text += "; draining elsewhere: " + draining[2:]
	}
	return text[2:]
}

// noDefault says why traffic of a class to the world cannot leave by its link:
// the tables that its packets are looked up in have a default, but none there.
func (m *maker) noDefault(c *routing.Class) string {
	for _, tr := range c.Traffic {
		if tr.To != routing.World {
			continue
		}
		why := ""
		for i := range m.cfg.Tables {
			t := &m.cfg.Tables[i]
			d := t.Routes.Default
			if d == nil || !slices.ContainsFunc(t.Rules, func(s routing.Selector) bool { return s.From == tr.From }) {
				continue
			}
			if d.Link == c.Link {
				why = ""
				break
			}
			if why == "" {
				why = fmt.Sprintf("no default over %s in table %s: its default leaves by %s", c.Link, t.Name, d.Link)
			}
		}
		if why != "" {
			return why
		}
	}
	return ""
}
