package drain_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"netclass.dev/routing"
)

// call is a call of a node that lasts.
type call struct {
	done chan struct{}
	err  error

	mu      sync.Mutex
	reports []routing.DrainStatus
}

func (c *call) report(st routing.DrainStatus) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reports = append(c.reports, st)
	return nil
}

func (c *call) last() routing.DrainStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.reports) == 0 {
		return routing.DrainStatus{}
	}
	return c.reports[len(c.reports)-1]
}

// wait waits for the end of a call.
func (c *call) wait(t *testing.T, limit time.Duration) error {
	t.Helper()
	select {
	case <-c.done:
		return c.err
	case <-time.After(limit):
		t.Fatalf("the call has not ended after %v: %+v", limit, c.last().Progress)
		return nil
	}
}

func (n *node) drain(req routing.DrainRequest) *call {
	c := &call{done: make(chan struct{})}
	req.By = "uid 0 (test)"
	d, ctx := n.drainer, n.w.t.Context()
	go func() { defer close(c.done); c.err = d.Drain(ctx, req, false, c.report) }()
	return c
}

// mustDrain drains a node, and waits for that.
func (n *node) mustDrain(req routing.DrainRequest) {
	n.w.t.Helper()
	if err := n.drain(req).wait(n.w.t, limit); err != nil {
		n.w.t.Fatal(err)
	}
}

func isLate(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

func (n *node) undrain(node string) *call {
	c := &call{done: make(chan struct{})}
	d, ctx := n.drainer, n.w.t.Context()
	req := routing.DrainRequest{Node: node, By: "uid 0 (test)"}
	go func() { defer close(c.done); c.err = d.Undrain(ctx, req, c.report) }()
	return c
}
