package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

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
	m.notes(b)
	s := m.plan.Speak
	slices.SortStableFunc(m.plan.Announce, func(x, y routing.Origin) int {
		return cmp.Or(cmp.Compare(x.To, y.To), x.Prefix.Compare(y.Prefix))
	})
	slices.SortFunc(s.Neighbors, func(x, y routing.Neighbor) int { return compareKeys(x.Key, y.Key) })
	slices.SortFunc(s.Listen, func(x, y routing.Listen) int { return x.Addr.Compare(y.Addr) })
	slices.SortFunc(m.plan.Peers, func(x, y routing.PeerStatus) int { return compareKeys(x.Neighbor.Key, y.Neighbor.Key) })
}

// mesh plans one session per node and family over the mesh link.
func (m *maker) mesh(b *routing.BGP) {
	mesh := b.Mesh
	sides := make(map[routing.Family]*side, len(routing.Families))
	for _, f := range routing.Families {
		s := &side{}
		s.local, s.why = m.local(mesh.Link, f, mesh.Address)
		s.up, _ = m.usable(mesh.Link, f)
		if s.why == "" && b.Listen {
			m.listen(s.local, mesh.Link)
		}
		sides[f] = s
		if s.up {
			m.misnamed(mesh, f)
		}
	}
	m.meshRemotes(mesh)
	m.plan.Speak.Neighbors = make([]routing.Neighbor, 0, 2*(len(m.nodes)+len(b.Upstreams)))
	for i := range m.nodes {
		if i == m.at {
			continue
		}
		for _, f := range routing.Families {
			m.peer(b, i, f, sides[f])
		}
	}
	for _, f := range routing.Families {
		if sides[f].waits && !m.classWaits(mesh.Link) {
			m.condition("mesh/"+f.String(), "NoSession", "no %s session with any node: %s", f, sides[f].why)
		}
		if !sides[f].used {
			continue
		}
		if !m.drained(mesh.Link, routing.DrainMesh) {
			m.originate(f, sides[f].local)
		}
		m.mark(f, sides[f].local)
	}
}

// misnamed says so when the other nodes are told no address of ours on the mesh
// link, or one that it does not have: they would dial nobody, or into the void.
func (m *maker) misnamed(mesh *routing.Mesh, f routing.Family) {
	if m.self == nil {
		return
	}
	known, why := m.nodeAddress(m.at, mesh.Address, mesh.Link, f)
	switch {
	case !known.IsValid() && m.familyUsed(f) && m.meshSpeaks(f):
		m.condition("node/"+m.self.Name, "NoAddress", "%s, so the other nodes have no %s session with it", why, f)
	case known.IsValid() && !m.hasAddress(mesh.Link, known):
		m.condition("node/"+m.self.Name, "OtherAddress", "the other nodes are told that its address on %s is %s, but the link does not have it", mesh.Link, known)
	}
}

// meshSpeaks reports whether another node has an address of the family for the mesh,
// so that it is worth a word if this one has none.
func (m *maker) meshSpeaks(f routing.Family) bool {
	mesh := m.cfg.BGP.Mesh
	for i := range m.nodes {
		if i == m.at {
			continue
		}
		if a, _ := m.nodeAddress(i, mesh.Address, mesh.Link, f); a.IsValid() {
			return true
		}
	}
	return false
}

// classWaits reports whether a class waits for a link, and so says what is wrong
// with it.
func (m *maker) classWaits(link string) bool {
	for _, f := range routing.Families {
		if ok, _ := m.usable(link, f); ok {
			return false
		}
	}
	return slices.ContainsFunc(m.cfg.Classes, func(c routing.Class) bool { return c.Link == link && !c.Delegated })
}

// side is our end of the mesh in one family.
type side struct {
	local netip.Addr
	why   string // why there is none
	up    bool   // the link can be used now
	used  bool   // there is a session
	waits bool   // there would be one, if there were this end
}

