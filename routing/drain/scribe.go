package drain

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"netclass.dev/routing"
)

// scribe writes to the lease what is said of the drain, beside the machine: a slow
// API must not hold that up.
type scribe struct {
	lease func(name string) Lease
	log   *slog.Logger
	wake  chan struct{} // one slot

	mu    sync.Mutex
	queue []said
}

// said is a status, and the leases that it is written to beside the one that is
// configured.
type said struct {
	*routing.DrainStatus
	leases []string
}

// Bounds of what is written.
const (
	scribeGap  = time.Second // between writes
	scribeTime = time.Minute // until something that cannot be written is given up
	maxQueue   = 32
)

func newScribe(lease func(string) Lease, log *slog.Logger) *scribe {
	return &scribe{lease: lease, log: log, wake: make(chan struct{}, 1)}
}

// answer has a status written: as the answer to a request, or as that of the holder.
// Of one request only the newest is, and always the last.
func (s *scribe) answer(st *routing.DrainStatus, to *routing.DrainRequest, leases []string) {
	if st == nil {
		return
	}
	if to != nil && st.Request.ID != to.ID {
		copied := *st
		copied.Request.ID = to.ID
		st = &copied
	}
	s.mu.Lock()
	if n := len(s.queue); n > 0 && (n == maxQueue || s.queue[n-1].Request.ID == st.Request.ID && !s.queue[n-1].Final()) {
		s.queue[n-1] = said{st, leases}
	} else {
		s.queue = append(s.queue, said{st, leases})
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *scribe) next() (st said, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return said{}, false
	}
	st = s.queue[0]
	s.queue = s.queue[1:]
	return st, true
}

// run writes until ctx ends.
func (s *scribe) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for st, more := s.next(); more; st, more = s.next() {
			s.deliver(ctx, st)
			if !rest(ctx, scribeGap) {
				return
			}
		}
	}
}

// deliver writes one status, again and again while that fails and nothing newer
// waits.
func (s *scribe) deliver(ctx context.Context, st said) {
	giveUp := time.Now().Add(scribeTime)
	for {
		err := s.write(ctx, st)
		if err == nil || ctx.Err() != nil {
			return
		}
		if time.Now().After(giveUp) || !st.Final() && s.more() {
			s.log.Warn("drain status not written to the lease", "error", err)
			return
		}
		gap := scribeGap
		if errors.Is(err, routing.ErrDrainConflict) {
			gap = conflictGap
		}
		if !rest(ctx, gap) {
			return
		}
	}
}

func (s *scribe) more() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) > 0
}

// write writes a status to each of its leases. What becomes of it in one that is no
// longer configured, which there may be no right to any more, holds up nothing.
func (s *scribe) write(ctx context.Context, st said) error {
	l := s.lease("")
	if l == nil {
		return nil
	}
	err := writeStatus(ctx, l, st.DrainStatus)
	for _, name := range st.leases {
		old := s.lease(name)
		if old == nil || name == l.String() {
			continue
		}
		if errors.Is(writeStatus(ctx, old, st.DrainStatus), routing.ErrDrainConflict) {
			_ = writeStatus(ctx, old, st.DrainStatus)
		}
	}
	return err
}

// writeStatus writes a status if the lease is that of its drain, or its request is
// still the newest.
func writeStatus(ctx context.Context, l Lease, st *routing.DrainStatus) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	lease, err := readLease(ctx, l)
	if err != nil {
		return err
	}
	_, id := holderOf(lease)
	if id != st.Request.ID && (lease.Request == nil || lease.Request.ID != st.Request.ID) {
		return nil
	}
	next := *lease
	next.Status = st
	if st.Final() && lease.Request != nil && lease.Request.ID == st.Request.ID {
		next.Request = nil // it is answered, also once another status is in that place
	}
	_, err = l.WriteDrain(ctx, &next)
	return err
}

// rest waits, and reports false when ctx ended.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
