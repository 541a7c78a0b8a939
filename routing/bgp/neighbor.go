package bgp

import (
	"fmt"
	"math"
	"time"

	api "github.com/osrg/gobgp/v3/api"

	"netclass.dev/routing"
)

const (
	// Timers for a neighbour that names none. GoBGP's own (90 s of hold time,
	// 120 s between attempts) lose minutes.
	defaultHold         = 9 * time.Second
	defaultConnectRetry = 2 * time.Second

	// A session is ended with CEASE when a peer announces this many prefixes,
	// or ten times its limit: memory must have a bound. Between the limit and
	// this bound the session stays up, and only as many paths as the limit
	// allows are told to the daemon. A router that tells us its whole table
	// without being asked is not cut off from what we announce that soon.
	hardPrefixes         = 10_000
	hardUpstreamPrefixes = 50_000

	upstreamPort = 179
)

// hardLimit is the number of prefixes at which the session is ended.
func hardLimit(n *routing.Neighbor) uint32 {
	limit := uint32(hardPrefixes)
	if n.Upstream {
		limit = hardUpstreamPrefixes
	}
	if n.MaxPrefixes > math.MaxUint32/10 {
		return math.MaxInt32
	}
	return max(limit, 10*n.MaxPrefixes)
}

func familyOf(f routing.Family) *api.Family {
	if f == routing.IPv4 {
		return &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST}
	}
	return &api.Family{Afi: api.Family_AFI_IP6, Safi: api.Family_SAFI_UNICAST}
}

// seconds rounds up: half a second of hold time must not become none.
func seconds(d time.Duration) uint64 {
	return uint64((d + time.Second - 1) / time.Second)
}

// peerConfig is a neighbour in GoBGP's words. The session carries its own
// family only: IPv6 prefixes over an IPv4 session would come with mapped next
// hops.
func peerConfig(n *routing.Neighbor, port uint16, asn uint32) *api.Peer {
	hold, keepalive, retry := n.Timers.Hold, n.Timers.Keepalive, n.Timers.ConnectRetry
	if hold == 0 {
		hold = defaultHold
	}
	if keepalive == 0 {
		keepalive = hold / 3
	}
	if retry == 0 {
		retry = defaultConnectRetry
	}
	family := familyOf(n.Key.Family)
	remotePort := uint32(port)
	if n.Upstream {
		remotePort = upstreamPort
	}
	p := &api.Peer{
		Conf: &api.PeerConf{
			NeighborAddress: n.Remote.String(),
			PeerAsn:         n.PeerASN,
			AuthPassword:    string(n.Password),
			Description:     n.Key.Peer,
		},
		Timers: &api.Timers{Config: &api.TimersConfig{
			HoldTime:               seconds(hold),
			KeepaliveInterval:      max(seconds(keepalive), 1),
			ConnectRetry:           seconds(retry),
			IdleHoldTimeAfterReset: 1,
		}},
		Transport: &api.Transport{
			PassiveMode:   true, // we dial: see dialer
			RemotePort:    remotePort,
			BindInterface: n.Link,
		},
		AfiSafis: []*api.AfiSafi{{
			Config:       &api.AfiSafiConfig{Family: family, Enabled: true},
			PrefixLimits: &api.PrefixLimit{Family: family, MaxPrefixes: hardLimit(n)},
			MpGracefulRestart: &api.MpGracefulRestart{
				Config: &api.MpGracefulRestartConfig{Enabled: n.RestartTime > 0},
			},
		}},
	}
	if n.Local.IsValid() {
		p.Transport.LocalAddress = n.Local.String()
	}
	if n.GTSM {
		p.TtlSecurity = &api.TtlSecurity{Enabled: true, TtlMin: 255}
	} else if n.Multihop > 0 && n.PeerASN != asn {
		p.EbgpMultihop = &api.EbgpMultihop{Enabled: true, MultihopTtl: uint32(n.Multihop)}
	}
	if n.RestartTime > 0 {
		p.GracefulRestart = &api.GracefulRestart{
			Enabled:     true,
			RestartTime: uint32(min(seconds(n.RestartTime), 4095)), // 12 bits
		}
	}
	return p
}

// setNeighbor adds the neighbour, or changes it where it differs.
func (s *speaker) setNeighbor(addr string, n *routing.Neighbor, restarting bool) error {
	p, ok := s.sessions[addr]
	switch {
	case !ok:
		p = newSession(*n, addr)
		s.sessions[addr] = p
		s.watch.setRestarting(addr, restarting && n.RestartTime > 0)
		return s.addPeer(p)
	case p.neighbor == *n && p.failed == "":
		return nil
	case p.failed == "" && sameSession(&p.neighbor, n):
		p.neighbor = *n
		s.watch.put(happening{addr: addr, kind: updated}) // its limit may be another
		s.dialer.retime(addr, n.Timers)
		if _, err := s.bgp.UpdatePeer(background, &api.UpdatePeerRequest{Peer: s.peerConfig(n)}); err != nil {
			return fmt.Errorf("update peer %s: %w", n.Key, err)
		}
		return nil
	}
	// What the OPEN or the socket says has changed: a new session.
	err := s.deletePeer(p)
	p.neighbor = *n
	s.watch.setRestarting(addr, false)
	p.down(time.Now(), routing.CauseCease, notification{code: codeCease, subcode: 6, sent: true}.String())
	if err != nil {
		return err
	}
	return s.addPeer(p)
}

// sameSession reports whether a runs on as b: only timers and limits differ.
func sameSession(a, b *routing.Neighbor) bool {
	x := *a
	x.Timers, x.MaxPrefixes = b.Timers, b.MaxPrefixes
	return x == *b && a.Timers.Hold == b.Timers.Hold
}

func (s *speaker) peerConfig(n *routing.Neighbor) *api.Peer {
	return peerConfig(n, s.want.Port, s.want.ASN)
}

func (s *speaker) addPeer(p *session) error {
	p.added, p.resetAt = time.Now(), time.Time{}
	n := p.neighbor
	s.door.expect(&n)
	s.dialer.aim(p.addr, &p.neighbor, s.want.Port, s.want.ASN)
	if err := s.bgp.AddPeer(background, &api.AddPeerRequest{Peer: s.peerConfig(&p.neighbor)}); err != nil {
		p.failed = "add peer: " + err.Error()
		return fmt.Errorf("add peer %s: %w", p.Key, err)
	}
	p.failed = ""
	return nil
}

// deletePeer takes the neighbour out of GoBGP, with a CEASE when the session is
// up.
func (s *speaker) deletePeer(p *session) error {
	s.dialer.forget(p.addr)
	s.door.forget(&p.neighbor)
	if p.failed != "" {
		return nil // never got in
	}
	if err := s.bgp.DeletePeer(background, &api.DeletePeerRequest{Address: p.addr}); err != nil {
		return fmt.Errorf("delete peer %s: %w", p.Key, err)
	}
	return nil
}

func (s *speaker) removeNeighbor(p *session) error {
	delete(s.sessions, p.addr)
	s.watch.setRestarting(p.addr, false)
	return s.deletePeer(p)
}

// reset makes GoBGP forget the neighbour's last session: left alone it closes
// whatever comes in for 5 s, and keeps stale paths.
func (s *speaker) reset(p *session) error {
	if err := s.deletePeer(p); err != nil {
		return err
	}
	return s.addPeer(p)
}
