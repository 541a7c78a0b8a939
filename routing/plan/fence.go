package plan

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// fence plans the fence of a table in one family: the cluster's prefix sets, the
// networks of every class link without a gateway, and those that the table lists
// as connected: while their link is down they are not to be looked for at the
// router. It returns why a default would not be safe behind it, "" when it is.
func (m *maker) fence(t *routing.Table, f routing.Family, wait func(what, why string)) (unsafe string) {
	if t.Fence == nil {
		return ""
	}
	for _, dst := range m.fenced(t.Fence, f, t.Routes.Connected...) {
		if !m.add(routing.Route{Table: t.ID, Dst: dst, Metric: routing.MetricFence, Type: routing.Unreachable}) {
			unsafe = "the fence of " + dst.String() + " cannot be installed"
			wait("fence "+dst.String(), "another route has its place")
		}
		if net, ok := m.tooWide(dst); ok {
			m.condition("table/"+t.Name, "FenceTooWide",
				"the fence of %s is wider than the connected network %s: what lies beside it is not reached through this table; name the narrower networks", dst, net)
		}
	}
	if unsafe != "" {
		m.plan.Unsafe = append(m.plan.Unsafe, routing.RouteKey{Table: t.ID, Dst: f.Default(), Metric: routing.MetricPath})
	} else {
		unsafe = m.unknownNetwork(f)
	}
	return unsafe
}

// unknownNetwork names a class link without a gateway that exists but has never
// shown a network, none at all or none of a family that this node is said to
// have an address of there: what is not known cannot be fenced.
func (m *maker) unknownNetwork(f routing.Family) string {
	for i := range m.cfg.Classes {
		c := &m.cfg.Classes[i]
		if c.Delegated || !m.gatewayless(c.Link) || m.links[c.Link] == nil {
			continue
		}
		unknown := len(m.networks[c.Link]) == 0 && !m.numbered(c.Link, routing.IPv4) && !m.numbered(c.Link, routing.IPv6)
		if _, configured := m.cfg.Cluster.Address(c.Link); configured && m.self != nil && !unknown {
			said, _ := m.nodeAddress(m.at, routing.HopLink, c.Link, f)
			unknown = said.IsValid() && len(familyNetworks(m.networks[c.Link], f)) == 0 && !m.numbered(c.Link, f)
		}
		if unknown {
			return "the " + f.String() + " network of " + c.Link + " is not known yet, so it cannot be fenced"
		}
	}
	return ""
}

// numbered reports whether a link has an address of the family, if only a host
// address that makes no network, as tunnels have.
func (m *maker) numbered(name string, f routing.Family) bool {
	l := m.links[name]
	return l != nil && slices.ContainsFunc(l.Addrs, func(a routing.LinkAddr) bool {
		return routing.FamilyOf(a.Prefix.Addr()) == f && !a.Prefix.Addr().IsLinkLocalUnicast()
	})
}

// fenced returns the prefixes of the named networks and of the class links of
// one family, each once. Of links with a gateway those that are listed count.
func (m *maker) fenced(names []string, f routing.Family, links ...string) []netip.Prefix {
	var ps []netip.Prefix
	add := func(from []netip.Prefix) {
		for _, p := range from {
			if routing.FamilyOf(p.Addr()) == f && !slices.Contains(ps, p) {
				ps = append(ps, p)
			}
		}
	}
	for _, name := range names {
		add(m.cfg.Network(name))
	}
	for i := range m.cfg.Classes {
		if link := m.cfg.Classes[i].Link; m.gatewayless(link) || slices.Contains(links, link) {
			add(m.networks[link])
		}
	}
	return ps
}

// leftDefaults finds the defaults in tables of an earlier configuration that
// have lost a part of their fence. Nothing mends it any more, so that they must
// not wait for the inventory like everything else there.
func (m *maker) leftDefaults() {
	var names []string
	for i := range m.cfg.Tables {
		names = append(names, m.cfg.Tables[i].Fence...)
	}
	if m.plan.Hold == "" || len(names) == 0 {
		return
	}
	m.eachInstalled(func(_ int, r *routing.Route) {
		if r.Type != routing.Unicast || r.Dst.Bits() > 0 || m.configured(r.Table) {
			return
		}
		for _, dst := range m.fenced(names, r.Family()) {
			fence, ok := m.installed(keyOf(&routing.Route{Table: r.Table, Dst: dst, Metric: routing.MetricFence}))
			if !ok || fence.Type != routing.Unreachable {
				m.plan.Unsafe = append(m.plan.Unsafe, r.Key())
				return
			}
		}
	})
}

