package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// drainConfig is the seed's with a drain that takes seconds instead of minutes.
func drainConfig(t *testing.T) string {
	t.Helper()
	text, err := lab.SeedConfig()
	if err != nil {
		t.Fatal(err)
	}
	return text + "\ndrain: {grace: 1s, timeout: 60s, quiet: {packetsPerSecond: 20, for: 2s}}\n"
}

// drained checks that a node has no class path and no default, and that its peers
// use their fallback for its pods.
func (c *cluster) drained(node int, want bool) {
	c.t.Helper()
	for _, n := range c.Nodes {
		for _, f := range []string{"-4", "-6"} {
			out := c.ip(n, f+" route show table 47")
			paths := strings.Count(out, " dev pod0 proto 148 metric 10")
			if n.Number != node {
				cidr := c.Node(node).PodCIDR(routing.IPv4).String()
				if f == "-6" {
					cidr = c.Node(node).PodCIDR(routing.IPv6).String()
				}
				has := slices.ContainsFunc(strings.Split(out, "\n"), func(l string) bool {
					return strings.HasPrefix(l, cidr+" via") && strings.Contains(l, "dev pod0")
				})
				if has == want {
					c.t.Errorf("%s of %s, drained %v:\n%s", f, n.Name, want, out)
				}
				continue
			}
			via := strings.Count(out, "dev pod0") - strings.Count(out, "dev pod0 proto 148 scope link") - strings.Count(out, "/64 dev pod0")
			if def := strings.Contains(out, "default via"); def == want || (via > 0) == want {
				c.t.Errorf("%s of the node itself, drained %v (%d class paths %d):\n%s", f, want, via, paths, out)
			}
		}
	}
}

// TestDrainNode takes a node out and puts it back, under traffic between pods.
func TestDrainNode(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{Config: drainConfig(t)})
	c.within(convergence, "sessions", func() error {
		out, err := c.daemons[1].Ctl(t.Context(), "peers")
		if err != nil {
			return err
		}
		if strings.Count(out, "Established") < 4 {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	tr := c.traffic([2]int{1, 2}, [2]int{2, 3}, [2]int{3, 1})
	begin := time.Now()
	out, err := c.daemons[1].Ctl(t.Context(), "drain", "--reason", "new cable")
	t.Logf("drain took %v: %v\n%s", time.Since(begin), err, out)
	c.must(err)
	c.drained(2, true)
	for _, words := range [][]string{{"status"}, {"classes"}, {"nodes"}, {"peers"}, {"verify"}, {"table", "pods"}} {
		out, err = c.daemons[1].Ctl(t.Context(), words...)
		t.Logf("%v: %v\n%s", words, err, out)
	}
	out, err = c.daemons[0].Ctl(t.Context(), "nodes")
	t.Logf("nodes on k8s-1: %v\n%s", err, out)
	out, err = c.daemons[0].Ctl(t.Context(), "drain")
	t.Logf("other: %v\n%s", err, out)
	if err == nil || !strings.Contains(err.Error()+out, "k8s-2") {
		t.Errorf("drain of another node: %v %s", err, out)
	}
	begin = time.Now()
	out, err = c.daemons[1].Ctl(t.Context(), "undrain")
	t.Logf("undrain took %v: %v\n%s", time.Since(begin), err, out)
	c.must(err)
	c.converge()
	c.drained(2, false)
	tr.stop(0, "pod0", "node0")
}
