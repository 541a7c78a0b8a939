package speakerv1

import (
	"fmt"

	"netclass.dev/routing"
)

// FromSpeak writes what is wanted as a message.
func FromSpeak(s *routing.Speak) *Speak {
	m := &Speak{
		Asn:           s.ASN,
		RouterId:      addrBytes(s.RouterID),
		Port:          uint32(s.Port),
		Listen:        make([]*Listen, len(s.Listen)),
		Neighbors:     make([]*Neighbor, len(s.Neighbors)),
		Announcements: make([]*Announcement, len(s.Announce)),
		Restarting:    s.Restarting,
	}
	for i, l := range s.Listen {
		m.Listen[i] = &Listen{Address: addrBytes(l.Addr), Link: l.Link}
	}
	for i := range s.Neighbors {
		m.Neighbors[i] = neighborMessage(&s.Neighbors[i])
	}
	for i := range s.Announce {
		a := &s.Announce[i]
		m.Announcements[i] = &Announcement{
			Prefix:          prefixMessage(a.Prefix),
			NextHop:         addrBytes(a.NextHop),
			To:              a.To,
			Communities:     a.Communities,
			LocalPreference: a.LocalPreference,
			Med:             a.MED,
			Prepend:         uint32(a.Prepend),
		}
	}
	return m
}

func neighborMessage(n *routing.Neighbor) *Neighbor {
	return &Neighbor{
		Key:          keyMessage(n.Key),
		Upstream:     n.Upstream,
		Link:         n.Link,
		Local:        addrBytes(n.Local),
		Remote:       addrBytes(n.Remote),
		PeerAsn:      n.PeerASN,
		Passive:      n.Passive,
		Password:     string(n.Password),
		Gtsm:         n.GTSM,
		Multihop:     uint32(n.Multihop),
		Hold:         durationMessage(n.Timers.Hold),
		Keepalive:    durationMessage(n.Timers.Keepalive),
		ConnectRetry: durationMessage(n.Timers.ConnectRetry),
		RestartTime:  durationMessage(n.RestartTime),
		MaxPrefixes:  n.MaxPrefixes,
	}
}

// ToSpeak reads what is wanted, and refuses what no planner would write.
func ToSpeak(m *Speak) (*routing.Speak, error) {
	id, err := addrFrom(m.GetRouterId())
	if err != nil || !id.Is4() {
		return nil, fmt.Errorf("router ID of %d bytes", len(m.GetRouterId()))
	}
	if m.GetAsn() == 0 || m.GetPort() == 0 || m.GetPort() > 1<<16-1 {
		return nil, fmt.Errorf("AS number %d, port %d", m.GetAsn(), m.GetPort())
	}
	s := &routing.Speak{
		ASN:        m.GetAsn(),
		RouterID:   id,
		Port:       uint16(m.GetPort()),
		Restarting: m.GetRestarting(),
	}
	for _, l := range m.GetListen() {
		a, err := addrFrom(l.GetAddress())
		if err != nil || !a.IsValid() {
			return nil, fmt.Errorf("listen: address of %d bytes", len(l.GetAddress()))
		}
		s.Listen = append(s.Listen, routing.Listen{Addr: a, Link: l.GetLink()})
	}
	for _, m := range m.GetNeighbors() {
		n, err := neighborFrom(m)
		if err != nil {
			return nil, fmt.Errorf("neighbor %s: %w", m.GetKey().GetPeer(), err)
		}
		s.Neighbors = append(s.Neighbors, n)
	}
	for _, m := range m.GetAnnouncements() {
		a, err := announcementFrom(m)
		if err != nil {
			return nil, fmt.Errorf("announcement: %w", err)
		}
		s.Announce = append(s.Announce, a)
	}
	return s, nil
}

func neighborFrom(m *Neighbor) (n routing.Neighbor, err error) {
	if n.Key, err = keyFrom(m.GetKey()); err != nil {
		return n, err
	}
	if n.Local, err = addrFrom(m.GetLocal()); err != nil {
		return n, err
	}
	if n.Remote, err = addrFrom(m.GetRemote()); err != nil {
		return n, err
	}
	if !n.Remote.IsValid() || routing.FamilyOf(n.Remote) != n.Key.Family {
		return n, fmt.Errorf("remote address %s of family %s", n.Remote, n.Key.Family)
	}
	if n.Local.IsValid() && routing.FamilyOf(n.Local) != n.Key.Family {
		return n, fmt.Errorf("local address %s of family %s", n.Local, n.Key.Family)
	}
	if m.GetMultihop() > 255 || m.GetPeerAsn() == 0 {
		return n, fmt.Errorf("multihop %d, AS number %d", m.GetMultihop(), m.GetPeerAsn())
	}
	if n.Timers.Hold, err = durationFrom(m.GetHold()); err != nil {
		return n, err
	}
	if n.Timers.Keepalive, err = durationFrom(m.GetKeepalive()); err != nil {
		return n, err
	}
	if n.Timers.ConnectRetry, err = durationFrom(m.GetConnectRetry()); err != nil {
		return n, err
	}
	if n.RestartTime, err = durationFrom(m.GetRestartTime()); err != nil {
		return n, err
	}
	n.Upstream, n.Link, n.PeerASN, n.Passive = m.GetUpstream(), m.GetLink(), m.GetPeerAsn(), m.GetPassive()
	n.Password, n.GTSM, n.Multihop = routing.Secret(m.GetPassword()), m.GetGtsm(), uint8(m.GetMultihop())
	n.MaxPrefixes = m.GetMaxPrefixes()
	return n, nil
}

func announcementFrom(m *Announcement) (a routing.Announcement, err error) {
	if a.Prefix, err = prefixFrom(m.GetPrefix()); err != nil {
		return a, err
	}
	if a.NextHop, err = addrFrom(m.GetNextHop()); err != nil {
		return a, err
	}
	if !a.NextHop.IsValid() || routing.FamilyOf(a.NextHop) != routing.FamilyOf(a.Prefix.Addr()) {
		return a, fmt.Errorf("%s: next hop %s", a.Prefix, a.NextHop)
	}
	if m.GetPrepend() > 255 {
		return a, fmt.Errorf("%s: prepend %d", a.Prefix, m.GetPrepend())
	}
	a.To, a.Communities = m.GetTo(), m.GetCommunities()
	a.LocalPreference, a.MED, a.Prepend = m.GetLocalPreference(), m.GetMed(), uint8(m.GetPrepend())
	return a, nil
}