func (m *maker) configured(id routing.TableID) bool {
	return slices.ContainsFunc(m.cfg.Tables, func(t routing.Table) bool { return t.ID == id })
}

// guard plans the guard: in main at the highest metric, or as rules where a CNI
// reads main.
func (m *maker) guard() {
	g := m.cfg.Guard
	if g == nil {
		return
	}
	var names []string
	for _, name := range g.Networks {
		if link, ok := m.served(name); ok {
			names = append(names, name)
		} else {
			m.condition("guard/"+name, "NoClassLink",
				"%s is not guarded here: this node has no link %s, so the way to it may well be the router", name, link)
		}
	}
	for _, f := range routing.Families {
		for _, dst := range m.fenced(names, f) {
			if net, wide := m.tooWide(dst); wide {
				m.condition("guard/"+dst.String(), "GuardTooWide",
					"%s is not guarded: it is wider than the connected network %s, and would cut off what lies beside it; name %s instead", dst, net, net)
				continue
			}
			m.guarded = append(m.guarded, dst)
			if g.AsRules {
				m.guardRules(g.Priority, f, dst)
			} else {
				m.add(routing.Route{Table: routing.MainID, Dst: dst, Metric: routing.MetricGuard, Type: routing.Unreachable})
			}
		}
	}
}

// guardRules plans the guard of one prefix as two rules: main may answer only
// with a route at least as long as the prefix, and nothing comes after it.
func (m *maker) guardRules(priority uint32, f routing.Family, dst netip.Prefix) {
	if dst.Bits() == 0 {
		return
	}
	why := m.addRule(routing.Rule{
		Family: f, Priority: priority, To: dst,
		Table: routing.MainID, SuppressPrefixLen: dst.Bits() - 1,
	})
	if why != "" { // the second half alone would cut off what main delivers
		return
	}
	m.addRule(routing.Rule{
		Family: f, Priority: priority + 1, To: dst,
		Action: routing.ActionUnreachable, SuppressPrefixLen: routing.NoSuppress,
	})
}

// served reports whether this node has a link whose class carries traffic to
// the network, and the name of the link that it would need. A network that no
// class is about is guarded everywhere.
func (m *maker) served(network string) (link string, ok bool) {
	asked := false
	for i := range m.cfg.Classes {
		c := &m.cfg.Classes[i]
		for _, tr := range c.Traffic {
			if tr.To != network {
				continue
			}
			asked = true
			if m.links[c.Link] != nil || len(m.networks[c.Link]) > 0 {
				return c.Link, true
			}
			link = c.Link
		}
	}
	return link, !asked
}

// tooWide returns a connected network of this node that a prefix is wider than,
// other than the CNI's.
func (m *maker) tooWide(p netip.Prefix) (netip.Prefix, bool) {
	f := routing.FamilyOf(p.Addr())
	for i := range m.in.Kernel.Links {
		l := &m.in.Kernel.Links[i]
		for _, net := range connected(l, f) {
			if net.Bits() > p.Bits() && p.Contains(net.Addr()) && !m.cniNetwork(l.Name, net) && !net.Addr().IsLoopback() {
				return net, true
			}
		}
	}
	return netip.Prefix{}, false
}

// cniNetwork reports whether a connected network is that of the CNI's bridge:
// on the link of own pods, or inside an own pod CIDR. While this node has no pod
// CIDR that counts, any inside the network pods may be: the guard must not fall
// because the inventory does.
func (m *maker) cniNetwork(link string, p netip.Prefix) bool {
	for i := range m.cfg.Tables {
		if o := m.cfg.Tables[i].Routes.Own; o != nil && o.Link == link {
			return true
		}
	}
	own := m.ownCIDRs(routing.FamilyOf(p.Addr()))
	if len(own) == 0 {
		own = m.cfg.Network("pods")
	}
	return slices.ContainsFunc(own, func(o netip.Prefix) bool { return o.Overlaps(p) })
}
