package plan

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// upstream plans the sessions with a router, and what it is told.
func (m *maker) upstream(b *routing.BGP, u *routing.Upstream) {
	for _, f := range routing.Families {
		if !u.Address.Of(f).Given() {
			continue
		}
		if m.isNode(u.Name) {
			// Sessions are told apart by name: one row for both would mix them up.
			m.condition("peer/"+routing.SessionKey{Peer: u.Name, Family: f}.String(), "NoSession",
				"no session with the router %s: a node has this name too; give the router another", u.Name)
			continue
		}
		nb, why := m.upstreamSession(u, f)
		m.plan.Peers = append(m.plan.Peers, routing.PeerStatus{Neighbor: nb, Reason: why})
		if why != "" {
			m.condition("peer/"+nb.Key.String(), "NoSession", "no session with %s: %s", u.Name, why)
			continue
		}
		if b.Listen {
			m.listen(nb.Local, u.Link)
		}
		m.plan.Speak.Neighbors = append(m.plan.Speak.Neighbors, nb)
		m.advertise(u, f, nb.Local)
	}
}

// upstreamSession returns the session with a router in one family, and why it
// cannot be.
func (m *maker) upstreamSession(u *routing.Upstream, f routing.Family) (nb routing.Neighbor, why string) {
	key := routing.SessionKey{Peer: u.Name, Family: f}
	remote, unknown := m.router(u, key)
	local, down := m.local(u.Link, f, routing.HopLink)
	password, refused := m.password(u.PasswordFile, key)
	up, _ := m.usable(u.Link, f)
	switch {
	case unknown != "":
		why = unknown
	case down != "":
		why = down
	case refused != "":
		why = refused
	case m.hasAddress(u.Link, remote):
		why = "its address " + remote.String() + " is our own"
	case u.Multihop == 0 && up && !m.onLink(u.Link, remote):
		why = "its address " + remote.String() + " is in no network of " + u.Link
	}
	return routing.Neighbor{
		Key: key, Upstream: true, Link: u.Link, Local: local, Remote: remote, PeerASN: u.PeerASN,
		Password: password, GTSM: u.GTSM, Multihop: u.Multihop, Timers: u.Timers, RestartTime: u.GracefulRestart,
	}, why
}

func (m *maker) isNode(name string) bool {
	return slices.ContainsFunc(m.nodes, func(n routing.Node) bool { return n.Name == name })
}

// router returns an upstream's address. A mistyped annotation, or this node
// missing from the inventory, leaves the session where it is.
func (m *maker) router(u *routing.Upstream, key routing.SessionKey) (netip.Addr, string) {
	remote, why := resolve(u.Address.Of(key.Family), m.self, key.Family)
	var last netip.Addr
	if nb := m.spoken(key); nb != nil && nb.Upstream {
		last = nb.Remote
	}
	switch {
	case why == nil:
		return remote, ""
	case why.malformed:
		return m.instead(m.self, last, why)
	case m.self == nil && last.IsValid():
		return last, ""
	}
	return remote, why.text
}

// advertise plans the prefixes of one upstream. Each is first made unreachable
// for packets that come in from it and that nothing on this node has taken: an
// unused address would otherwise go back and forth until its TTL ends.
func (m *maker) advertise(u *routing.Upstream, f routing.Family, local netip.Addr) {
	for _, name := range u.Advertise.Networks {
		for _, p := range familyNetworks(m.cfg.Network(name), f) {
			stop := routing.Rule{
				Family: f, Priority: routing.VIPPriority, To: p, IIF: u.Link,
				Action: routing.ActionUnreachable, SuppressPrefixLen: routing.NoSuppress,
				Protocol: m.cfg.Daemon.Protocol,
			}
			if why := m.addRule(stop); why != "" {
				m.condition("peer/"+u.Name+"/"+f.String(), "NotAdvertised", "%s is not advertised: the rule %q is not in: %s", p, stop, why)
				continue
			}
			a := u.Advertise
			m.plan.Announce = append(m.plan.Announce, routing.Origin{
				Announcement: routing.Announcement{
					Prefix: p, NextHop: local, To: u.Name, Communities: a.Communities,
					LocalPreference: a.LocalPreference, MED: a.MED, Prepend: a.Prepend,
				},
				NeedsRule: stop,
			})
		}
	}
}
