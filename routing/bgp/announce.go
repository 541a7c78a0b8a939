package bgp

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	api "github.com/osrg/gobgp/v3/api"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"netclass.dev/routing"
)

// group is what announcements have in common that are sent alike: one
// statement of the export policy.
type group struct {
	to          string
	family      routing.Family
	nextHop     netip.Addr
	communities string // separated by spaces
	localPref   uint32
	med         uint32
	prepend     uint8
	looped      uint32 // the AS number that the path is said to have been through; 0: none
	// lost says that the target is to lose the prefixes: only paths of this origin,
	// which are the old ones, are for it.
	lost api.RouteOriginType
}

// originated is what we announce at present. The Loc-RIB holds each prefix once
// and bare; to whom it is sent, and with which attributes, is the export
// policy's business: so one prefix can go to the mesh with one next hop and to
// a router with another.
type originated struct {
	prefixes map[netip.Prefix]netip.Addr          // in the Loc-RIB, with some next hop
	origins  map[netip.Prefix]api.RouteOriginType // of each path there: alternating
	targets  map[target]group
	policy   *api.Policy // in force; nil: reject everything
	sets     []*api.DefinedSet
	version  int    // of the policy: names are never reused
	edition  uint32 // of the newest path in the Loc-RIB
}

type target struct {
	prefix netip.Prefix
	to     string
}

