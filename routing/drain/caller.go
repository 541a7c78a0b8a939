package drain

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"netclass.dev/routing"
)

// caller is somebody who has asked for a drain or undrain and is told how it goes.
type caller struct {
	request routing.DrainRequest
	// far: the request came over the lease, and so do the answers.
	far bool

	mu   sync.Mutex
	news []*routing.DrainStatus // that have not been told
	wake chan struct{}          // one slot
	done chan struct{}
	err  error       // once it is done
	left atomic.Bool // nobody listens any more
}

// maxNews bounds what is kept for a caller who is slow to hear it.
const maxNews = 64

func newCaller(req routing.DrainRequest) *caller {
	return &caller{request: req, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// newID makes an identifier that no other drain has.
func newID() string { return rand.Text() }

// tell gives a caller the newest status.
func (c *caller) tell(st *routing.DrainStatus) {
	c.mu.Lock()
	if n := len(c.news); n == maxNews {
		c.news[n-1] = st
	} else {
		c.news = append(c.news, st)
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *caller) taken() []*routing.DrainStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := c.news
	c.news = nil
	return news
}

// end is the last that a caller hears.
func (c *caller) end(err error) {
	c.err = err
	close(c.done)
}

// ErrStopping is told to callers when the daemon ends. What they began goes on with
// its next run.
var ErrStopping = errors.New("netclassd is stopping; the drain goes on once it runs again")

// listen reports what a caller is told, until the end or until ctx is done.
func (c *caller) listen(ctx context.Context, report func(routing.DrainStatus) error) error {
	defer c.left.Store(true)
	relay := func() error {
		for _, st := range c.taken() {
			if err := report(*st); err != nil {
				return err
			}
		}
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.wake:
			if err := relay(); err != nil {
				return err
			}
		case <-c.done:
			if err := relay(); err != nil {
				return err
			}
			return c.err
		}
	}
}

// Drain takes a node out, and reports how that goes until it is done; with
// validateOnly it reports what it would cost. It joins a drain of that node that is
// under way. The end of ctx ends only the reports.
//
// A *routing.Refused names why it is not safe, a *routing.BadQuestion what cannot be
// drained. Any other error is why it failed; what it had taken out has been put back.
func (d *Drainer) Drain(ctx context.Context, req routing.DrainRequest, validateOnly bool, report func(routing.DrainStatus) error) error {
	req.Undrain = false
	s, err := d.complete(ctx, &req)
	if err != nil {
		return err
	}
	if req.Node != s.Node {
		return d.drainFar(ctx, req, validateOnly, report)
	}
	if err := askable(s, &req); err != nil {
		return err
	}
	if validateOnly {
		return d.validate(ctx, s, req, report)
	}
	return d.ask(req).listen(ctx, report)
}

// Undrain puts a node back. One that is not drained is done at once.
func (d *Drainer) Undrain(ctx context.Context, req routing.DrainRequest, report func(routing.DrainStatus) error) error {
	req.Undrain = true
	s, err := d.complete(ctx, &req)
	if err != nil {
		return err
	}
	if req.Node != s.Node {
		return d.far(ctx, req, report)
	}
	return d.ask(req).listen(ctx, report)
}

// complete fills in what a request leaves out, from the newest state. Just after the
// start there is none yet.
func (d *Drainer) complete(ctx context.Context, req *routing.DrainRequest) (*routing.State, error) {
	if _, err := d.opt.Engine.Wait(ctx, 0); err != nil {
		return nil, err
	}
	s := d.opt.Engine.State()
	if req.Node == "" {
		req.Node = s.Node
	}
	if req.ID == "" {
		req.ID = newID()
	}
	if req.At.IsZero() {
		req.At = time.Now()
	}
	return s, nil
}

// validate reports what a drain would cost, and why it would be refused: just as it
// would be.
func (d *Drainer) validate(ctx context.Context, s *routing.State, req routing.DrainRequest, report func(routing.DrainStatus) error) error {
	st := routing.DrainStatus{Request: req, Since: time.Now()}
	st.Progress = routing.DrainProgress{Costs: costs(s, &req), Message: "nothing has been changed", At: time.Now()}
	joins := s.Drain != nil && active(s.Drain.Progress.Phase)
	if joins {
		if err := inTheWay(s.Drain.Progress.Phase, &s.Drain.Request, &req); err != nil {
			return err
		}
		st.Progress.Costs = nothing(s.Drain.Progress.Phase)
	}
	if err := report(st); err != nil || joins {
		return err
	}
	if reasons := d.unsafeNow(ctx, s, &req); len(reasons) > 0 && !req.Force {
		return &routing.Refused{Reasons: reasons}
	}
	return nil
}

// ask puts a request into the mailbox.
func (d *Drainer) ask(req routing.DrainRequest) *caller {
	c := newCaller(req)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		c.end(ErrStopping)
		return c
	}
	d.mailbox = append(d.mailbox, c)
	d.poke()
	return c
}

// asked empties the mailbox.
func (d *Drainer) asked() []*caller {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.mailbox
	d.mailbox = nil
	return list
}