// meshRemotes notes which node has which address. Where two are given one by
// mistake, the one that is spoken to there keeps it.
func (m *maker) meshRemotes(mesh *routing.Mesh) {
	m.remotes = make(map[netip.Addr]int, 2*len(m.nodes))
	for i := range m.nodes {
		if i == m.at {
			continue
		}
		for _, f := range routing.Families {
			remote, missing := m.nodeAddress(i, mesh.Address, mesh.Link, f)
			if missing != "" {
				continue
			}
			if _, taken := m.remotes[remote]; !taken || m.spokenAt(i, f, remote) {
				m.remotes[remote] = i
			}
		}
	}
}

// spokenAt reports whether a node is spoken to at an address.
func (m *maker) spokenAt(node int, f routing.Family, remote netip.Addr) bool {
	nb := m.spoken(routing.SessionKey{Peer: m.nodes[node].Name, Family: f})
	return nb != nil && !nb.Upstream && nb.Remote == remote
}

// spoken returns a session of the newest order to the speaker, or nil.
func (m *maker) spoken(key routing.SessionKey) *routing.Neighbor {
	if m.in.Speaking == nil {
		return nil
	}
	at, ok := slices.BinarySearchFunc(m.in.Speaking.Neighbors, key, func(n routing.Neighbor, key routing.SessionKey) int {
		return compareKeys(n.Key, key)
	})
	if !ok {
		return nil
	}
	return &m.in.Speaking.Neighbors[at]
}

func compareKeys(a, b routing.SessionKey) int {
	if c := strings.Compare(a.Peer, b.Peer); c != 0 {
		return c
	}
	return int(a.Family) - int(b.Family)
}

// peer plans the session with one node in one family.
func (m *maker) peer(b *routing.BGP, node int, f routing.Family, s *side) {
	mesh := b.Mesh
	key := routing.SessionKey{Peer: m.nodes[node].Name, Family: f}
	remote, missing := m.nodeAddress(node, mesh.Address, mesh.Link, f)
	if missing != "" && !m.familyUsed(f) {
		return
	}
	password, refused := m.password(mesh.PasswordFile, key)
	st := m.peerStatus(node, f)
	st.Neighbor = routing.Neighbor{
		Key: key, Link: mesh.Link, Local: s.local, Remote: remote, PeerASN: b.ASN,
		Passive:  b.Listen && remote.IsValid() && remote.Less(s.local), // the lower address dials
		Password: password, GTSM: mesh.GTSM, Timers: b.Timers,
		RestartTime: b.GracefulRestart, MaxPrefixes: mesh.MaxPrefixes,
	}
	switch {
	case missing != "":
		st.Reason = missing
	case s.why != "":
		st.Reason = s.why
		s.waits = true
		return
	case refused != "":
		st.Reason = refused
	case m.hasAddress(mesh.Link, remote):
		st.Reason = "its address " + remote.String() + " is our own"
	case s.up && !m.onLink(mesh.Link, remote):
		st.Reason = "its address " + remote.String() + " is in no network of " + mesh.Link
	case m.remotes[remote] != node:
		st.Reason = "its address " + remote.String() + " is that of " + m.nodes[m.remotes[remote]].Name
	}
	if st.Reason != "" {
		m.condition("peer/"+key.String(), "NoSession", "no session with %s: %s", key.Peer, st.Reason)
		return
	}
	s.used = true
	m.plan.Speak.Neighbors = append(m.plan.Speak.Neighbors, st.Neighbor)
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

func (m *maker) listen(a netip.Addr, link string) {
	l := routing.Listen{Addr: a, Link: link}
	if !slices.Contains(m.plan.Speak.Listen, l) {
		m.plan.Speak.Listen = append(m.plan.Speak.Listen, l)
	}
}

// password returns the password in a file, or why there is none. A session that
// should have one is not started without; one that has one keeps it while the
// file cannot be read, and it is said that only this keeps it.
func (m *maker) password(file string, key routing.SessionKey) (routing.Secret, string) {
	if file == "" {
		return "", ""
	}
	if p, ok := m.in.Passwords[file]; ok {
		return p, ""
	}
	why := "password file " + file + " cannot be read"
	if fault := m.in.Unread[file]; fault != "" {
		why += " (" + fault + "): netclassctl reload once it can"
	}
	if nb := m.spoken(key); nb != nil && nb.Password != "" {
		m.condition("peer/"+key.String(), "PasswordNotRead", "%s: the session goes on with the last one until it is started anew", why)
		return nb.Password, ""
	}
	return "", why
}
