package world

import (
	"errors"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/netclass-drain"

// byNodes is the configuration whose class paths come from the nodes' own words.
func byNodes(t *testing.T) string {
	return strings.Replace(drainable(t), "learn: bgp", "learn: nodes", 1)
}

// TestDrainedIsNotForgotten has the link of a drained node unplugged, and others do
// what makes them forget that it is drained: where the class paths come from the
// nodes, a packet that takes one is lost.
func TestDrainedIsNotForgotten(t *testing.T) {
	t.Parallel()
	config, api, nodes := withAPI(t, byNodes(t))
	c := startWith(t, config, "bird", nodes)
	one, two, three := c.daemons[0], c.daemons[1], c.daemons[2]
	c.safe(three)
	c.ctl(one, "drain", "k8s-3", "--grace", "0s")
	c.must(c.Node(3).Cut(lab.PodNet))
	c.must(c.Node(3).Cut(lab.Ingress))

	var pingers []*lab.Pinger
	for _, f := range routing.Families {
		for n := 1; n <= 2; n++ {
			p, err := c.Node(n).Pod.StartPing(c.Node(3).PodAddr(f), lab.PingOptions{Rate: 200})
			c.must(err)
			pingers = append(pingers, p)
		}
	}
	check := func(what string) {
		t.Helper()
		time.Sleep(3 * time.Second)
		for _, p := range pingers {
			// Some may be on their way, many where the machine is busy: not for long.
			c.within(convergence, "nothing lost after "+what, func() error {
				if r := p.Report(); r.Lost > 5 {
					return errors.New(r.String())
				}
				return nil
			})
		}
		for _, d := range []*lab.Netclassd{one, two} {
			if out := c.ctl(d, "nodes"); !strings.Contains(line(out, "k8s-3"), "Drained") {
				t.Errorf("after %s: nodes on %s does not show that k8s-3 is drained:\n%s", what, d.Node.Name, out)
			}
		}
	}
	if out, err := one.Ctl(t.Context(), "drain", "k8s-2"); err == nil {
		t.Errorf("a second node is drained:\n%s", out)
	} else if text := out + err.Error(); strings.Count(text, "k8s-3 is drained since") != 1 {
		t.Errorf("the refusal does not say once why: %s", text)
	}
	check("the answer to a drain that is refused took the place of the status")
	api.Do("PATCH", leasePath, "application/merge-patch+json",
		`{"metadata":{"annotations":{"netclass.dev/drain-status":"{garbage","netclass.dev/drain-request":"]["}}}`)
	check("garbage in the lease")
	api.Down()
	c.must(one.Restart())
	check("a restart without the API")
	api.Up()
	check("the API is back")
	c.must(c.Node(3).Mend(lab.PodNet))
	c.must(c.Node(3).Mend(lab.Ingress))
	// At once: a path waits until it leads somewhere again.
	c.ctl(three, "undrain")
	time.Sleep(3 * time.Second)
	for _, p := range pingers {
		if r := p.Stop(); r.Lost > 0 {
			t.Errorf("%v", r)
		}
	}
	c.routerSawNothing()
}
