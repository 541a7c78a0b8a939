package plan

import (
	"slices"

	"netclass.dev/routing"
)

// takenOutSoFar is how a class that a drain has come to stands: drained once that is
// done.
func (m *maker) takenOutSoFar() (routing.Health, string) {
	step := m.in.Draining.Step.String()
	switch m.in.Draining.Phase {
	case routing.DrainDone:
		return routing.Drained, "taken out by a drain of this node"
	case routing.DrainUndoing, routing.DrainBack:
		return routing.DrainingState, "being put back after a drain of this node, still: " + step
	}
	return routing.DrainingState, "being taken out by a drain of this node, so far: " + step
}

// drainedNode notes a node, and how far it is, as each place says: it is drained only
// where none says otherwise. Empty: it says nothing of that.
func (m *maker) drainedNode(name string, phases ...routing.DrainPhase) {
	m.plan.Drained = append(m.plan.Drained, name)
	phase := routing.DrainPhase("")
	for _, p := range phases {
		if phase == "" || phase == routing.DrainDone && p != "" {
			phase = p
		}
	}
	if phase == "" {
		return
	}
	if m.plan.DrainPhases == nil {
		m.plan.DrainPhases = make(map[string]routing.DrainPhase)
	}
	m.plan.DrainPhases[name] = phase
}

// markPhase is how far a node is, as it says with its marker.
func markPhase(said routing.Notes) routing.DrainPhase {
	switch {
	case said.Has(routing.NoteUndraining):
		return routing.DrainUndoing
	case said.Has(routing.NoteDraining):
		return routing.DrainGoing
	}
	return routing.DrainDone
}

// leasePhase is how far the holder of the lock is. Where something else has taken the
// place of what it says, it is where it was; who has not said that it is drained is not.
func (m *maker) leasePhase(holder int) routing.DrainPhase {
	if s := m.leaseStatus(holder); s != nil {
		return s.Progress.Phase
	}
	name := m.nodes[holder].Name
	if slices.Contains(m.in.Ledger.Drained, name) {
		return m.in.Ledger.DrainPhases[name]
	}
	return routing.DrainGoing
}
