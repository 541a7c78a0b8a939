package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/test/need"
)

// TestServices lets a router hear of the addresses of a real API server's Services:
// from every node, or only from those with a ready endpoint, and from none that is
// not Ready.
func TestServices(t *testing.T) {
	need.Program(t, "bird")
	c, a := startWithAPI(t)
	bird, err := c.Router.StartBGP()
	c.must(err)
	for _, d := range c.daemons {
		text, err := os.ReadFile(d.ConfigFile)
		c.must(err)
		c.must(d.WriteConfig(strings.Replace(string(text), "advertise: {networks: [loadBalancers]}",
			"advertise: {services: {selector: {matchLabels: {pool: red}}}}", 1)))
		c.must(d.Restart())
	}
	c.converge()
	c.sessionsUp(convergence)
	// from wants the router to hear of an address from these nodes and no others.
	from := func(prefix string, want ...int) func() error {
		return func() error {
			out, err := bird.Ctl(t.Context(), "show", "route", prefix, "all")
			var got []int
			for _, n := range c.Nodes {
				if strings.Contains(out, fmt.Sprintf("via 10.47.0.%d ", n.Number)) || strings.Contains(out, fmt.Sprintf("via fd00:47::%d ", n.Number)) {
					got = append(got, n.Number)
				}
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("%s from %v, not %v: %w\n%s", prefix, got, want, err, out)
			}
			return nil
		}
	}
	red := map[string]string{"pool": "red"}
	a.Service("all", "type: LoadBalancer", red)
	a.Ingress("all", `{"ip":"10.47.64.10"},{"ip":"fd00:47:64::10"}`)
	a.Service("blue", "type: LoadBalancer", map[string]string{"pool": "blue"})
	a.Ingress("blue", `{"ip":"10.47.64.12"}`)
	c.status(c.daemons[0], "node k8s-1 is not Ready")
	c.must(from("10.47.64.10/32")())
	for _, n := range c.Nodes {
		a.ready(n, true)
	}
	t.Logf("announced by all %v after they are Ready", c.within(convergence, "Ready", from("10.47.64.10/32", 1, 2, 3)).Round(time.Millisecond))
	c.within(convergence, "IPv6", from("fd00:47:64::10/128", 1, 2, 3))

	a.Service("local", "type: LoadBalancer, externalTrafficPolicy: Local", red)
	a.Ingress("local", `{"ip":"10.47.64.11"}`)
	a.Slice("local-1", "local", "IPv4", "k8s-2", "true")
	t.Logf("announced by one %v after its endpoint is ready", c.within(convergence, "an endpoint", from("10.47.64.11/32", 2)).Round(time.Millisecond))
	c.said(c.daemons[0], []string{"peers", "udm"}, false, "left to nodes with a ready endpoint (externalTrafficPolicy: Local): 10.47.64.11 (default/local)")
	a.Slice("local-1", "local", "IPv4", "k8s-2", "false")
	t.Logf("withdrawn %v after its last endpoint left", c.within(repair, "the last endpoint gone", from("10.47.64.11/32")).Round(time.Millisecond))
	a.Slice("local-1", "local", "IPv4", "k8s-3", "true")
	c.within(convergence, "an endpoint elsewhere", from("10.47.64.11/32", 3))

	// One rule stops what is unused of all of them, and what the API server no
	// longer tells stays.
	out, err := c.Node(3).Exec(t.Context(), "ip", "rule", "show", "priority", "32761")
	c.must(err)
	if strings.Count(out, "\n") != 1 || !strings.Contains(out, "to 10.47.64.0/24 iif ingress0 unreachable") {
		t.Errorf("rules:\n%s", out)
	}
	a.Down()
	c.inventory(c.daemons[2], "stale for")
	time.Sleep(time.Second)
	c.must(from("10.47.64.10/32", 1, 2, 3)())
	c.must(from("10.47.64.11/32", 3)())
	a.Up()
	a.ready(c.Node(3), false)
	c.within(convergence, "a node that is not Ready", from("10.47.64.10/32", 1, 2))
	c.must(from("10.47.64.12/32")())
	c.routerSawNothing()
}
