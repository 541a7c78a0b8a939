package e2e

import (
	"fmt"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// fallbackTime is how soon a peer that is gone without a word is reached by the
// fallback: a promise.
const fallbackTime = 4 * time.Second

// TestPeerSilent takes a peer's class link away in every way that shows nowhere
// else, and wants the others on the fallback in time, never on the router, and
// back when it is back.
func TestPeerSilent(t *testing.T) {
	for _, tt := range []struct {
		name         string
		gone, back   func(c *cluster, three *lab.Node) error
		unreachable  bool // by any link
		blind        bool // nobody on the peer sees it either: its answers go nowhere
		sessionsStay bool // it is back before they can have ended
	}{
		{
			name: "pod0 cut at the switch",
			gone: func(_ *cluster, three *lab.Node) error { return three.Cut(lab.PodNet) },
			back: func(_ *cluster, three *lab.Node) error { return three.Mend(lab.PodNet) },
		},
		{
			name:         "pod0 cut at the switch for 5 s",
			gone:         func(_ *cluster, three *lab.Node) error { return three.Cut(lab.PodNet) },
			back:         func(_ *cluster, three *lab.Node) error { return three.Mend(lab.PodNet) },
			sessionsStay: true,
		},
		{
			name: "pod0 down on the peer",
			gone: func(_ *cluster, three *lab.Node) error { return three.LinkDown(lab.PodNet) },
			back: func(_ *cluster, three *lab.Node) error { return three.LinkUp(lab.PodNet) },
		},
		{
			name: "pod0 cut after a clean exit",
			gone: func(c *cluster, three *lab.Node) error {
				if err := c.daemons[2].Stop(); err != nil {
					return err
				}
				time.Sleep(1300 * time.Millisecond) // into the hold
				return three.Cut(lab.PodNet)
			},
			blind: true,
			back: func(c *cluster, three *lab.Node) error {
				if err := three.Mend(lab.PodNet); err != nil {
					return err
				}
				return c.daemons[2].Start()
			},
		},
		{
			name: "powered off after a clean exit",
			gone: func(c *cluster, three *lab.Node) error {
				if err := c.daemons[2].Stop(); err != nil {
					return err
				}
				time.Sleep(2700 * time.Millisecond)
				return three.PowerOff()
			},
			unreachable: true,
		},
		{
			name:        "powered off",
			gone:        func(_ *cluster, three *lab.Node) error { return three.PowerOff() },
			unreachable: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := start(t, lab.NetclassdOptions{})
			one, two, three := c.Node(1), c.Node(2), c.Node(3)
			c.sessionsUp(convergence)
			others := c.traffic([2]int{1, 2}, [2]int{2, 1})
			var to *traffic
			if !tt.unreachable {
				to = c.traffic([2]int{1, 3}, [2]int{3, 2})
			}

			c.must(tt.gone(c, three))
			begin := time.Now()
			for _, n := range []*lab.Node{one, two} {
				c.within(time.Until(begin.Add(fallbackTime)), n.Name+" on the fallback", func() error {
					return n.PodPaths(lab.NodeNet, three)
				})
				t.Logf("%s: %s uses the fallback %.2f s after it", tt.name, n.Name, time.Since(begin).Seconds())
			}
			if !tt.unreachable && !tt.blind {
				c.within(time.Until(begin.Add(fallbackTime)), "answers", func() error { return answers(one, three) })
				t.Logf("%s: pods answer each other again %.2f s after it", tt.name, time.Since(begin).Seconds())
			}
			c.must(one.PodPaths(lab.PodNet, two))

			if tt.back != nil {
				if tt.sessionsStay {
					time.Sleep(time.Until(begin.Add(5 * time.Second)))
				} else {
					time.Sleep(time.Until(begin.Add(10 * time.Second))) // the hold timer is out
					c.must(one.PodPaths(lab.NodeNet, three))
				}
				c.must(tt.back(c, three))
				took := c.within(convergence, "the way back", func() error { return c.Separated(c.Nodes...) })
				t.Logf("%s: classes apart again %.2f s after it is back", tt.name, took.Seconds())
				time.Sleep(500 * time.Millisecond)
			}
			if to != nil {
				to.stop(anyNumber, lab.PodNet, lab.NodeNet)
			}
			others.stop(0, lab.PodNet, lab.NodeNet)
		})
	}
}

// answers returns nil when the pods of two nodes reach each other in both
// families.
func answers(a, b *lab.Node) error {
	for _, f := range routing.Families {
		r, err := a.Pod.Ping(b.PodAddr(f), 1)
		if err != nil {
			return err
		}
		if r.Lost > 0 {
			return fmt.Errorf("no answer from %s", b.PodAddr(f))
		}
	}
	return nil
}
