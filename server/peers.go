package server

import (
	"cmp"
	"context"
	"slices"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// ListPeers implements the service.
func (s *Server) ListPeers(_ context.Context, req *pb.ListPeersRequest) (*pb.ListPeersResponse, error) {
	if err := checkFamily(req.GetFamily()); err != nil {
		return nil, err
	}
	if _, known := pb.PeerView_name[int32(req.GetView())]; !known {
		return nil, badField("view", "%d is neither BASIC nor FULL", req.GetView())
	}
	v := s.view()
	rows := v.peers(func(p *routing.PeerStatus) bool {
		return req.GetPeer() == "" || p.Neighbor.Key.Peer == req.GetPeer()
	})
	if req.GetPeer() != "" && len(rows) == 0 {
		return nil, notFound("peer", req.GetPeer())
	}
	rows = slices.DeleteFunc(rows, func(p *routing.PeerStatus) bool { return !inFamily(req.GetFamily(), p.Neighbor.Key.Family) })
	full := req.GetView() == pb.PeerView_PEER_VIEW_FULL
	list := listing[*pb.Peer]{
		scope:   "ListPeers/" + req.GetFamily().String() + req.GetView().String() + req.GetPeer(),
		rows:    len(rows),
		key:     func(i int) string { return peerKey(rows[i].Neighbor.Key) },
		convert: func(i int) *pb.Peer { return v.peer(rows[i], full) },
	}
	peers, next, err := list.page(req)
	if err != nil {
		return nil, err
	}
	return &pb.ListPeersResponse{Peers: peers, NextPageToken: next}, nil
}

// peers returns the sessions that match, by name and family.
func (v *view) peers(match func(*routing.PeerStatus) bool) []*routing.PeerStatus {
	var rows []*routing.PeerStatus
	for i := range v.Peers {
		if match(&v.Peers[i]) {
			rows = append(rows, &v.Peers[i])
		}
	}
	slices.SortFunc(rows, func(a, b *routing.PeerStatus) int {
		return cmp.Compare(peerKey(a.Neighbor.Key), peerKey(b.Neighbor.Key))
	})
	return rows
}

func peerKey(k routing.SessionKey) string { return k.Peer + "\x00" + k.Family.String() }

func (v *view) peer(p *routing.PeerStatus, full bool) *pb.Peer {
	n, s := &p.Neighbor, &p.Session
	m := &pb.Peer{
		Name: n.Key.Peer, Family: pb.Family(n.Key.Family), Role: pb.PeerRole_PEER_ROLE_MESH, PeerAsn: n.PeerASN, Link: text(n.Link),
		LocalAddress: addr(n.Local), RemoteAddress: addr(n.Remote),
		State: pb.SessionState(s.State) + pb.SessionState_SESSION_STATE_IDLE, Since: v.since(s.Since),
		Held: p.Held, Reason: clip(p.Reason, maxText),
		Received: s.Received, Accepted: uint32(len(p.Accepted)), Refused: refused(p),
		EndOfRib: s.EndOfRIB, LastDownCause: pb.DownCause(s.Cause), LastError: clip(s.Detail, maxText),
		Passive: n.Passive, HoldTime: duration(n.Timers.Hold), Keepalive: duration(n.Timers.Keepalive), ConnectRetry: duration(n.Timers.ConnectRetry),
		RestartTime: duration(n.RestartTime), PeerRestartTime: duration(s.PeerRestartTime),
		Gtsm: n.GTSM, Multihop: uint32(n.Multihop), Password: n.Password != "", MaxPrefixes: n.MaxPrefixes,
	}
	if n.Upstream {
		m.Role = pb.PeerRole_PEER_ROLE_UPSTREAM
	}
	said := v.announced(p)
	m.Announced = uint32(len(said))
	if p.Held {
		m.HeldTill = stamp(p.HeldTill)
	}
	if !full {
		return m
	}
	for _, path := range p.Accepted[:min(len(p.Accepted), maxPaths)] {
		m.AcceptedPaths = append(m.AcceptedPaths, pathMessage(path))
	}
	for _, a := range said[:min(len(said), maxPaths)] {
		m.Announcements = append(m.Announcements, announcement(a))
	}
	for _, r := range p.Refused[:min(len(p.Refused), maxPaths)] {
		m.Refusals = append(m.Refusals, &pb.Refusal{Path: pathMessage(r.Path), Reason: clip(r.Reason, maxText)})
	}
	return m
}

// refused counts what a peer says in vain: besides what the planner refuses also
// what never comes before it, being beyond the limit, from a router, or our own
// come round to us.
func refused(p *routing.PeerStatus) uint32 {
	if s := &p.Session; s.State == routing.Established && s.EndOfRIB {
		return max(p.RefusedCount, s.Received-min(s.Received, uint32(len(p.Accepted))+p.Aside))
	}
	return p.RefusedCount
}

// announced returns what this node says to a peer, in the order of prefixes. To one
// whose session is down it says nothing.
func (v *view) announced(p *routing.PeerStatus) []*routing.Announcement {
	if p.Session.State != routing.Established {
		return nil
	}
	return v.announcements()[heard{p.Neighbor.Key.Family, upstreamName(&p.Neighbor)}]
}

// heard is who hears an announcement: every peer of the mesh in a family, or one
// upstream.
type heard struct {
	family   routing.Family
	upstream string // empty: the mesh
}

func upstreamName(n *routing.Neighbor) string {
	if n.Upstream {
		return n.Key.Peer
	}
	return ""
}

// announcementsByHearer sorts what the speaker has been told, once for all peers.
func (v *view) announcementsByHearer() map[heard][]*routing.Announcement {
	by := make(map[heard][]*routing.Announcement)
	for i := range v.Announced {
		a := &v.Announced[i]
		to := heard{routing.FamilyOf(a.Prefix.Addr()), a.To}
		by[to] = append(by[to], a)
	}
	for _, list := range by {
		slices.SortFunc(list, func(a, b *routing.Announcement) int { return a.Prefix.Compare(b.Prefix) })
	}
	return by
}

func announcement(a *routing.Announcement) *pb.Announcement {
	m := &pb.Announcement{
		Prefix: prefix(a.Prefix), NextHop: addr(a.NextHop), LocalPreference: a.LocalPreference, Med: a.MED, Prepend: uint32(a.Prepend),
	}
	for _, c := range a.Communities {
		m.Communities = append(m.Communities, text(c))
	}
	return m
}

func pathMessage(p routing.Path) *pb.Path {
	return &pb.Path{Prefix: prefix(p.Prefix), NextHop: addr(p.NextHop)}
}
