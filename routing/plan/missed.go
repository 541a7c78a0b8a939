package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// missed is a pod CIDR of a peer that is not reached over the class link.
type missed struct {
	node int
	dst  netip.Prefix
	why  string // "": what its session says
}

// miss counts a CIDR that is not separated. Those of one node come together, and
// the first speaks for it.
func (t *tally) miss(c missed) {
	if t.missing > 0 && t.last == c.node {
		return
	}
	t.missing, t.last = t.missing+1, c.node
	if len(t.missed) < named {
		t.missed = append(t.missed, c)
	}
}

// unseparated names the peers that are not reached over the class link, each with
// the reason.
func (m *maker) unseparated(t *tally, link string) string {
	text := ""
	for i, c := range t.missed {
		if i > 0 {
			text += ", "
		}
		why := c.why
		if why == "" {
			why = m.unlearned(c, link)
		}
		text += fmt.Sprintf("%s (%s)", m.nodes[c.node].Name, why)
	}
	if t.missing > len(t.missed) {
		text += fmt.Sprintf(" and %d more", t.missing-len(t.missed))
	}
	return text
}

// unlearned says why nothing counts that a peer has said of a CIDR. The statuses of
// the sessions are in order by then.
func (m *maker) unlearned(c missed, link string) string {
	if slices.Contains(m.plan.Drained, m.nodes[c.node].Name) {
		return "it is " + m.plan.DrainPhase(m.nodes[c.node].Name).Doing()
	}
	f := routing.FamilyOf(c.dst.Addr())
	key := routing.SessionKey{Peer: m.nodes[c.node].Name, Family: f}
	if at, ok := slices.BinarySearchFunc(m.plan.Peers, key, func(p routing.PeerStatus, k routing.SessionKey) int {
		return compareKeys(p.Neighbor.Key, k)
	}); ok {
		st := &m.plan.Peers[at]
		if st.Reason != "" {
			return st.Reason
		}
		for _, r := range st.Refused {
			if r.Path.Prefix == c.dst {
				return fmt.Sprintf("%s is refused: %s", c.dst, r.Reason)
			}
		}
	}
	if ok, why := m.usable(link, f); !ok {
		return why
	}
	switch peering := m.peerings[key]; {
	case peering == nil:
		return "no session yet"
	case peering.Why != "":
		return peering.Why
	}
	return "it has not announced " + c.dst.String()
}
