package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// startDrains starts a cluster whose drains take seconds, and waits for the mesh.
func startDrains(t *testing.T) *cluster {
	t.Helper()
	text, err := lab.SeedConfig()
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, lab.NetclassdOptions{Config: text + "\ndrain: {grace: 1s, timeout: 60s, quiet: {packetsPerSecond: 10, for: 2s}}\n"})
	c.sessionsUp(convergence)
	return c
}

// paths checks that a node has its class paths and defaults, or none of them, and
// that the others lead to its pods by pod0, or by their fallback.
func (c *cluster) paths(node int, want bool) error {
	var wrong []error
	for _, n := range c.Nodes {
		for i, f := range routing.Families {
			out, err := n.Exec(c.t.Context(), "ip", []string{"-4", "-6"}[i], "route", "show", "table", "47")
			if err != nil {
				return err
			}
			has := func(dst, by string) bool {
				return slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
					return strings.HasPrefix(line, dst+" via ") && strings.Contains(line, by)
				})
			}
			for _, peer := range c.Nodes {
				if peer == n || n.Number != node && peer.Number != node {
					continue
				}
				cidr := peer.PodCIDR(f).String()
				if has(cidr, "dev pod0") != want || !has(cidr, "dev node0") {
					wrong = append(wrong, fmt.Errorf("%s to %s:\n%s", n.Name, cidr, out))
				}
			}
			if got := has("default", "dev ingress0"); n.Number == node && got != want {
				wrong = append(wrong, fmt.Errorf("%s has a default: %v", n.Name, got))
			}
		}
	}
	return errors.Join(wrong...)
}

