package inventory

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// trialTime is how long a watch must last to be taken for one.
const trialTime = time.Second

// trial is a watch that says once whether it has proven itself: the client library
// takes a connection that ends at once for a watch without events, and so would
// take a load balancer without any API server behind it for one.
type trial struct {
	inner watch.Interface
	out   chan watch.Event
	stop  chan struct{}
	once  sync.Once
}

func onTrial(inner watch.Interface, good, bad func()) watch.Interface {
	t := &trial{inner: inner, out: make(chan watch.Event), stop: make(chan struct{})}
	go t.run(good, bad)
	return t
}

// ResultChan implements watch.Interface.
func (t *trial) ResultChan() <-chan watch.Event { return t.out }

// Stop implements watch.Interface.
func (t *trial) Stop() {
	t.once.Do(func() { close(t.stop) })
	t.inner.Stop()
}

func (t *trial) run(good, bad func()) {
	defer close(t.out)
	lasts := time.NewTimer(trialTime)
	defer lasts.Stop()
	proven := false
	prove := func() {
		if !proven {
			proven = true
			lasts.Stop()
			good()
		}
	}
	for {
		select {
		case <-t.stop:
			return
		case <-lasts.C:
			prove()
		case e, ok := <-t.inner.ResultChan():
			if !ok {
				if !proven {
					bad()
				}
				return
			}
			prove()
			select {
			case t.out <- e:
			case <-t.stop:
				return
			}
		}
	}
}