// announce makes what we announce into what is wanted. Prefixes leave under the
// old policy and come in under the new one.
func (s *speaker) announce(want *routing.Speak) []error {
	var errs []error
	targets, prefixes := make(map[target]group), make(map[netip.Prefix]netip.Addr)
	for i := range want.Announce {
		a := &want.Announce[i]
		g, err := groupOf(a)
		g.looped = looped(want, a)
		if err != nil {
			errs = append(errs, fmt.Errorf("announce %s: %w", a.Prefix, err))
		}
		t := target{a.Prefix, a.To}
		if _, ok := targets[t]; ok {
			errs = append(errs, fmt.Errorf("announce %s: announced to %q twice", a.Prefix, a.To))
			continue
		}
		targets[t] = g
		if _, ok := prefixes[a.Prefix]; !ok {
			prefixes[a.Prefix] = a.NextHop
		}
	}

	withdraw, send := make(map[netip.Prefix]bool), make(map[netip.Prefix]bool)
	for p := range s.loc.prefixes {
		withdraw[p] = !prefixes[p].IsValid()
	}
	for t, g := range targets {
		if old, ok := s.loc.targets[t]; !ok || old != g {
			send[t.prefix] = true
		}
	}
	between := s.losing(targets, prefixes, send)
	for p, yes := range withdraw {
		if yes {
			errs = append(errs, s.withdraw(p))
		}
	}
	defer s.said(heard(s.loc.targets, targets, withdraw, send))
	if err := s.setExport(between, want.Neighbors); err != nil {
		return append(errs, err) // what is announced stays as it was
	}
	for _, p := range sortedKeys(send, netip.Prefix.Compare) {
		errs = append(errs, s.originate(p, prefixes[p]))
	}
	if len(between) > len(targets) {
		errs = append(errs, s.setExport(targets, want.Neighbors))
	}
	s.loc.prefixes, s.loc.targets = prefixes, targets
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// losing returns the targets with those that are to lose a prefix which others
// keep, and notes such prefixes as ones to send. GoBGP withdraws a path from a
// neighbour when the policy refuses the new path but accepts the old one: so for
// these there is, while the new paths come in, a policy that tells old from new.
// The others see no withdrawal.
func (s *speaker) losing(targets map[target]group, prefixes map[netip.Prefix]netip.Addr, send map[netip.Prefix]bool) map[target]group {
	between := maps.Clone(targets)
	for t, g := range s.loc.targets {
		if _, ok := targets[t]; !ok && prefixes[t.prefix].IsValid() {
			g.lost = s.loc.origins[t.prefix]
			between[t] = g
			send[t.prefix] = true
		}
	}
	return between
}

// heard returns who hears of prefixes that are withdrawn or sent, as setKey names
// them.
func heard(old, now map[target]group, withdraw, send map[netip.Prefix]bool) map[string]bool {
	to := make(map[string]bool)
	for _, targets := range []map[target]group{old, now} {
		for t := range targets {
			if withdraw[t.prefix] || send[t.prefix] {
				to[setKey(t.to, routing.FamilyOf(t.prefix.Addr()))] = true
			}
		}
	}
	return to
}

// groupOf returns the announcement's group; with an error, without the
// communities that are none.
func groupOf(a *routing.Announcement) (group, error) {
	var errs []error
	var good []string
	for _, c := range a.Communities {
		if n, err := parseCommunity(c); err != nil {
			errs = append(errs, err)
		} else if !slices.Contains(good, n) {
			good = append(good, n)
		}
	}
	return group{
		to: a.To, family: routing.FamilyOf(a.Prefix.Addr()), nextHop: a.NextHop,
		communities: strings.Join(good, " "),
		localPref:   a.LocalPreference, med: a.MED, prepend: a.Prepend,
	}, errors.Join(errs...)
}

// looped returns our AS number for the marker of a drained node. It is for other
// netclassds; everybody else takes such a path for one that has come round, and
// leaves it (RFC 4271 §9.1.2). A BIRD that took it would find the node's address
// by the marker and no longer by its link: its routes to the node, and the session
// itself, would end.
func looped(want *routing.Speak, a *routing.Announcement) uint32 {
	if a.To == "" && a.Prefix == routing.DrainMarker(want.RouterID, routing.FamilyOf(a.Prefix.Addr())) {
		return want.ASN
	}
	return 0
}

// pathOf is a path for the Loc-RIB. GoBGP sends a path that was originated
// again only if an attribute differs, and what has changed is the policy: so
// each carries its edition as a local preference. The policy always overwrites
// that, and the origin.
func pathOf(p netip.Prefix, hop netip.Addr, edition uint32, origin api.RouteOriginType) (*api.Path, error) {
	nlri, err := anypb.New(&api.IPAddressPrefix{Prefix: p.Addr().String(), PrefixLen: uint32(p.Bits())})
	if err != nil {
		return nil, err
	}
	family := familyOf(routing.FamilyOf(p.Addr()))
	attrs := []proto.Message{&api.OriginAttribute{Origin: uint32(origin - api.RouteOriginType_ORIGIN_IGP)}, &api.LocalPrefAttribute{LocalPref: edition}}
	if p.Addr().Is4() {
		attrs = append(attrs, &api.NextHopAttribute{NextHop: hop.String()})
	} else {
		attrs = append(attrs, &api.MpReachNLRIAttribute{Family: family, NextHops: []string{hop.String()}, Nlris: []*anypb.Any{nlri}})
	}
	path := &api.Path{Family: family, Nlri: nlri}
	for _, a := range attrs {
		m, err := anypb.New(a)
		if err != nil {
			return nil, err
		}
		path.Pattrs = append(path.Pattrs, m)
	}
	return path, nil
}

func (s *speaker) originate(p netip.Prefix, hop netip.Addr) error {
	s.loc.edition++
	origin := api.RouteOriginType_ORIGIN_IGP
	if s.loc.origins[p] == origin {
		origin = api.RouteOriginType_ORIGIN_INCOMPLETE
	}
	if s.loc.origins == nil {
		s.loc.origins = make(map[netip.Prefix]api.RouteOriginType)
	}
	s.loc.origins[p] = origin
	path, err := pathOf(p, hop, s.loc.edition, origin)
	if err == nil {
		_, err = s.bgp.AddPath(background, &api.AddPathRequest{TableType: api.TableType_GLOBAL, Path: path})
	}
	if err != nil {
		return fmt.Errorf("announce %s: %w", p, err)
	}
	return nil
}

func (s *speaker) withdraw(p netip.Prefix) error {
	path, err := pathOf(p, s.loc.prefixes[p], s.loc.edition, s.loc.origins[p])
	delete(s.loc.origins, p)
	if err == nil {
		err = s.bgp.DeletePath(background, &api.DeletePathRequest{TableType: api.TableType_GLOBAL, Path: path})
	}
	if err != nil {
		return fmt.Errorf("withdraw %s: %w", p, err)
	}
	return nil
}

func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}

func compareGroups(a, b group) int {
	return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.family, b.family), a.nextHop.Compare(b.nextHop),
		cmp.Compare(a.communities, b.communities), cmp.Compare(a.localPref, b.localPref),
		cmp.Compare(a.med, b.med), cmp.Compare(a.prepend, b.prepend), cmp.Compare(a.looped, b.looped), cmp.Compare(a.lost, b.lost))
}
