package server

import (
	"context"
	"sync"

	"netclass.dev/routing"
)

// maxReports bounds what waits for a caller that reads slowly. Such a one is told
// of every step and of the newest figures.
const maxReports = 64

// reports is what a drain says on its way to a caller. Who says it never waits for
// who reads it: a drain must not hang on a terminal that is stopped.
type reports struct {
	undrain bool
	mu      sync.Mutex
	waiting []report
	last    *routing.DrainStatus
	done    bool // the last one has been said to be it
	ended   bool
	news    chan struct{}
}

type report struct {
	status *routing.DrainStatus
	done   bool
}

func newReports(undrain bool) *reports {
	return &reports{undrain: undrain, news: make(chan struct{}, 1)}
}

// put takes a report. It takes the place of an older one with the same words, and
// of the newest where too many wait.
func (r *reports) put(st routing.DrainStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(report{&st, r.well(&st)})
}

// well reports whether what was asked for is done with this.
func (r *reports) well(st *routing.DrainStatus) bool {
	wanted := routing.DrainDone
	if r.undrain {
		wanted = routing.DrainEnded
	}
	return st.Progress.Phase == wanted && st.Progress.Error == ""
}

func (r *reports) add(next report) {
	if n := len(r.waiting); n == maxReports || n > 0 && sameStep(r.waiting[n-1].status, next.status) {
		r.waiting[n-1] = next
	} else {
		r.waiting = append(r.waiting, next)
	}
	r.last, r.done = next.status, next.done
	r.wake()
}

// end says that nothing comes any more. Of what went well the caller is told that
// it is done, whatever has been reported.
func (r *reports) end(well bool, req routing.DrainRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if well && !r.done {
		last := routing.DrainStatus{Request: req}
		if r.last != nil {
			last = *r.last
		}
		r.add(report{&last, true})
	}
	r.ended = true
	r.wake()
}

func (r *reports) wake() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// newest is the last report; nil: there was none.
func (r *reports) newest() *routing.DrainStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// deliver sends what is reported until the end, or until ctx is done.
func (r *reports) deliver(ctx context.Context, send func(st *routing.DrainStatus, done bool) error) error {
	for {
		r.mu.Lock()
		list, ended := r.waiting, r.ended
		r.waiting = nil
		r.mu.Unlock()
		for _, next := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := send(next.status, next.done); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-r.news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
