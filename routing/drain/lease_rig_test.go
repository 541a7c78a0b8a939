package drain_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"netclass.dev/routing"
)

// lease is the lock of all nodes.
type lease struct {
	w    *world
	name string

	mu    sync.Mutex
	is    routing.DrainLease
	calls int
	fail  func(call int, write bool) (before, after error)
}

// view is a lease as a node writes it, whose clock may be another.
type view struct {
	*lease
	skew time.Duration
}

func (l *lease) String() string { return l.name }

func (v *view) WriteDrain(ctx context.Context, next *routing.DrainLease) (*routing.DrainLease, error) {
	dated, is := *next, v.seen()
	if r := next.Request; r != nil && r != is.Request {
		copied := *r
		copied.At = copied.At.Add(v.skew)
		dated.Request = &copied
	}
	if st := next.Status; st != nil && st != is.Status {
		copied := *st
		copied.Since, copied.Progress.At = copied.Since.Add(v.skew), copied.Progress.At.Add(v.skew)
		dated.Status = &copied
	}
	return v.lease.WriteDrain(ctx, &dated)
}

var errAway = errors.New("connection refused")

func (l *lease) seen() routing.DrainLease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.is
}

func (l *lease) begin(write bool) (before, after error) {
	l.calls++
	if l.fail == nil {
		return nil, nil
	}
	return l.fail(l.calls, write)
}

func (l *lease) ReadDrain(ctx context.Context) (*routing.DrainLease, error) {
	time.Sleep(time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, after := l.begin(false); before != nil || after != nil {
		return nil, errors.Join(before, after)
	}
	is := l.is
	return &is, ctx.Err()
}

func (l *lease) WriteDrain(ctx context.Context, next *routing.DrainLease) (*routing.DrainLease, error) {
	time.Sleep(time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	before, after := l.begin(true)
	if before != nil || ctx.Err() != nil {
		return nil, errors.Join(before, ctx.Err())
	}
	if next.Version != l.is.Version {
		return nil, routing.ErrDrainConflict
	}
	l.put(*next)
	if after != nil {
		return nil, after
	}
	is := l.is
	return &is, nil
}

// put changes the lease, and has every node see it soon.
func (l *lease) put(next routing.DrainLease) {
	l.is = next
	if next.Version != "" || next.Unusable == "" || next.Holder != "" {
		l.is.Version += "1"
		l.is.Unusable = ""
	}
	time.AfterFunc(10*time.Millisecond, func() {
		for _, n := range l.w.nodes {
			if live, _ := n.seen(); live != nil {
				live.look()
			}
		}
	})
}

// force writes the lease as somebody else does.
func (l *lease) force(change func(*routing.DrainLease)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.is
	change(&next)
	l.put(next)
}

func (l *lease) failing(f func(call int, write bool) (before, after error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail, l.calls = f, 0
}

// named returns a lease as this node reaches it; of no name that of its configuration.
func (n *node) named(name string) *view {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.w.other; name == l.name || name == "" && n.moved {
		return &view{l, n.skew}
	}
	return &view{n.w.lease, n.skew}
}

// elsewhere reports whether the configuration names the other lease.
func (n *node) elsewhere() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.moved
}

// holds reports whether a node holds a lease.
func (n *node) holds(l *lease) bool {
	return strings.HasPrefix(l.seen().Holder, "uid-"+n.name+"/")
}

// setClock has what a node writes dated by a clock that is so far off.
func (n *node) setClock(skew time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.skew = skew
}

// file has the configuration name a nodes file instead of the API, or the API again.
func (n *node) file(on bool) {
	n.mu.Lock()
	n.filed = on
	n.mu.Unlock()
	n.engine.look()
}

func (n *node) byFile() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.filed
}

// move has the configuration name the other lease, or the first again.
func (n *node) move(other bool) {
	n.mu.Lock()
	n.moved = other
	n.mu.Unlock()
	n.engine.look()
}
