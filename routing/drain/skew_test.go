package drain_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestSkewedClocks: a drain and an undrain of a node whose clock is another, by any
// time: nothing is judged by what is written in the lease but that it changes.
func TestSkewedClocks(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, -2 * time.Minute, 2 * time.Minute, time.Hour} {
		bubble(t, 2, true, func(t *testing.T, w *world) {
			a, b := w.nodes[0], w.nodes[1]
			a.setClock(skew)
			grace, wait := 3*time.Minute, 6*time.Minute // in which there is nothing new to say
			begin := time.Now()
			c := a.drain(routing.DrainRequest{Node: "k8s-2", Grace: &grace, Wait: &wait})
			if err := c.wait(t, limit); err != nil || c.last().Progress.Phase != routing.DrainDone {
				t.Errorf("asked by a clock that is %v off: %v, %+v", skew, err, c.last())
			}
			if took := time.Since(begin); took > 4*time.Minute {
				t.Errorf("it took %v", took)
			}
			if err := a.undrain("k8s-2").wait(t, time.Minute); err != nil {
				t.Error(err)
			}
			b.free()
		})
	}
}

// TestAskedWhileAway: whoever asks says it again until there is an answer, so that a
// daemon that starts meanwhile takes it up, and one that nobody waits for any more it
// does not.
func TestAskedWhileAway(t *testing.T) {
	bubble(t, 3, true, func(t *testing.T, w *world) {
		a, b := w.nodes[0], w.nodes[1]
		a.setClock(time.Hour)
		b.end()
		c := a.drain(routing.DrainRequest{Node: "k8s-2"})
		time.Sleep(5 * time.Second)
		b.boot()
		b.start()
		if err := c.wait(t, time.Minute); err != nil {
			t.Errorf("asked before it was there: %v", err)
		}
		if err := b.undrain("").wait(t, time.Minute); err != nil {
			t.Error(err)
		}
		// The lease could not be read when this was written; who wrote it is gone.
		b.engine.alter(func(s *routing.State) { s.Inventory.Drain.Unusable = "connection refused" })
		w.lease.force(func(l *routing.DrainLease) {
			l.Request = &routing.DrainRequest{ID: "gone", Node: "k8s-2", Force: true, At: time.Now(), By: "uid 0 on k8s-9"}
		})
		time.Sleep(time.Second)
		b.engine.alter(nil)
		time.Sleep(time.Minute)
		b.free()
		// It stands in nobody's way, and nobody is taken for who forced it.
		begin := time.Now()
		c = a.drain(routing.DrainRequest{Node: "k8s-2"})
		if err := c.wait(t, time.Minute); err != nil || c.last().Request.Force {
			t.Errorf("%v, %+v", err, c.last().Request)
		}
		if took := time.Since(begin); took < 10*time.Second {
			t.Errorf("a request was overwritten after %v", took)
		}
	})
}

// TestAnswerLost: a process that ends before it could write how a drain came out leaves
// that to the next one.
func TestAnswerLost(t *testing.T) {
	bubble(t, 2, true, func(t *testing.T, w *world) {
		a, b := w.nodes[0], w.nodes[1]
		for _, undrain := range []bool{false, true} {
			var c *call
			if undrain {
				b.engine.alter(func(s *routing.State) { s.Pending = []routing.Op{{Verb: routing.Add}} })
				c = a.undrain("k8s-2")
				time.Sleep(10 * time.Second)
				b.engine.alter(nil)
			} else {
				c = a.drain(routing.DrainRequest{Node: "k8s-2"})
			}
			ended := func() bool {
				phase, _, there := b.onDisk()
				return !undrain && phase == routing.DrainDone || undrain && !there
			}
			w.lease.failing(func(_ int, write bool) (before, after error) {
				if write && ended() {
					return errAway, nil
				}
				return nil, nil
			})
			for !ended() {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Second) // nobody is owed an answer any more
			b.end()
			w.lease.failing(nil)
			b.boot()
			b.start()
			if err := c.wait(t, 30*time.Second); err != nil {
				t.Errorf("undrain %v: it ended with %v, after %+v", undrain, err, c.last().Progress)
			}
		}
		b.free()
	})
}

// TestAskedMeanwhile: a request that is alive is not overwritten, whatever it is dated,
// and one that is answered is joined by those who ask for no more than it does.
func TestAskedMeanwhile(t *testing.T) {
	bubble(t, 4, true, func(t *testing.T, w *world) {
		a, b, d := w.nodes[0], w.nodes[1], w.nodes[3]
		a.setClock(-time.Hour)
		b.setClock(time.Hour)
		w.nodes[2].end() // so that it does not answer
		silent := a.drain(routing.DrainRequest{Node: "k8s-3"})
		time.Sleep(5 * time.Second)
		var refused *routing.Refused
		if err := d.drain(routing.DrainRequest{Node: "k8s-2"}).wait(t, 5*time.Second); !errors.As(err, &refused) || !strings.Contains(err.Error(), "k8s-3") {
			t.Errorf("beside a request that is alive: %v", err)
		}
		if err := silent.wait(t, time.Minute); err == nil || !strings.Contains(err.Error(), "has been taken back") {
			t.Errorf("it ended with %v", err)
		}
		part := a.drain(routing.DrainRequest{Node: "k8s-2", Classes: []string{"world-pod"}})
		time.Sleep(5 * time.Second)
		if err := d.drain(routing.DrainRequest{Node: "k8s-2"}).wait(t, 5*time.Second); err == nil || !strings.Contains(err.Error(), "a drain of less of it is under way already (classes world-pod)") {
			t.Errorf("a drain of more than is under way: %v", err)
		}
		joined := d.drain(routing.DrainRequest{Node: "k8s-2", Classes: []string{"world-pod"}})
		if err := errors.Join(part.wait(t, limit), joined.wait(t, time.Second)); err != nil {
			t.Error(err)
		}
	})
}
