package drain_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestFarErrors: what a drain of a node ends with is the same error, after the same
// reports, wherever it has been asked for.
func TestFarErrors(t *testing.T) {
	wait, short := 30*time.Second, 5*time.Second
	for _, tc := range []struct {
		name string
		do   func(w *world)
		req  routing.DrainRequest
		want any
	}{
		{"no such class", nil, routing.DrainRequest{Classes: []string{"nope", "world-pod"}}, new(*routing.BadQuestion)},
		{"a class of nothing", nil, routing.DrainRequest{Classes: []string{"node-node"}}, new(*routing.BadQuestion)},
		{"too short", nil, routing.DrainRequest{Wait: &short}, new(*routing.BadQuestion)},
		{"another is drained", func(w *world) { w.nodes[2].mustDrain(routing.DrainRequest{}) }, routing.DrainRequest{}, new(*routing.Refused)},
		{"two reasons", func(w *world) {
			w.nodes[1].engine.alter(func(s *routing.State) {
				s.Inventory.Node("k8s-1").NotReady, s.Inventory.Node("k8s-3").NotReady = true, true
			})
		}, routing.DrainRequest{}, new(*routing.Refused)},
		{"less is drained", func(w *world) { w.nodes[1].mustDrain(routing.DrainRequest{Classes: []string{"pod-pod"}}) }, routing.DrainRequest{}, nil},
		{"too long", func(w *world) { w.nodes[1].traffic("pod0", 1000) }, routing.DrainRequest{Wait: &wait}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, 3, true, func(t *testing.T, w *world) {
				if tc.do != nil {
					tc.do(w)
				}
				near := w.nodes[1].drain(tc.req)
				wanted := near.wait(t, limit)
				time.Sleep(2 * time.Minute) // what it said in the lease is past
				tc.req.Node = "k8s-2"
				far := w.nodes[0].drain(tc.req)
				got := far.wait(t, limit)
				if wanted == nil || got == nil || got.Error() != wanted.Error() || tc.want != nil && (!errors.As(got, tc.want) || !errors.As(wanted, tc.want)) {
					t.Fatalf("asked of another node it ends with %v, there with %v", got, wanted)
				}
				if isLate(got) != isLate(wanted) || (len(far.reports) == 0) != (len(near.reports) == 0) {
					t.Errorf("late %v after %d reports, want %v after %d", isLate(got), len(far.reports), isLate(wanted), len(near.reports))
				}
				if refused := new(*routing.Refused); errors.As(wanted, refused) && !reflect.DeepEqual(got, wanted) {
					t.Errorf("refused by %q, want %q", got, wanted)
				}
			})
		})
	}
}

// TestLateAcrossRestart: that a drain took too long is known also when it is rolled
// back by the next process.
func TestLateAcrossRestart(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		a, b := w.nodes[0], w.nodes[1]
		b.traffic("pod0", 1000)
		wait := 30 * time.Second
		orders := 0
		b.engine.hook(func(routing.Draining) {
			if orders++; orders == len(up)+2 {
				kill()
			}
		})
		c := a.drain(routing.DrainRequest{Node: "k8s-2", Wait: &wait})
		time.Sleep(40 * time.Second)
		b.engine.hook(nil)
		b.reboot()
		if err := c.wait(t, time.Minute); !isLate(err) || !strings.Contains(err.Error(), "pod0") {
			t.Errorf("it ended with %v", err)
		}
		b.free()
	})
}
