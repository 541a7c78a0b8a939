// Package servertest has a daemon's state without the daemon, for tests of what
// shows it.
package servertest

import (
	"context"
	"sync"

	"netclass.dev/routing"
)

// Source publishes the states that a test gives it.
type Source struct {
	// OnReload answers Reload; nil: success.
	OnReload func(ctx context.Context, validateOnly bool) ([]routing.Problem, error)
	// OnExplain and OnVerify answer Explain and Verify; nil: with an empty answer.
	OnExplain func(context.Context, routing.Question) ([]*routing.Explanation, error)
	OnVerify  func(ctx context.Context, all bool) (*routing.Verification, error)
	// OnDrain and OnUndrain answer Drain and Undrain; nil: with nothing.
	OnDrain   func(ctx context.Context, req routing.DrainRequest, validateOnly bool, report func(routing.DrainStatus) error) error
	OnUndrain func(ctx context.Context, req routing.DrainRequest, report func(routing.DrainStatus) error) error

	mu      sync.Mutex
	state   *routing.State
	changed chan struct{} // closed when state is replaced
}

// NewSource returns a source that shows st.
func NewSource(st *routing.State) *Source {
	return &Source{state: st, changed: make(chan struct{})}
}

// State returns the newest state.
func (s *Source) State() *routing.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Publish replaces the state by what change makes of a copy, one pass later.
func (s *Source) Publish(change func(*routing.State)) *routing.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.state
	next.Sequence++
	change(&next)
	s.state = &next
	close(s.changed)
	s.changed = make(chan struct{})
	return &next
}

// Wait blocks until there is a state newer than after.
func (s *Source) Wait(ctx context.Context, after uint64) (*routing.State, error) {
	for {
		s.mu.Lock()
		st, changed := s.state, s.changed
		s.mu.Unlock()
		if st.Sequence > after {
			return st, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Reload answers as OnReload says.
func (s *Source) Reload(ctx context.Context, validateOnly bool) ([]routing.Problem, error) {
	if s.OnReload == nil {
		return nil, nil
	}
	return s.OnReload(ctx, validateOnly)
}

// Explain answers as OnExplain says.
func (s *Source) Explain(ctx context.Context, q routing.Question) ([]*routing.Explanation, error) {
	if s.OnExplain == nil {
		return nil, nil
	}
	return s.OnExplain(ctx, q)
}

// Verify answers as OnVerify says.
func (s *Source) Verify(ctx context.Context, all bool) (*routing.Verification, error) {
	if s.OnVerify == nil {
		return &routing.Verification{}, nil
	}
	return s.OnVerify(ctx, all)
}

// Drain answers as OnDrain says.
func (s *Source) Drain(ctx context.Context, req routing.DrainRequest, validateOnly bool, report func(routing.DrainStatus) error) error {
	if s.OnDrain == nil {
		return nil
	}
	return s.OnDrain(ctx, req, validateOnly, report)
}

// Undrain answers as OnUndrain says.
func (s *Source) Undrain(ctx context.Context, req routing.DrainRequest, report func(routing.DrainStatus) error) error {
	if s.OnUndrain == nil {
		return nil
	}
	return s.OnUndrain(ctx, req, report)
}
