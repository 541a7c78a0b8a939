package bgp

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	api "github.com/osrg/gobgp/v3/api"
	"google.golang.org/protobuf/proto"

	"netclass.dev/routing"
)

// setExport puts the export policy for the targets in force, if it differs from
// the one that is. Anything that no statement accepts is rejected.
func (s *speaker) setExport(targets map[target]group, neighbors []routing.Neighbor) error {
	members := make(map[string][]string) // neighbours' addresses by what they are addressed as
	for i := range neighbors {
		n := &neighbors[i]
		k := targetOf(n)
		members[k] = append(members[k], netip.PrefixFrom(n.Remote, n.Remote.BitLen()).String())
	}
	groups := make(map[group][]netip.Prefix)
	for t, g := range targets {
		groups[g] = append(groups[g], t.prefix)
	}

	version := s.loc.version + 1
	policy, sets := exportPolicy(version, groups, members)
	if samePolicy(policy, sets, s.loc.policy, s.loc.sets) {
		return nil
	}
	for _, d := range sets {
		if err := s.bgp.AddDefinedSet(background, &api.AddDefinedSetRequest{DefinedSet: d}); err != nil {
			return fmt.Errorf("add set %s: %w", d.Name, err)
		}
	}
	assign := &api.PolicyAssignment{Name: globalTable, Direction: api.PolicyDirection_EXPORT, DefaultAction: api.RouteAction_REJECT}
	if policy != nil {
		if err := s.bgp.AddPolicy(background, &api.AddPolicyRequest{Policy: policy}); err != nil {
			return fmt.Errorf("add export policy: %w", err)
		}
		assign.Policies = []*api.Policy{policy}
	}
	if err := s.bgp.SetPolicyAssignment(background, &api.SetPolicyAssignmentRequest{Assignment: assign}); err != nil {
		return fmt.Errorf("assign export policy: %w", err)
	}
	old, oldSets := s.loc.policy, s.loc.sets
	s.loc.version, s.loc.policy, s.loc.sets = version, policy, sets
	if old != nil {
		if err := s.bgp.DeletePolicy(background, &api.DeletePolicyRequest{Policy: old, All: true}); err != nil {
			return fmt.Errorf("delete old export policy: %w", err)
		}
	}
	for _, d := range oldSets {
		if err := s.bgp.DeleteDefinedSet(background, &api.DeleteDefinedSetRequest{DefinedSet: d, All: true}); err != nil {
			return fmt.Errorf("delete set %s: %w", d.Name, err)
		}
	}
	return nil
}

// targetOf returns what a neighbour is addressed as.
func targetOf(n *routing.Neighbor) string {
	if n.Upstream {
		return setKey(n.Key.Peer, n.Key.Family)
	}
	return setKey("", n.Key.Family)
}

func setKey(to string, f routing.Family) string { return to + "/" + f.String() }

// exportPolicy writes one statement for each group whose target has
// neighbours. GoBGP refuses a set without members.
func exportPolicy(version int, groups map[group][]netip.Prefix, members map[string][]string) (*api.Policy, []*api.DefinedSet) {
	var sets []*api.DefinedSet
	name := func(kind string, n int) string { return fmt.Sprintf("v%d-%s-%d", version, kind, n) }
	policy := &api.Policy{Name: fmt.Sprintf("v%d-export", version)}
	named := make(map[string]string) // neighbour set by key
	for i, g := range sortedKeys(groups, compareGroups) {
		key := setKey(g.to, g.family)
		if len(members[key]) == 0 {
			continue
		}
		if named[key] == "" {
			named[key] = name("neighbors", len(named))
			list := slices.Sorted(slices.Values(members[key]))
			sets = append(sets, &api.DefinedSet{DefinedType: api.DefinedType_NEIGHBOR, Name: named[key], List: list})
		}
		prefixes := &api.DefinedSet{DefinedType: api.DefinedType_PREFIX, Name: name("prefixes", i)}
		slices.SortFunc(groups[g], netip.Prefix.Compare)
		for _, p := range groups[g] {
			bits := uint32(p.Bits())
			prefixes.Prefixes = append(prefixes.Prefixes, &api.Prefix{IpPrefix: p.String(), MaskLengthMin: bits, MaskLengthMax: bits})
		}
		sets = append(sets, prefixes)
		policy.Statements = append(policy.Statements, &api.Statement{
			Name: name("statement", i),
			Conditions: &api.Conditions{
				RouteType:   api.Conditions_ROUTE_TYPE_LOCAL,
				PrefixSet:   &api.MatchSet{Type: api.MatchSet_ANY, Name: prefixes.Name},
				NeighborSet: &api.MatchSet{Type: api.MatchSet_ANY, Name: named[key]},
				Origin:      g.lost,
			},
			Actions: g.actions(),
		})
	}
	if len(policy.Statements) == 0 {
		return nil, nil
	}
	return policy, sets
}

// defaultLocalPref is what iBGP sends where nothing else is wanted.
const defaultLocalPref = 100

// actions sets the attributes of the group.
func (g group) actions() *api.Actions {
	a := &api.Actions{
		RouteAction: api.RouteAction_ACCEPT,
		Nexthop:     &api.NexthopAction{Address: g.nextHop.String()},
		// To routers of another AS it is not sent at all.
		LocalPref:    &api.LocalPrefAction{Value: cmp.Or(g.localPref, defaultLocalPref)},
		OriginAction: &api.OriginAction{Origin: api.RouteOriginType_ORIGIN_IGP},
	}
	var plain, large []string
	for _, c := range strings.Fields(g.communities) {
		if strings.Count(c, ":") == 2 {
			large = append(large, c)
		} else {
			plain = append(plain, c)
		}
	}
	if len(plain) > 0 {
		a.Community = &api.CommunityAction{Type: api.CommunityAction_REPLACE, Communities: plain}
	}
	if len(large) > 0 {
		a.LargeCommunity = &api.CommunityAction{Type: api.CommunityAction_REPLACE, Communities: large}
	}
	if g.med != 0 {
		a.Med = &api.MedAction{Type: api.MedAction_REPLACE, Value: int64(g.med)}
	}
	if g.looped != 0 {
		a.AsPrepend = &api.AsPrependAction{Asn: g.looped, Repeat: 1}
	} else if g.prepend != 0 {
		a.AsPrepend = &api.AsPrependAction{UseLeftMost: true, Repeat: uint32(g.prepend)}
	}
	return a
}

// samePolicy compares two policies but for the version in their names.
func samePolicy(p *api.Policy, sets []*api.DefinedSet, q *api.Policy, old []*api.DefinedSet) bool {
	if p == nil || q == nil {
		return p == nil && q == nil
	}
	return slices.EqualFunc(p.Statements, q.Statements, func(a, b *api.Statement) bool {
		return proto.Equal(a.Actions, b.Actions) && a.Conditions.GetOrigin() == b.Conditions.GetOrigin()
	}) && slices.EqualFunc(sets, old, func(a, b *api.DefinedSet) bool {
		a, b = proto.Clone(a).(*api.DefinedSet), proto.Clone(b).(*api.DefinedSet)
		a.Name, b.Name = "", ""
		return proto.Equal(a, b)
	})
}
