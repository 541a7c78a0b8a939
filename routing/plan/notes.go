package plan

import (
	"slices"

	"netclass.dev/routing"
)

// notes has this node's own pod CIDRs say to which routers it announces, and that it
// drains for its cordon: who asks whether another node may be drained has no other way
// to know. A prefix of its own for that would be a route to whoever else is in the mesh.
func (m *maker) notes(b *routing.BGP) {
	if b.Mesh == nil {
		return
	}
	var said []uint32
	if len(b.Upstreams) > 0 {
		said = append(said, routing.NoteRouters)
	}
	if m.cfg.Drain.FollowCordon && m.self != nil && m.self.Cordoned && !m.in.Draining.Overridden {
		said = append(said, routing.NoteDrains)
	}
	for i := range b.Upstreams {
		for _, f := range routing.Families {
			key := routing.SessionKey{Peer: b.Upstreams[i].Name, Family: f}
			if p := m.peerings[key]; p != nil && p.RouterID.IsValid() && m.announces(key) {
				said = append(said, routing.NoteRouter(key))
			}
		}
	}
	slices.Sort(said)
	var communities []string
	for _, note := range said {
		communities = append(communities, routing.NoteCommunity(b.ASN, note))
	}
	for i := range m.plan.Announce {
		if o := &m.plan.Announce[i]; o.To == "" && len(o.Communities) == 0 { // and so no marker
			o.Communities = communities
		}
	}
}

// announces reports whether a router is to be told of anything in a family.
func (m *maker) announces(key routing.SessionKey) bool {
	return slices.ContainsFunc(m.plan.Announce, func(o routing.Origin) bool {
		return o.To == key.Peer && routing.FamilyOf(o.Prefix.Addr()) == key.Family
	})
}
