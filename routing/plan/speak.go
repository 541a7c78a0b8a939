package plan

import (
	"cmp"
	"hash/fnv"
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// speak plans what the speaker does: its sessions, what it listens on and what
// it originates.
func (m *maker) speak() {
	b := m.cfg.BGP
	if b == nil || b.Mesh == nil && len(b.Upstreams) == 0 {
		return
	}
	m.plan.Speak = &routing.Speak{ASN: b.ASN, Port: b.Port, RouterID: m.routerID()}
	if b.Mesh != nil {
		m.mesh(b)
	}
	for i := range b.Upstreams {
		m.upstream(b, &b.Upstreams[i])
	}
	s := m.plan.Speak
	slices.SortStableFunc(m.plan.Announce, func(x, y routing.Origin) int {
		return cmp.Or(cmp.Compare(x.To, y.To), x.Prefix.Compare(y.Prefix))
	})
	slices.SortFunc(s.Neighbors, func(x, y routing.Neighbor) int {
		return cmp.Or(cmp.Compare(x.Key.Peer, y.Key.Peer), int(x.Key.Family)-int(y.Key.Family))
	})
	slices.SortFunc(s.Listen, func(x, y routing.Listen) int { return x.Addr.Compare(y.Addr) })
	slices.SortFunc(m.plan.Peers, func(x, y routing.PeerStatus) int {
		return cmp.Or(cmp.Compare(x.Neighbor.Key.Peer, y.Neighbor.Key.Peer), int(x.Neighbor.Key.Family)-int(y.Neighbor.Key.Family))
	})
}

// routerID returns the configured identifier, else the mesh link's lowest IPv4
// address, else one made from the node's name. The one in use stays while the
// link has it, or has no address: a new identifier ends every session.
func (m *maker) routerID() netip.Addr {
	if id := m.cfg.BGP.RouterID; id.IsValid() {
		return id
	}
	var used, lowest netip.Addr
	if s := m.in.Speaking; s != nil {
		used = s.RouterID
	}
	if mesh := m.cfg.BGP.Mesh; mesh != nil && m.links[mesh.Link] != nil {
		for _, a := range m.links[mesh.Link].Addrs {
			if addr := a.Prefix.Addr(); addr.Is4() && !addr.IsLinkLocalUnicast() && (!lowest.IsValid() || addr.Less(lowest)) {
				lowest = addr
			}
		}
	}
	if used.IsValid() && (!lowest.IsValid() || m.hasAddress(m.cfg.BGP.Mesh.Link, used)) {
		return used
	}
	if lowest.IsValid() {
		return lowest
	}
	h := fnv.New32a()
	h.Write([]byte(m.in.Node))
	sum := h.Sum32()
	return netip.AddrFrom4([4]byte{byte(sum>>24)%223 + 1, byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// local returns the address that sessions of a link and family are sourced
// from: the one that this node is known by, else the one in use, else the link's
// first. Where the link has none at the moment, the one in use stays: the
// session may well outlive the flap, and its routes are withdrawn by the link's
// state anyway.
func (m *maker) local(link string, f routing.Family, kind routing.HopKind) (netip.Addr, string) {
	used := m.spokenLocal(link, f)
	ok, why := m.usable(link, f)
	if !ok {
		if first := m.address(link, f); used.IsValid() && (!first.IsValid() || m.hasAddress(link, used)) {
			return used, ""
		}
		return netip.Addr{}, why
	}
	if m.self != nil {
		if known, _ := m.nodeAddress(m.at, kind, link, f); m.bindable(link, known) {
			return known, ""
		}
	}
	if m.bindable(link, used) {
		return used, ""
	}
	if first := m.address(link, f); first.IsValid() {
		return first, ""
	}
	return netip.Addr{}, "link " + link + " has no " + f.String() + " address to send from"
}

// bindable reports whether a socket can be bound to the address on the link.
func (m *maker) bindable(link string, a netip.Addr) bool {
	l := m.links[link]
	return a.IsValid() && l != nil &&
		slices.ContainsFunc(l.Addrs, func(la routing.LinkAddr) bool { return la.Prefix.Addr() == a && la.Usable() })
}

// spokenLocal returns the address of a link and family in the newest order to
// the speaker.
func (m *maker) spokenLocal(link string, f routing.Family) netip.Addr {
	s := m.in.Speaking
	if s == nil {
		return netip.Addr{}
	}
	for i := range s.Neighbors {
		if n := &s.Neighbors[i]; n.Link == link && n.Key.Family == f {
			return n.Local
		}
	}
	for _, l := range s.Listen {
		if l.Link == link && routing.FamilyOf(l.Addr) == f {
			return l.Addr
		}
	}
	return netip.Addr{}
}

// mesh plans one session per node and family over the mesh link. The lower
// address dials.
func (m *maker) mesh(b *routing.BGP) {
	mesh := b.Mesh
	s := m.plan.Speak
	for _, f := range routing.Families {
		local, why := m.local(mesh.Link, f, mesh.Address)
		up, _ := m.usable(mesh.Link, f)
		if why == "" && b.Listen {
			m.listen(local, mesh.Link)
		}
		used := false
		for i := range m.nodes {
			if i == m.at {
				continue
			}
			key := routing.SessionKey{Peer: m.nodes[i].Name, Family: f}
			remote, missing := m.nodeAddress(i, mesh.Address, mesh.Link, f)
			if missing != "" && !m.familyUsed(f) {
				continue
			}
			st := m.peerStatus(key)
			password, refused := m.password(mesh.PasswordFile, key)
			nb := routing.Neighbor{
				Key: key, Link: mesh.Link, Local: local, Remote: remote, PeerASN: b.ASN,
				Passive:  b.Listen && remote.IsValid() && remote.Less(local),
				Password: password, GTSM: mesh.GTSM, Timers: b.Timers,
				RestartTime: b.GracefulRestart, MaxPrefixes: mesh.MaxPrefixes,
			}
			st.Neighbor, st.Reason = nb, cmp.Or(missing, why, refused)
			if st.Reason == "" && remote == local {
				st.Reason = "its address " + remote.String() + " is our own"
			}
			if st.Reason == "" && up && !m.onLink(mesh.Link, remote) {
				st.Reason = "its address " + remote.String() + " is in no network of " + mesh.Link
			}
			if st.Reason == "" {
				if twin, ok := m.remotes[remote]; ok {
					st.Reason = "its address " + remote.String() + " is that of " + twin
				}
			}
			if st.Reason != "" {
				m.condition("peer/"+key.String(), "NoSession", "no session with %s: %s", key.Peer, st.Reason)
				continue
			}
			used = true
			m.remotes[remote] = key.Peer
			s.Neighbors = append(s.Neighbors, nb)
		}
		if used {
			m.originate(f, local)
		}
	}
}

// familyUsed reports whether this node has a pod CIDR or class-link address of
// the family, so that a peer without one is worth a word.
func (m *maker) familyUsed(f routing.Family) bool {
	return m.address(m.cfg.BGP.Mesh.Link, f).IsValid() && len(m.ownCIDRs(f)) > 0
}

// originate announces this node's own pod CIDRs to the mesh, each only while
// the route that delivers it is in.
func (m *maker) originate(f routing.Family, local netip.Addr) {
	var from *routing.Table
	for i := range m.cfg.Tables {
		if m.cfg.Tables[i].Routes.Own != nil {
			from = &m.cfg.Tables[i]
			break
		}
	}
	for _, p := range m.ownCIDRs(f) {
		o := routing.Origin{Announcement: routing.Announcement{Prefix: p, NextHop: local}}
		if from != nil {
			o.Needs = routing.Route{
				Table: from.ID, Dst: p, Metric: routing.MetricPath,
				Type: from.Routes.Own.Type, Link: from.Routes.Own.Link, Protocol: m.cfg.Daemon.Protocol,
			}
		}
		m.plan.Announce = append(m.plan.Announce, o)
	}
}

// upstream plans the sessions with a router, and what it is told.
func (m *maker) upstream(b *routing.BGP, u *routing.Upstream) {
	for _, f := range routing.Families {
		if !u.Address.Of(f).Given() {
			continue
		}
		key := routing.SessionKey{Peer: u.Name, Family: f}
		st := m.peerStatus(key)
		password, refused := m.password(u.PasswordFile, key)
		remote, why := m.router(u, key)
		up, _ := m.usable(u.Link, f)
		local, down := m.local(u.Link, f, routing.HopLink)
		nb := routing.Neighbor{
			Key: key, Upstream: true, Link: u.Link, Local: local, Remote: remote, PeerASN: u.PeerASN,
			Password: password, GTSM: u.GTSM, Multihop: u.Multihop, Timers: u.Timers, RestartTime: u.GracefulRestart,
		}
		st.Neighbor, st.Reason = nb, cmp.Or(why, down, refused)
		if st.Reason == "" && m.hasAddress(u.Link, remote) {
			st.Reason = "its address " + remote.String() + " is our own"
		}
		if st.Reason == "" && u.Multihop == 0 && up && !m.onLink(u.Link, remote) {
			st.Reason = "its address " + remote.String() + " is in no network of " + u.Link
		}
		if st.Reason != "" {
			m.condition("peer/"+key.String(), "NoSession", "no session with %s: %s", u.Name, st.Reason)
			continue
		}
		if b.Listen {
			m.listen(local, u.Link)
		}
		m.plan.Speak.Neighbors = append(m.plan.Speak.Neighbors, nb)
		m.advertise(u, f, local)
	}
}

// router returns an upstream's address. A mistyped annotation, or this node
// missing from the inventory, leaves the session where it is.
func (m *maker) router(u *routing.Upstream, key routing.SessionKey) (netip.Addr, string) {
	remote, why := resolve(u.Address.Of(key.Family), m.self, key.Family)
	var last netip.Addr
	if nb := m.spoken[key]; nb != nil && nb.Upstream {
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

func (m *maker) listen(a netip.Addr, link string) {
	l := routing.Listen{Addr: a, Link: link}
	if !slices.Contains(m.plan.Speak.Listen, l) {
		m.plan.Speak.Listen = append(m.plan.Speak.Listen, l)
	}
}

// password returns the password in a file, or why there is none. A session that
// should have one is not started without; one that has one keeps it while the
// file cannot be read.
func (m *maker) password(file string, key routing.SessionKey) (routing.Secret, string) {
	if file == "" {
		return "", ""
	}
	if p, ok := m.in.Passwords[file]; ok {
		return p, ""
	}
	if nb := m.spoken[key]; nb != nil && nb.Password != "" {
		return nb.Password, ""
	}
	return "", "password file " + file + " cannot be read"
}
