package e2e

import (
	"fmt"
	"strings"
	"testing"

	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// TestUpstream lets the router hear of the load balancers' network from every
// node, and of nothing else, as netclassctl peers shows.
func TestUpstream(t *testing.T) {
	t.Parallel()
	need.Program(t, "bird")
	c := start(t, lab.NetclassdOptions{})
	bird, err := c.Router.StartBGP()
	c.must(err)
	for _, want := range []struct{ prefix, hop string }{
		{"10.47.64.0/24", "via 10.47.0.%d"}, {"fd00:47:64::/112", "via fd00:47::%d"},
	} {
		c.within(convergence, "the announcement of "+want.prefix, func() error {
			out, err := bird.Ctl(t.Context(), "show", "route", want.prefix, "all")
			for n := 1; err == nil && n <= len(c.Nodes); n++ {
				if hop := fmt.Sprintf(want.hop, n); !strings.Contains(out, hop) {
					err = fmt.Errorf("no route %s:\n%s", hop, out)
				}
			}
			return err
		})
		out, err := bird.Ctl(t.Context(), "show", "route")
		c.must(err)
		if strings.Contains(out, "10.244.") || strings.Contains(out, "fd00:10:244") {
			t.Errorf("the router hears of pods:\n%s", out)
		}
	}
	// What the router hears can be seen on the node too.
	for n, d := range c.daemons {
		c.within(repair, "what peers udm shows", func() error {
			out, err := d.Ctl(t.Context(), "peers", "udm")
			for _, want := range []string{fmt.Sprintf("10.47.64.0/24 via 10.47.0.%d", n+1), fmt.Sprintf("fd00:47:64::/112 via fd00:47::%d", n+1)} {
				if err == nil && !strings.Contains(out, want) {
					err = fmt.Errorf("node %d does not show %s:\n%s", n+1, want, out)
				}
			}
			return err
		})
	}
	c.routerSawNothing()
}
