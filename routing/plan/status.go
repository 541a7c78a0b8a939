package plan

import (
	"net/netip"
	"slices"

	"netclass.dev/routing"
)

// refusalsKept bounds how many refused paths of one peer are kept to be shown.
const refusalsKept = 100

// session is what the plan has of a node's sessions so far.
type session struct {
	status routing.PerFamily[int] // index into plan.Peers, from 1
	table  routing.TableID        // the first that learns from it
}

// peerStatus returns the status of a node's session, made when first asked for.
// It is good until the next one is made.
func (m *maker) peerStatus(node int, f routing.Family) *routing.PeerStatus {
	at := m.sessions[node].status.Of(f)
	if at == 0 {
		key := routing.SessionKey{Peer: m.nodes[node].Name, Family: f}
		m.plan.Peers = append(m.plan.Peers, routing.PeerStatus{Neighbor: routing.Neighbor{Key: key}})
		at = len(m.plan.Peers)
		m.sessions[node].status.Set(f, at)
	}
	return &m.plan.Peers[at-1]
}

// note records what became of a path. Where two tables learn from one node the
// first speaks for it.
func (m *maker) note(t *routing.Table, node int, f routing.Family, path routing.Path, reason string) {
	if first := &m.sessions[node].table; *first == 0 {
		*first = t.ID
	} else if *first != t.ID {
		return
	}
	s := m.peerStatus(node, f)
	if reason == "" {
		s.Accepted = append(s.Accepted, path)
	} else {
		refuse(s, path, reason)
	}
}

// retract turns an accepted path into a refused one.
func (m *maker) retract(node int, dst netip.Prefix, reason string) {
	s := m.peerStatus(node, routing.FamilyOf(dst.Addr()))
	for i, path := range s.Accepted {
		if path.Prefix == dst {
			s.Accepted = slices.Delete(s.Accepted, i, i+1)
			refuse(s, path, reason)
			return
		}
	}
}

func refuse(s *routing.PeerStatus, path routing.Path, reason string) {
	s.RefusedCount++
	if len(s.Refused) < refusalsKept {
		s.Refused = append(s.Refused, routing.Refusal{Path: path, Reason: reason})
	}
}
