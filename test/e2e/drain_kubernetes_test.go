package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"netclass.dev/test/lab"
)

// startDrainsWithAPI is a cluster whose lock is a Lease of a real API server, all of
// whose Nodes are protected and follow their cordon.
func startDrainsWithAPI(t *testing.T) (*cluster, *api) {
	t.Helper()
	c, a := startWithAPI(t)
	for _, n := range c.Nodes {
		a.Do("PATCH", "/api/v1/nodes/"+n.Name, "application/merge-patch+json", `{"metadata":{"labels":{"osd":"yes"}}}`)
		a.ready(n, true)
	}
	for _, d := range c.daemons {
		text, err := os.ReadFile(d.ConfigFile)
		c.must(err)
		c.must(d.WriteConfig(string(text) + "\ndrain: {protect: {selector: osd=yes}, grace: 1s, timeout: 60s, quiet: {packetsPerSecond: 10, for: 2s}, followCordon: true}\n"))
		c.must(d.Restart())
	}
	c.converge()
	c.sessionsUp(convergence)
	return c, a
}

// ready sets the Ready condition of a Node.
func (a *api) ready(n *lab.Node, yes bool) {
	status := map[bool]string{true: "True", false: "Unknown"}[yes]
	a.Do("PATCH", "/api/v1/nodes/"+n.Name+"/status", "application/strategic-merge-patch+json",
		fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test"}]}}`, status))
}

// cordon sets whether a Node is unschedulable.
func (a *api) cordon(n *lab.Node, yes bool) {
	a.Do("PATCH", "/api/v1/nodes/"+n.Name, "application/merge-patch+json", fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, yes))
}

// status waits until a daemon's status has some words.
func (c *cluster) status(d *lab.Netclassd, words ...string) {
	c.t.Helper()
	c.within(convergence, "status of "+d.Node.Name, func() error {
		out, err := d.Ctl(c.t.Context(), "status")
		if err != nil {
			return err
		}
		for _, w := range words {
			if !strings.Contains(out, w) {
				return fmt.Errorf("it lacks %q:\n%s", w, out)
			}
		}
		return nil
	})
}

// TestDrainKubernetes drains over a real API server: a node that is not the one that
// is asked, one at a time, past an API that goes away, and by cordon.
func TestDrainKubernetes(t *testing.T) {
	t.Parallel()
	c, a := startDrainsWithAPI(t)
	one, two, three := c.daemons[0], c.daemons[1], c.daemons[2]
	tr := c.traffic([2]int{1, 2}, [2]int{2, 3}, [2]int{3, 1})

	begin := time.Now()
	watched := lab.WatchDrain(t.Context(), two, three)
	c.said(one, []string{"drain", "k8s-3", "--reason", "fan"}, false, "DRAINED k8s-3", "packets per second")
	t.Logf("k8s-3 drained from k8s-1 after %v", time.Since(begin).Round(time.Millisecond))
	c.must(watched())
	c.must(c.paths(3, false))
	c.said(one, []string{"nodes"}, false, "Drained")
	c.said(two, []string{"drain"}, true, "not safe to drain k8s-2", "k8s-3", "fan")
	c.said(one, []string{"drain", "k8s-2"}, true, "not safe to drain k8s-2", "k8s-3")

	// Without the API it comes back too, and frees the lock later.
	c.must(three.Kill())
	c.must(three.Start())
	c.status(three, "Drained for", "lease kube-system/netclass-drain")
	a.Down()
	c.said(three, []string{"undrain"}, false, "UNDRAINED k8s-3")
	c.must(c.paths(3, true))
	c.must(three.Restart())
	a.Up()
	c.inventory(one, "3 nodes, Kubernetes API")
	c.within(convergence, "a drain after the lock is free", func() error {
		out, err := two.Ctl(t.Context(), "drain")
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	c.said(three, []string{"undrain", "k8s-2"}, false, "UNDRAINED k8s-2")

	// A node that is not Ready keeps the others from it.
	a.ready(c.Node(2), false)
	c.within(convergence, "refusal", func() error {
		out, err := one.Ctl(t.Context(), "drain", "--dry-run")
		if err == nil || !strings.Contains(out+err.Error(), "k8s-2 is protected") {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	a.ready(c.Node(2), true)

	// Two are cordoned: one goes, the other says why it waits.
	a.cordon(c.Node(1), true)
	c.status(one, "Drained for", "cordoned")
	a.cordon(c.Node(2), true)
	c.status(two, "Waiting", "k8s-1 is drained")
	a.cordon(c.Node(1), false)
	c.status(two, "Drained for")
	c.must(c.paths(2, false))
	a.cordon(c.Node(2), false)
	c.within(convergence, "undrained", func() error { return c.paths(2, true) })
	tr.stop(0, "pod0", "node0")
}
