package world

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/kubeapi"
	"netclass.dev/test/lab"
)

// drainable is the seed's configuration with a drain that is over soon.
func drainable(t *testing.T) string {
	return example(t, "config.yaml") + `
drain: {grace: 2s, timeout: 60s, quiet: {packetsPerSecond: 10, for: 2s}, protect: {selector: "example.org/storage=yes"}}
`
}

// inFlight is how many pings may be on their way at a time: 1,000 are sent a second,
// and what a busy machine has held up at once.
const inFlight = 25

// TestDrain takes a node out from another one, unplugs its links, and takes it
// back, under traffic of every kind.
func TestDrain(t *testing.T) {
	t.Parallel()
	config, _, nodes := withAPI(t, drainable(t))
	c := startWith(t, config, "bgpd", nodes)
	c.must(c.Router.Sysctl(map[string]string{"ipv4/fib_multipath_hash_policy": "1", "ipv6/fib_multipath_hash_policy": "1"}))
	c.masquerade()
	c.serve(c.Router.World, natPort)
	one, three := c.daemons[0], c.Node(3)
	c.safe(c.daemons[2])

	load := c.load(3)
	time.Sleep(time.Second)
	before, err := three.Counts()
	c.must(err)
	if out := c.ctl(one, "drain", "k8s-3", "--dry-run"); !strings.Contains(out, "draining k8s-3 costs:") || !strings.Contains(out, "can be drained now") {
		t.Errorf("a dry run from another node says:\n%s", out)
	}
	c.must(c.routerKnows(lab.LoadBalancers, 3))
	watched := lab.WatchDrain(t.Context(), c.daemons[1], c.daemons[2])
	out := c.ctl(one, "drain", "k8s-3", "--reason", "new disk")
	c.must(watched())
	t.Logf("drain:\n%s", out)
	if !strings.Contains(out, "DRAINED") {
		t.Errorf("drain does not say so:\n%s", out)
	}
	c.must(c.routerKnows(lab.LoadBalancers, 2))
	for _, d := range c.daemons {
		if out := c.ctl(d, "nodes"); !strings.Contains(line(out, "k8s-3"), "Drained") {
			t.Errorf("nodes on %s does not show that k8s-3 is drained:\n%s", d.Node.Name, out)
		}
	}
	for _, d := range c.daemons[:2] {
		for class, want := range map[string]string{"pod-pod": "Shared", "world-pod": "drained elsewhere: k8s-3"} {
			if out := c.ctl(d, "classes", "--no-headers"); !strings.Contains(line(out, class), want) {
				t.Errorf("classes on %s does not show that k8s-3 is drained:\n%s", d.Node.Name, out)
			}
		}
	}
	if out := c.ctl(c.daemons[2], "classes"); strings.Count(out, "Drained") != 2 {
		t.Errorf("classes on k8s-3 does not show two that are drained:\n%s", out)
	}
	if out := c.ctl(c.daemons[2], "status"); !strings.Contains(out, "new disk") {
		t.Errorf("status on k8s-3 does not say why:\n%s", out)
	}
	drained, err := three.Counts()
	c.must(err)
	if drained.Since(before).Out(lab.NodeNet, lab.ZonePod, lab.ZonePod) == 0 {
		t.Error("no packet from pod to pod has left k8s-3 by the node network")
	}

	for _, d := range c.daemons {
		for _, command := range []string{"status", "verify"} {
			c.ctl(d, command) // a drain is no fault
		}
	}

	// Another one is refused, and says why.
	if out, err := c.daemons[1].Ctl(t.Context(), "drain"); err == nil || !strings.Contains(fmt.Sprint(err), "k8s-3") {
		t.Errorf("a second node is drained, or its refusal does not name the first: %v\n%s", err, out)
	}

	// It survives a restart and a crash.
	c.must(c.daemons[2].Restart())
	c.must(c.daemons[2].Kill())
	c.must(c.daemons[2].Start())
	for _, link := range []string{lab.PodNet, lab.Ingress} {
		c.must(three.LinkDown(link))
	}
	time.Sleep(outage)
	for _, link := range []string{lab.PodNet, lab.Ingress} {
		c.must(three.LinkUp(link))
	}
	time.Sleep(time.Second)
	c.must(c.routerKnows(lab.LoadBalancers, 2))
	again, err := three.Counts()
	c.must(err)
	if got := again.Since(drained).Sum(func(f lab.Flow) bool { return f.Link == lab.PodNet || f.Link == lab.Ingress }); got > 0 {
		t.Errorf("%d packets on the links of a drained node", got)
	}

	t.Logf("undrain:\n%s", c.ctl(one, "undrain", "k8s-3"))
	c.within(convergence, "the router's routes", func() error { return c.routerKnows(lab.LoadBalancers, 3) })
	ctx, cancel := context.WithTimeout(t.Context(), convergence)
	defer cancel()
	_, err = c.WaitSeparated(ctx)
	c.must(err)
	time.Sleep(time.Second)
	results := load.stop()
	if r := results["pod to pod"]; r.lost > 0 || r.reset > 0 {
		t.Errorf("pod to pod: %v, want none lost and none reset", r)
	}
	if r := results["world to VIP"]; r.lost > 0 {
		t.Errorf("world to VIP: %v, want none lost", r)
	}
	// What is on its way while masquerading moves to another link, there and back,
	// in each family.
	if r := results["pod to world"]; r.lost > 4*inFlight {
		t.Errorf("pod to world: %v, want at most %d lost each time that it moves", r, inFlight)
	}
	c.routerSawNothing()
}

