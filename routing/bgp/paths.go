package bgp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	api "github.com/osrg/gobgp/v3/api"

	"netclass.dev/routing"
)

// read takes a session's paths from its Adj-RIB-In, as many as its limit
// allows.
func (s *speaker) read(p *session) {
	limit := p.neighbor.MaxPrefixes
	var paths []routing.Path
	var received uint32
	var err error
	if limit == 0 {
		received, err = s.countPaths(p)
	} else if paths, err = s.listPaths(p); err == nil {
		received = uint32(len(paths))
	}
	detail := ""
	switch {
	case err != nil:
		detail = err.Error()
	case limit == 0 && received > 0:
		detail = fmt.Sprintf("%d prefixes received, none wanted", received)
	case received > limit:
		paths = slices.Clone(paths[:limit])
		detail = fmt.Sprintf("%d prefixes received, only %d taken", received, limit)
	}
	if received == p.Received && detail == p.Detail && slices.Equal(paths, p.Paths) {
		return
	}
	p.Paths, p.Received, p.Detail, p.report = paths, received, detail, true
}

func (s *speaker) countPaths(p *session) (uint32, error) {
	t, err := s.bgp.GetTable(background, &api.GetTableRequest{
		TableType: api.TableType_ADJ_IN, Family: familyOf(p.Key.Family), Name: p.addr,
	})
	if err != nil {
		return 0, fmt.Errorf("count paths: %w", err)
	}
	return uint32(t.NumPath), nil
}

// listPaths returns the paths in order of their prefixes. GoBGP encodes every
// attribute on the way out, on this goroutine; a crafted one makes it panic,
// which then costs the paths of that peer and no more.
func (s *speaker) listPaths(p *session) (paths []routing.Path, err error) {
	defer func() {
		if r := recover(); r != nil {
			paths, err = nil, fmt.Errorf("read paths: malformed attribute: %v", r)
		}
	}()
	err = s.bgp.ListPath(background, &api.ListPathRequest{
		TableType:        api.TableType_ADJ_IN,
		Family:           familyOf(p.Key.Family),
		Name:             p.addr,
		EnableOnlyBinary: true,
	}, func(d *api.Destination) {
		prefix, err := netip.ParsePrefix(d.GetPrefix())
		if err != nil || routing.FamilyOf(prefix.Addr()) != p.Key.Family || len(d.GetPaths()) == 0 {
			return
		}
		hop := nextHop(p.Key.Family, d.GetPaths()[0].GetPattrsBinary())
		paths = append(paths, routing.Path{Prefix: prefix.Masked(), NextHop: hop})
	})
	if err != nil {
		return nil, fmt.Errorf("read paths: %w", err)
	}
	slices.SortFunc(paths, func(a, b routing.Path) int { return a.Prefix.Compare(b.Prefix) })
	return paths, nil
}

// Path attributes that hold a next hop (RFC 4271 §4.3, RFC 4760 §3).
const (
	attrNextHop     = 3
	attrMPReach     = 14
	flagExtendedLen = 0x10
)

// nextHop finds the next hop among encoded attributes; the zero address when
// there is none. For IPv6 the first of two is the global one.
func nextHop(f routing.Family, attrs [][]byte) netip.Addr {
	for _, a := range attrs {
		if len(a) < 3 {
			continue
		}
		typ, value := a[1], a[3:]
		if a[0]&flagExtendedLen != 0 {
			if len(a) < 4 || int(binary.BigEndian.Uint16(a[2:])) != len(a)-4 {
				continue
			}
			value = a[4:]
		}
		switch {
		case typ == attrNextHop && f == routing.IPv4 && len(value) == 4:
			return netip.AddrFrom4([4]byte(value))
		case typ == attrMPReach && len(value) >= 4:
			// AFI (2), SAFI (1), length of next hop (1), next hop.
			n, hop := int(value[3]), value[4:]
			if n >= 16 && len(hop) >= 16 {
				return netip.AddrFrom16([16]byte(hop))
			}
			if n == 4 && len(hop) >= 4 {
				return netip.AddrFrom4([4]byte(hop))
			}
		}
	}
	return netip.Addr{}
}
