package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// offer is what an upstream is to be told in one family.
type offer struct {
	prefixes []netip.Prefix // each once
	networks []netip.Prefix // of them those that the configuration names
	seen     map[netip.Prefix]bool
	lacks    []lack
	absent   []absentee
}

// lack is why something is not advertised, or not well.
type lack struct{ reason, text string }

// absentee is an address of a Service whose packets only nodes with a ready
// endpoint may take, where this one has none.
type absentee struct {
	addr    netip.Addr
	service string
}

func (a absentee) String() string { return a.addr.String() + " (" + a.service + ")" }

func (o *offer) add(p netip.Prefix) {
	if !o.seen[p] {
		o.seen[p] = true
		o.prefixes = append(o.prefixes, p)
	}
}

func (o *offer) lack(reason, format string, args ...any) {
	o.lacks = append(o.lacks, lack{reason, fmt.Sprintf(format, args...)})
}

// elsewhere says which addresses are for other nodes to announce.
func (o *offer) elsewhere() string {
	if len(o.absent) == 0 {
		return ""
	}
	return "left to nodes with a ready endpoint (externalTrafficPolicy: Local): " + some(texts(o.absent))
}

// texts gives as many things as text as are named anywhere.
func texts[T fmt.Stringer](things []T) []string {
	s := make([]string, len(things))
	for i := range things {
		if i < named {
			s[i] = things[i].String()
		}
	}
	return s
}

// gather returns what an upstream is to be told in a family: the networks that the
// configuration names, and the addresses of Services.
func (m *maker) gather(u *routing.Upstream, f routing.Family) *offer {
	o := &offer{seen: make(map[netip.Prefix]bool)}
	for _, name := range u.Advertise.Networks {
		for _, p := range familyNetworks(m.cfg.Network(name), f) {
			if what := m.unannounced(p); what != "" {
				o.lack("NotAdvertised", "%s is not advertised: it overlaps %s, which no router may lead to", p, what)
				continue
			}
			o.add(p)
		}
	}
	o.networks = slices.Clone(o.prefixes)
	s := u.Advertise.Services
	switch {
	case s == nil:
		return o
	case !m.kubernetes():
		o.lack("NotAdvertised", "no Service is advertised: only the Kubernetes API tells of them, and cluster.kubernetes is not configured")
		return o
	}
	m.services(o, s, f)
	if !m.in.Inventory.ServicesSynced {
		// Who has not been read is not known to be gone.
		stays := make([]netip.Prefix, 0, len(m.told(u.Name, f)))
		for p := range m.told(u.Name, f) {
			if m.unannounced(p) == "" {
				stays = append(stays, p)
			}
		}
		slices.SortFunc(stays, netip.Prefix.Compare)
		for _, p := range stays {
			o.add(p)
		}
		o.lack("NotSynced", "the Services have not been read yet%s: what is advertised stays", because(m.in.Inventory.ServicesStale))
	} else if why := m.in.Inventory.ServicesStale; why != "" {
		o.lack("Stale", "the Services are as they were last read: %s", why)
	}
	m.lost(o, u, s)
	return o
}

// services adds the addresses of the Services that are asked for: each as a host
// route, or as the aggregate that it lies in.
func (m *maker) services(o *offer, s *routing.Services, f routing.Family) {
	var unfit []string
	why := ""
	for i := range m.in.Inventory.Services {
		svc := &m.in.Inventory.Services[i]
		if !s.Selects(svc) {
			continue
		}
		here := !svc.Local || slices.Contains(svc.Nodes, m.in.Node)
		for _, a := range svc.Addresses {
			if !a.IsValid() || a.Is4In6() || routing.FamilyOf(a) != f {
				continue
			}
			p, err := a.WithZone("").Prefix(int(s.Aggregate.Of(f)))
			if err != nil {
				continue
			}
			if !here {
				o.absent = append(o.absent, absentee{a, svc.Name})
				continue
			}
			if o.seen[p] {
				continue
			}
			if bad := m.unfit(a, p); bad != "" {
				if why == "" {
					why = bad
				}
				unfit = append(unfit, absentee{a, svc.Name}.String())
				continue
			}
			o.add(p)
		}
	}
	if len(unfit) > 0 {
		o.lack("NotAdvertised", "not advertised: %s: %s", some(unfit), why)
	}
}

// unfit says why the address of a Service must not be announced, by itself or with
// the prefix that it lies in; "" when it may.
func (m *maker) unfit(a netip.Addr, p netip.Prefix) string {
	if a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return "no address that others can reach"
	}
	for i := range m.in.Kernel.Links {
		for _, la := range m.in.Kernel.Links[i].Addrs {
			if la.Prefix.Addr() == a {
				return a.String() + " is this node's own address on " + m.in.Kernel.Links[i].Name
			}
		}
	}
	if what := m.inside(p); what != "" {
		return p.String() + " overlaps " + what + ", which no router may lead to"
	}
	return ""
}

// lost says which addresses bring packets here in vain: a prefix that is announced
// takes in an address that only other nodes serve.
func (m *maker) lost(o *offer, u *routing.Upstream, s *routing.Services) {
	var lost []string
	var by netip.Prefix
	for _, a := range o.absent {
		p, _ := a.addr.Prefix(int(s.Aggregate.Of(routing.FamilyOf(a.addr))))
		for _, name := range u.Advertise.Networks {
			p = wider(p, m.cfg.Network(name))
		}
		if o.seen[p] {
			lost, by = append(lost, a.String()), p
		}
	}
	if len(lost) > 0 {
		o.lack("LocalInAggregate", "%s is advertised, and so brings packets here that are lost, as externalTrafficPolicy is Local and no ready endpoint is here: %s", by, some(lost))
	}
}
