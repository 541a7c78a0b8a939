package bgp

import (
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
	received, err := s.countPaths(p)
	switch {
	case err != nil || limit == 0:
	case received > hardLimit(&p.neighbor):
		paths = p.Paths // the session is about to end; do not read all that
	default:
		paths, received, err = s.listPaths(p)
	}
	detail := ""
	switch {
	case err != nil:
		detail = err.Error()
	case limit == 0 && received > 0:
		detail = fmt.Sprintf("%d prefixes received, none wanted", received)
	case len(paths) > int(limit) || received > hardLimit(&p.neighbor):
		paths = slices.Clone(paths[:min(len(paths), int(limit))])
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

// listPaths returns the usable paths in order of their prefixes, and how many
// there are with those that have come round to us. GoBGP encodes every
// attribute on the way out, on this goroutine; a crafted one makes it panic,
// which then costs the paths of that peer and no more.
func (s *speaker) listPaths(p *session) (paths []routing.Path, received uint32, err error) {
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
		received++
		a := readAttributes(p.Key.Family, d.GetPaths()[0].GetPattrsBinary())
		if a.passed(s.want.ASN, s.want.RouterID) && !(a.noAdvertise && prefix.IsSingleIP()) {
			return // what we announced comes round: not a path (RFC 4271 §9.1.2, RFC 4456 §8)
		}
		paths = append(paths, routing.Path{Prefix: prefix.Masked(), NextHop: a.nextHop, NoAdvertise: a.noAdvertise, Notes: a.notes(s.want.ASN)})
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read paths: %w", err)
	}
	slices.SortFunc(paths, func(a, b routing.Path) int { return a.Prefix.Compare(b.Prefix) })
	return paths, received, nil
}
