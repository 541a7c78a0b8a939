package drain_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"netclass.dev/routing"
)

var only = flag.Int("seed", -1, "play only this history")

var histories = flag.Int("histories", 40, "random histories of each lock")

// TestRandom plays random histories: drains, undrains, processes that are killed
// between disk and order, reboots, links that are busy and an API that fails. Never
// are two nodes taken out at a time; and once everything works and every node has
// been undrained, nothing is left of any drain.
func TestRandom(t *testing.T) {
	for seed := range *histories {
		if *only >= 0 {
			seed = *only
		}
		for _, kube := range []bool{false, true} {
			bubble(t, 4, kube, func(t *testing.T, w *world) {
				defer func() {
					if t.Failed() {
						t.Logf("seed %d, kube %v", seed, kube)
					}
				}()
				(&history{t: t, w: w, rand: rand.New(rand.NewPCG(uint64(seed), 7)), dead: map[*node]bool{}}).play(60)
			})
			if t.Failed() {
				t.Fatalf("seed %d, kube %v", seed, kube)
			}
		}
	}
}

type history struct {
	t    *testing.T
	w    *world
	rand *rand.Rand
	dead map[*node]bool
}

// pass lets time pass, and looks all the time at what must never be.
func (h *history) pass(d time.Duration) {
	h.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var out []string
		for _, n := range h.w.nodes {
			if o := n.engine.now(); o.Step > routing.DrainClaim {
				out = append(out, n.name)
			}
		}
		if len(out) > 1 {
			for _, n := range h.w.nodes {
				h.t.Logf("log of %s:\n%s", n.name, n.log)
			}
			h.t.Fatalf("taken out at one time: %v", out)
		}
	}
}

func (h *history) play(events int) {
	for range events {
		h.event(h.w.nodes[h.rand.IntN(len(h.w.nodes))])
		h.pass(time.Duration(h.rand.Int64N(int64(12 * time.Second))))
	}
	if l := h.w.lease; l != nil {
		l.failing(nil)
	}
	for _, n := range h.w.nodes {
		n.traffic("pod0", 0)
		n.engine.hook(nil)
		h.revive(n, false)
	}
	h.pass(3 * time.Minute)
	for _, n := range h.w.nodes {
		if err := n.undrain("").wait(h.t, time.Minute); err != nil {
			h.t.Errorf("undrain of %s: %v", n.name, err)
		}
	}
	h.pass(30 * time.Second)
	for _, n := range h.w.nodes {
		if n.free(); h.t.Failed() {
			h.t.Logf("log of %s:\n%s", n.name, n.log)
		}
	}
	for _, l := range []*lease{h.w.lease, h.w.other} {
		if l != nil && l.seen().Holder != "" {
			h.t.Errorf("lease %s is left with %q", l, l.seen().Holder)
		}
	}
}

// rename has the configuration name the other lease: at once where nobody is drained,
// else of the node that is, and then of the others once that holds both.
func (h *history) rename() {
	var out []*node
	for _, n := range h.w.nodes {
		if n.engine.now().Step > routing.DrainNone || n.holds(h.w.lease) || n.holds(h.w.other) {
			out = append(out, n)
		}
	}
	if len(out) > 1 || len(out) == 1 && h.dead[out[0]] {
		return
	}
	to := !h.w.nodes[0].elsewhere()
	for _, n := range out {
		n.move(to)
		if h.pass(3 * time.Second); !n.holds(h.w.lease) || !n.holds(h.w.other) {
			n.move(!to)
			return
		}
	}
	for _, n := range h.w.nodes {
		n.move(to)
	}
}

// unnamed is the lease that the configuration does not name.
func (h *history) unnamed() *lease {
	if h.w.nodes[0].elsewhere() {
		return h.w.lease
	}
	return h.w.other
}

// revive starts a process that has been killed, or one that runs anew, on a kernel
// that is as it was or has just been booted.
func (h *history) revive(n *node, booted bool) {
	n.end()
	n.engine.hook(nil)
	if booted {
		n.boot()
	}
	n.start()
	h.dead[n] = false
}

func (h *history) event(n *node) {
	wait := 40 * time.Second
	switch what := h.rand.IntN(14); {
	case what >= 12:
		if h.w.lease != nil {
			h.rename()
		}
	case h.dead[n] && what < 6, what == 0:
		h.revive(n, h.rand.IntN(2) == 0)
	case what == 1:
		// At one of the next orders, or after it.
		h.dead[n] = true
		n.killAt(1+h.rand.IntN(5), h.rand.IntN(2) == 0)
	case what == 2:
		n.traffic("pod0", uint64(h.rand.IntN(2)*1000))
	case what == 3 && h.w.lease != nil:
		often := h.rand.IntN(4)
		h.w.lease.failing(func(call int, _ bool) (before, after error) {
			switch {
			case often == 0 || call%(often+1) != 0:
				return nil, nil
			case call%2 == 0:
				return nil, errAway
			}
			return errAway, nil
		})
	case what == 4 && h.w.lease != nil:
		n.drain(routing.DrainRequest{Node: h.w.nodes[h.rand.IntN(len(h.w.nodes))].name, Wait: &wait})
	case what == 5 && h.w.lease != nil:
		n.undrain(h.w.nodes[h.rand.IntN(len(h.w.nodes))].name)
	case what == 6 && h.w.lease != nil && h.dead[n] && h.rand.IntN(3) == 0 && !n.holds(h.unnamed()):
		// Its disk is lost with it, which alone knows of a lease that is not configured.
		n.end()
		_ = os.Remove(filepath.Join(n.dir, "drain.json"))
		h.revive(n, true)
	case what < 9:
		n.drain(routing.DrainRequest{Wait: &wait})
	default:
		n.undrain("")
	}
}
