package speakerv1

import (
	"fmt"

	"netclass.dev/routing"
)

// FromUnsent writes what of which sessions is not acknowledged yet. Those with
// nothing are left out.
func FromUnsent(sessions []routing.Session) *Unsent {
	m := &Unsent{}
	for i := range sessions {
		if s := &sessions[i]; s.Unsent > 0 {
			m.Sessions = append(m.Sessions, &Outstanding{Key: keyMessage(s.Key), Count: s.Unsent})
		}
	}
	return m
}

// ToUnsent reads it, by session.
func ToUnsent(m *Unsent) (map[routing.SessionKey]uint32, error) {
	counts := make(map[routing.SessionKey]uint32, len(m.GetSessions()))
	for _, o := range m.GetSessions() {
		key, err := keyFrom(o.GetKey())
		if err != nil {
			return nil, fmt.Errorf("unsent: %w", err)
		}
		if o.GetCount() == 0 {
			return nil, fmt.Errorf("unsent: nothing of session %s", key)
		}
		counts[key] = o.GetCount()
	}
	return counts, nil
}