// safe waits until a node can be drained, and will not cease to be: all announce to the
// router, its sessions are up, and it has heard that the others announce too.
func (c *cluster) safe(d *lab.Netclassd) {
	c.t.Helper()
	c.within(convergence, "the router's routes", func() error { return c.routerKnows(lab.LoadBalancers, len(c.Nodes)) })
	c.within(convergence, "a drain of "+d.Node.Name+" that is safe", func() error {
		out, err := d.Ctl(c.t.Context(), "peers", "--no-headers")
		if err == nil && strings.Count(out, "Established") != strings.Count(out, "\n") {
			err = errors.New(out)
		}
		if err == nil {
			_, err = d.Ctl(c.t.Context(), "drain", "--dry-run")
		}
		return err
	})
}

// TestCordon lets nodes drain themselves when they are cordoned, two at once.
func TestCordon(t *testing.T) {
	t.Parallel()
	config := strings.Replace(drainable(t), "grace: 2s", "grace: 0s, followCordon: true", 1)
	config, api, nodes := withAPI(t, config)
	c := startWith(t, config, "bird", nodes)
	cordon(api, c.Node(2), true)
	cordon(api, c.Node(3), true)
	var first, second int
	c.within(convergence, "one of two drained, the other waiting", func() error {
		first, second = 0, 0
		var seen []string
		for _, n := range []int{2, 3} {
			out, err := c.daemons[n-1].Ctl(t.Context(), "nodes")
			if err != nil {
				return err
			}
			switch own := line(out, fmt.Sprintf("k8s-%d", n)); {
			case strings.Contains(own, "Drained"):
				first = n
			case strings.Contains(own, "Waiting"):
				second = n
			default:
				seen = append(seen, own)
			}
		}
		if first == 0 || second == 0 {
			return fmt.Errorf("drained %d, waiting %d, %q", first, second, seen)
		}
		return nil
	})
	if out := c.ctl(c.daemons[second-1], "status"); !strings.Contains(out, fmt.Sprintf("k8s-%d", first)) {
		t.Errorf("status of k8s-%d does not say that it waits for k8s-%d:\n%s", second, first, out)
	}
	cordon(api, c.Node(first), false)
	c.within(convergence, "the other drained in its turn", func() error {
		out, err := c.daemons[second-1].Ctl(t.Context(), "nodes")
		if err == nil && !(strings.Contains(line(out, fmt.Sprintf("k8s-%d", second)), "Drained") && !strings.Contains(line(out, fmt.Sprintf("k8s-%d", first)), "Drain")) {
			err = fmt.Errorf("nodes:\n%s", out)
		}
		return err
	})
	cordon(api, c.Node(second), false)
	c.within(convergence, "both back", func() error { return c.routerKnows(lab.LoadBalancers, 3) })
	for _, n := range c.Nodes {
		c.within(convergence, n.Name+" apart", func() error { return n.PodPaths(lab.PodNet, c.Nodes...) })
	}
	c.routerSawNothing()
}

// cordon marks a node unschedulable, or not.
func cordon(api *kubeapi.Server, n *lab.Node, yes bool) {
	api.Do("PATCH", "/api/v1/nodes/"+n.Name, "application/merge-patch+json", map[string]any{"spec": map[string]any{"unschedulable": yes}})
}

// ctl runs netclassctl, which must succeed.
func (c *cluster) ctl(d *lab.Netclassd, args ...string) string {
	c.t.Helper()
	out, err := d.Ctl(c.t.Context(), args...)
	if err != nil {
		c.t.Fatalf("netclassctl %s on %s: %v\n%s", strings.Join(args, " "), d.Node.Name, err, out)
	}
	return out
}

// line returns the line of a listing that begins with a name.
func line(out, name string) string {
	for l := range strings.Lines(out) {
		if f := strings.Fields(l); len(f) > 0 && f[0] == name {
			return strings.TrimSpace(l)
		}
	}
	return ""
}

// TestDrainClass takes one class out and leaves the rest, without Kubernetes.
func TestDrainClass(t *testing.T) {
	t.Parallel()
	config := strings.Replace(drainable(t), `, protect: {selector: "example.org/storage=yes"}`, "", 1) // only the API has labels
	c := start(t, config, "bird")
	two := c.daemons[1]
	c.safe(two)
	watched := lab.WatchDrain(t.Context(), c.daemons[0], two)
	out := c.ctl(two, "drain", "--class", "world-pod", "--keep-egress")
	c.must(watched())
	t.Logf("drain:\n%s", out)
	c.must(c.routerKnows(lab.LoadBalancers, 2))
	c.must(c.Node(2).PodPaths(lab.PodNet, c.Nodes...))
	c.must(c.Node(1).PodPaths(lab.PodNet, c.Nodes...))
	for _, f := range routing.Families {
		hop, err := c.Node(2).FromPod(lab.WorldAddr.Of(f))
		if err != nil || hop.Link != lab.Ingress {
			t.Errorf("egress of pods leaves by %v, %v, want ingress0: it was to be kept", hop, err)
		}
	}
	// A second node learns of the first by BGP alone.
	if out, err := c.daemons[2].Ctl(t.Context(), "drain"); err == nil || !strings.Contains(fmt.Sprint(err), "k8s-2") {
		t.Errorf("a second node is drained, or its refusal does not name the first: %v\n%s", err, out)
	}
	if out, err := c.daemons[0].Ctl(t.Context(), "drain", "k8s-3"); err == nil || !strings.Contains(fmt.Sprint(err), "k8s-3") {
		t.Errorf("another node is drained without an API, or the refusal does not say where to run it: %v\n%s", err, out)
	}
	c.ctl(two, "undrain")
	c.within(convergence, "the router's routes", func() error { return c.routerKnows(lab.LoadBalancers, 3) })
	c.routerSawNothing()
}
