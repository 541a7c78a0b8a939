package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// upstream plans the sessions with a router, what it is told and what is taken
// from it.
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
		if why != "" {
			m.condition("peer/"+nb.Key.String(), "NoSession", "no session with %s: %s", u.Name, why)
		} else {
			if b.Listen {
				m.listen(nb.Local, u.Link)
			}
			m.plan.Speak.Neighbors = append(m.plan.Speak.Neighbors, nb)
			why = m.advertise(b, u, f, nb.Local)
		}
		st := routing.PeerStatus{Neighbor: nb, Reason: why}
		if said := m.imported[nb.Key]; said != nil {
			st.Accepted, st.Refused, st.RefusedCount = said.Accepted, said.Refused, said.RefusedCount
			st.Aside = said.Aside
			if _, down := m.usable(u.Link, f); st.Aside > 0 {
				st.Reason = cmp.Or(st.Reason, down)
			}
		}
		m.plan.Peers = append(m.plan.Peers, st)
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
	nb = routing.Neighbor{
		Key: key, Upstream: true, Link: u.Link, Local: local, Remote: remote, PeerASN: u.PeerASN,
		Password: password, GTSM: u.GTSM, Multihop: u.Multihop, Timers: u.Timers, RestartTime: u.GracefulRestart,
	}
	if len(u.Import) > 0 {
		nb.MaxPrefixes = importsKept
	}
	return nb, why
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
