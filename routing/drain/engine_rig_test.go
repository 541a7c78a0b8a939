package drain_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"netclass.dev/routing"
)

// engine carries out orders, and lets a test get in its way.
type engine struct {
	n    *node
	make func() *routing.State

	mu        sync.Mutex
	state     *routing.State
	next      chan struct{}
	order     routing.Draining
	status    *routing.DrainStatus
	orders    []routing.Draining
	markers   []string
	confirmed bool
	told      int
	still     bool                   // it makes no pass
	change    func(*routing.State)   // of every state
	ordered   func(routing.Draining) // before an order is taken
	unheeded  atomic.Bool            // the order is not to follow a cordon
}

func (e *engine) SetDrain(order routing.Draining, status *routing.DrainStatus) {
	e.mu.Lock()
	hook, news := e.ordered, len(e.orders) == 0 || e.orders[len(e.orders)-1].Step != order.Step || e.orders[len(e.orders)-1].Marker != order.Marker
	e.mu.Unlock()
	if hook != nil && news {
		hook(order)
	}
	e.mu.Lock()
	if news {
		e.orders = append(e.orders, order)
	}
	e.order, e.status = order, status
	e.mu.Unlock()
	if e.unheeded.Swap(order.Overridden) != order.Overridden {
		e.n.w.news()
	}
	time.AfterFunc(passTime, e.look)
	e.n.w.mark(e.n, order.Marker)
}

// forget is the start of a process: no order has been given.
func (e *engine) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.order, e.status = routing.Draining{}, nil
	e.unheeded.Store(false)
}

// look is a pass.
func (e *engine) look() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.still {
		return
	}
	s := e.make()
	s.Sequence = e.state.Sequence + 1
	s.Drain, s.Speaker.Confirmed = e.status, e.confirmed
	if e.change != nil {
		e.change(s)
	}
	e.state = s
	close(e.next)
	e.next = make(chan struct{})
}

// alter changes every state from now on; nil: none.
func (e *engine) alter(f func(*routing.State)) {
	e.mu.Lock()
	e.change = f
	e.mu.Unlock()
	e.look()
}

func (e *engine) State() *routing.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

func (e *engine) Wait(ctx context.Context, after uint64) (*routing.State, error) {
	for {
		e.mu.Lock()
		s, next := e.state, e.next
		e.mu.Unlock()
		if s.Sequence > after {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-next:
		}
	}
}

// steps returns the steps ordered so far.
func (e *engine) steps() (list []routing.DrainStep) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.orders {
		list = append(list, o.Step)
	}
	return list
}

// hook has f called before each step that is ordered; nil: nothing.
func (e *engine) hook(f func(routing.Draining)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ordered = f
}

func (e *engine) now() routing.Draining {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.order
}
