// Package health asks whether the datapath of this node's services is there: a
// URL of kube-proxy's, Cilium's or of whoever brings a Service's packets to its
// endpoints. A router is told of addresses only while it answers well.
package health

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"netclass.dev/routing/alarm"
)

// Timing of the questions.
const (
	interval = time.Second
	timeout  = time.Second
	// patience is how many failures in a row make an end of what was well: one
	// alone may be a server that is busy.
	patience = 2
)

// Health asks URLs, every second, as long as there are any.
type Health struct {
	notify func()
	ask    func(ctx context.Context, url string) error
	every  func(ring func()) (stop func())
	shown  atomic.Pointer[map[string]string]

	mu   sync.Mutex // of what follows
	urls []string
	stop context.CancelFunc // nil: nothing is asked
	done chan struct{}      // closed when that has ended
}

// New returns a Health that asks nothing yet. It calls notify, on a goroutine of
// its own, whenever Unready says something else.
func New(notify func()) *Health {
	return &Health{notify: notify, ask: newClient().ask, every: everySecond}
}

// Unready says of each URL that has been asked why it does not answer well; empty:
// it does. Nobody must change the map.
func (h *Health) Unready() map[string]string {
	if m := h.shown.Load(); m != nil {
		return *m
	}
	return nil
}

// Watch asks these URLs from now on, and no others. What is known of those that
// were asked before stays. Without any nothing runs.
func (h *Health) Watch(urls []string) {
	urls = slices.Compact(slices.Sorted(slices.Values(urls)))
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Equal(urls, h.urls) {
		return
	}
	if h.stop != nil {
		h.stop()
		<-h.done
	}
	h.urls, h.stop, h.done = urls, nil, nil
	answers := maps.Clone(h.Unready())
	maps.DeleteFunc(answers, func(url, _ string) bool { return !slices.Contains(urls, url) })
	h.shown.Store(&answers)
	if len(urls) == 0 {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	h.stop, h.done = stop, make(chan struct{})
	go h.run(ctx, urls, h.done)
}

// Close ends all questions.
func (h *Health) Close() { h.Watch(nil) }

// run asks at once, and then every second. An answer that is late leaves out the
// questions that it was late for.
func (h *Health) run(ctx context.Context, urls []string, done chan struct{}) {
	defer close(done)
	rings := make(chan struct{}, 1)
	stop := h.every(func() {
		select {
		case rings <- struct{}{}:
		default:
		}
	})
	defer stop()
	failures := make([]int, len(urls))
	for {
		h.round(ctx, urls, failures)
		select {
		case <-ctx.Done():
			return
		case <-rings:
		}
	}
}

// round asks every URL once, and shows what has changed.
func (h *Health) round(ctx context.Context, urls []string, failures []int) {
	reasons := make([]string, len(urls))
	var others sync.WaitGroup
	for i := 1; i < len(urls); i++ {
		others.Go(func() { reasons[i] = because(h.ask(ctx, urls[i])) })
	}
	reasons[0] = because(h.ask(ctx, urls[0])) // mostly the only one
	others.Wait()
	if ctx.Err() != nil {
		return // that is why
	}
	answers := maps.Clone(h.Unready())
	if answers == nil {
		answers = make(map[string]string)
	}
	changed := false
	for i, url := range urls {
		last, asked := answers[url]
		if reasons[i] == "" {
			failures[i] = 0
		} else {
			failures[i]++
		}
		if asked && last == "" && reasons[i] != "" && failures[i] < patience || asked && last == reasons[i] {
			continue
		}
		answers[url], changed = reasons[i], true
	}
	if changed {
		h.shown.Store(&answers)
		h.notify()
	}
}

// everySecond rings an alarm until it is stopped. Where there is none a ticker
// does, which only costs an idle process more.
func everySecond(ring func()) (stop func()) {
	clock, err := alarm.New(ring)
	if err == nil {
		if err = clock.Every(interval); err == nil {
			return func() { clock.Close() }
		}
		clock.Close()
	}
	ticker, end := time.NewTicker(interval), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				ring()
			case <-end:
				return
			}
		}
	}()
	return func() { ticker.Stop(); close(end) }
}
