package e2e

import (
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// TestAdopt replaces BIRD, which fills table 47 on k8s-1, by netclassd, under
// pings at 1 kHz and TCP, with BIRD ended before or after.
func TestAdopt(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(*lab.BIRD) error // netclassd starts
		after  func(*lab.BIRD) error
	}{
		"BIRD killed before":       {before: func(b *lab.BIRD) error { return b.Kill() }},
		"BIRD's graceful restart":  {before: gracefulRestart},
		"BIRD stopped 2 s after":   {after: func(b *lab.BIRD) error { time.Sleep(2 * time.Second); return b.Stop() }},
		"BIRD stopped 12 s after":  {after: func(b *lab.BIRD) error { time.Sleep(12 * time.Second); return b.Stop() }},
		"BIRD killed 300 ms after": {after: func(b *lab.BIRD) error { time.Sleep(300 * time.Millisecond); return b.Kill() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, bird := startMixed(t, 1)
			one := c.Node(1)
			// Talos declares one of our rules too.
			const declared = "from 10.244.0.0/16 lookup 47 proto static"
			c.ip(one, "-4 rule add from 10.244.0.0/16 lookup 47 priority 1001 proto static")
			d, err := one.PrepareNetclassd(lab.NetclassdOptions{})
			c.must(err)

			tr := c.traffic([2]int{1, 2}, [2]int{2, 1}, [2]int{1, 3})
			var world []*lab.Pinger
			for _, f := range routing.Families {
				p, err := one.Pod.StartPing(lab.WorldAddr.Of(f), lab.PingOptions{Rate: pingRate})
				c.must(err)
				world = append(world, p)
			}
			adopt := func(args ...string) string {
				out, err := one.Exec(t.Context(), lab.Built("netclassd"), append([]string{
					"adopt", "--protocol", "bird", "--table", "47", "--node", one.Name,
					"--config", d.ConfigFile, "--socket", d.Socket, "--state-dir", d.StateDir,
				}, args...)...)
				c.must(err)
				return out
			}
			shown := adopt("--dry-run")
			for _, want := range []string{
				"10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 32", "removed once 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10 is in",
				"removed once default via 10.47.0.254 dev ingress0 table 47 metric 10 is in",
			} {
				if !strings.Contains(shown, want) {
					t.Errorf("the dry run does not say %q:\n%s", want, shown)
				}
			}
			if again := adopt(); !strings.HasPrefix(again, shown[:strings.LastIndex(strings.TrimSpace(shown), "\n")]) {
				t.Errorf("shown:\n%s\ndone:\n%s", shown, again)
			}
			if tt.before != nil {
				c.must(tt.before(bird))
				// What BIRD itself would have removed: at our own metric, and not
				// in the plan.
				c.ip(one, "-4 route add 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 proto bird metric 10")
				c.ip(one, "-6 route add fd00:10:244:2::/64 via fd00:48::2 dev pod0 table 47 proto bird metric 10")
				c.ip(one, "-4 route add 198.51.100.0/24 via 10.47.0.254 dev ingress0 table 47 proto bird metric 32")
			}
			c.must(d.Start())
			c.daemons = append(c.daemons, d)
			e := readExpectation(t)
			if tt.before == nil {
				c.must(tt.after(bird))
			}
			took := c.within(convergence, "the expected state", func() error { return e.matches(t.Context(), one) })
			t.Logf("as expected after %v", took.Round(time.Millisecond))
			c.sessionsUp(convergence)
			for _, family := range []string{"-4", "-6"} {
				if left := c.ip(one, family+" route show table 47 proto bird"); left != "" {
					t.Errorf("left of BIRD:\n%s", left)
				}
			}
			if rules := c.ip(one, "-N -4 rule show"); !strings.Contains(rules, "from 10.244.0.0/16 lookup 47 proto 4\n") {
				t.Errorf("the rule %q is gone:\n%s", declared, rules)
			}
			time.Sleep(500 * time.Millisecond)
			for _, p := range world {
				if r := p.Stop(); r.Lost > 0 {
					t.Error(r)
				} else {
					t.Log(r)
				}
			}
			tr.stop(0, lab.PodNet, lab.NodeNet)

			// It is done: whoever else uses BIRD's number now is left alone.
			c.ip(one, "-4 route add 198.51.100.0/24 via 10.47.0.254 dev ingress0 table 47 proto bird metric 32")
			c.must(d.Reload())
			time.Sleep(repair)
			if left := c.ip(one, "-4 route show table 47 proto bird"); left == "" {
				t.Error("a route of BIRD's that came later is gone")
			}
		})
	}
}

// gracefulRestart has BIRD end so that its routes stay.
func gracefulRestart(b *lab.BIRD) error {
	if err := b.Order("graceful", "restart"); err != nil {
		return err
	}
	<-b.Done()
	return nil
}