// noneDrained checks that k8s-1 knows of no node that is drained.
func (c *cluster) noneDrained() error {
	out, err := c.daemons[0].Ctl(c.t.Context(), "nodes")
	if err != nil || strings.Contains(out, "Drained") || strings.Contains(out, "raining") {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// said runs netclassctl and wants it to print all of some words, or to fail with
// them.
func (c *cluster) said(d *lab.Netclassd, args []string, fails bool, words ...string) {
	c.t.Helper()
	out, err := d.Ctl(c.t.Context(), args...)
	if err != nil {
		out += err.Error()
	}
	if (err != nil) != fails {
		c.t.Errorf("netclassctl %v: %v\n%s", args, err, out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			c.t.Errorf("netclassctl %v lacks %q:\n%s", args, w, out)
		}
	}
}

// TestDrain takes a node out and puts it back, under pings at 1 kHz and TCP between
// the pods of all nodes: nothing is lost, and the others see it, and do not drain.
func TestDrain(t *testing.T) {
	t.Parallel()
	c := startDrains(t)
	one, two := c.daemons[0], c.daemons[1]
	tr := c.traffic([2]int{1, 2}, [2]int{2, 3}, [2]int{3, 1})
	begin := time.Now()
	watched := lab.WatchDrain(t.Context(), one, two)
	c.said(two, []string{"drain", "--reason", "new cable"}, false, "DRAINED k8s-2",
		"pods reach the world by mgmt0 instead of ingress0", "moves from pod0 to node0", "marker")
	t.Logf("drained after %v", time.Since(begin).Round(time.Millisecond))
	c.must(watched())
	c.must(c.paths(2, false))
	c.said(two, []string{"status"}, false, "Drained", "new cable", "marker 10.48.0.2/32")
	c.said(two, []string{"classes"}, false, "Drained")
	c.said(two, []string{"verify"}, false, "PROVEN")
	c.within(repair, "another node sees that it is done", func() error {
		out, err := one.Ctl(t.Context(), "status")
		if err != nil || !strings.Contains(out, "drained: k8s-2") {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	c.said(one, []string{"nodes"}, false, "Drained")
	c.said(one, []string{"verify"}, false, "k8s-2 is drained")
	c.said(one, []string{"drain"}, true, "not safe to drain k8s-1", "k8s-2 is drained")
	c.said(one, []string{"drain", "k8s-3"}, true, "run it on k8s-3")
	c.said(two, []string{"drain"}, false, "DRAINED k8s-2")

	// The maintenance: cables are pulled, for longer than a session outlives it.
	for _, link := range []string{lab.PodNet, lab.Ingress} {
		c.must(c.Node(2).Cut(link))
	}
	time.Sleep(restartTime)
	for _, link := range []string{lab.PodNet, lab.Ingress} {
		c.must(c.Node(2).LinkDown(link))
	}
	time.Sleep(restartTime)
	c.said(one, []string{"drain"}, true, "k8s-2 is drained")
	for _, link := range []string{lab.PodNet, lab.Ingress} {
		c.must(c.Node(2).LinkUp(link))
		c.must(c.Node(2).Mend(link))
	}
	c.sessionsUp(convergence)
	c.must(c.paths(2, false))

	begin = time.Now()
	c.said(two, []string{"undrain"}, false, "UNDRAINED k8s-2")
	t.Logf("undrained after %v", time.Since(begin).Round(time.Millisecond))
	c.must(c.paths(2, true))
	c.said(two, []string{"undrain"}, false)
	c.within(repair, "the others know it", c.noneDrained)
	tr.stop(0, "pod0", "node0")
}

// TestDrainSurvives restarts and kills the daemon all the time while it drains,
// stays drained and undrains: it ends as if nothing had been, and nothing is lost.
func TestDrainSurvives(t *testing.T) {
	t.Parallel()
	c := startDrains(t)
	two := c.daemons[1]
	tr := c.traffic([2]int{1, 2}, [2]int{2, 3}, [2]int{3, 1})
	again := []func() error{two.Restart, func() error { return errors.Join(two.Kill(), two.Start()) }}
	disturb := func(times int, gap time.Duration) {
		t.Helper()
		for n := range times {
			time.Sleep(gap)
			c.must(again[n%2]())
			c.within(convergence, "its socket", func() error { _, err := two.Ctl(t.Context(), "status"); return err })
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = two.Ctl(t.Context(), "drain") // it ends with its daemon
	}()
	disturb(6, 2500*time.Millisecond)
	<-done
	c.within(convergence, "drained", func() error {
		out, err := two.Ctl(t.Context(), "status")
		if err != nil || !strings.Contains(out, "Drained for") {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return c.paths(2, false)
	})
	disturb(2, time.Second)
	c.must(c.paths(2, false))
	// Whose session is away is still known to be drained.
	c.must(two.Kill())
	time.Sleep(restartTime + time.Second)
	c.said(c.daemons[0], []string{"drain"}, true, "k8s-2 is drained")
	c.must(c.daemons[0].Restart())
	c.within(convergence, "its socket", func() error { _, err := c.daemons[0].Ctl(t.Context(), "status"); return err })
	c.said(c.daemons[0], []string{"drain"}, true, "k8s-2 is drained")
	c.must(two.Start())
	c.within(convergence, "its socket", func() error { _, err := two.Ctl(t.Context(), "status"); return err })
	go func() { _, _ = two.Ctl(t.Context(), "undrain") }()
	disturb(3, 20*time.Millisecond)
	c.said(two, []string{"undrain"}, false)
	c.sessionsUp(convergence)
	c.within(convergence, "undrained", func() error { return c.paths(2, true) })
	c.within(convergence, "the others know it", c.noneDrained)
	c.said(c.daemons[0], []string{"drain", "--grace", "0s"}, false, "DRAINED k8s-1")
	c.must(c.paths(1, false))
	tr.stop(0, "pod0", "node0")
}

// TestDrainFails drains a node one of whose links does not get quiet: everything is
// put back, the reason is said, and nothing is lost.
func TestDrainFails(t *testing.T) {
	t.Parallel()
	c := startDrains(t)
	two := c.daemons[1]
	tr := c.traffic([2]int{1, 2}, [2]int{2, 3}, [2]int{3, 1})
	noise, err := c.Node(1).StartPing(c.Node(2).Addr(lab.PodNet, routing.IPv4), lab.PingOptions{Rate: 200})
	c.must(err)
	c.said(two, []string{"drain", "--wait", "14s"}, true, "pod0 has received", "put back")
	noise.Stop()
	c.must(c.paths(2, true))
	c.said(two, []string{"status"}, false, "Undrained", "pod0 has received")
	c.said(c.daemons[0], []string{"drain"}, false, "DRAINED k8s-1")
	c.said(c.daemons[0], []string{"undrain"}, false)
	tr.stop(0, "pod0", "node0")
}
