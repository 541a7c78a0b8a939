package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// TestLearnNodes takes the peers' routes from the nodes file alone: no BGP, no
// speaker, and the same paths.
func TestLearnNodes(t *testing.T) {
	t.Parallel()
	config := strings.Replace(mustConfig(t), "learn: bgp", "learn: nodes", 1)
	config = regexp.MustCompile(`(?ms)^bgp:.*`).ReplaceAllString(config, "")
	c := start(t, lab.NetclassdOptions{Config: config})
	one := c.Node(1)
	if pid, err := c.daemons[0].Speaker(); err == nil {
		t.Errorf("there is a speaker, process %d", pid)
	}
	stop := c.pings([2]int{1, 2}, [2]int{2, 1})
	c.must(c.daemons[0].Restart())
	c.must(c.daemons[0].WriteNodes(c.NodesFile(1, 2)))
	c.within(convergence, "k8s-3 out of the nodes file", func() error {
		for _, f := range routing.Families {
			if hop, err := one.FromPod(c.Node(3).PodAddr(f)); err == nil {
				return fmt.Errorf("%s is reached by %s", c.Node(3).PodAddr(f), hop)
			}
		}
		return nil
	})
	c.must(c.daemons[0].WriteNodes(c.NodesFile()))
	c.within(repair, "k8s-3 back in the nodes file", func() error { return one.PodPaths(lab.PodNet, c.Nodes...) })
	c.must(one.LinkDown(lab.PodNet))
	c.must(one.PodPaths(lab.NodeNet, c.Nodes...))
	c.must(one.LinkUp(lab.PodNet))
	c.within(repair, "pod0 back", func() error { return one.PodPaths(lab.PodNet, c.Nodes...) })
	stop(anyNumber)
	c.routerSawNothing()
}

// TestTwoTables runs the seed's older design: peers in a table of their own and
// exceptions as rules.
func TestTwoTables(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile(filepath.Join("..", "..", "examples", "seed", "config-two-tables.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, lab.NetclassdOptions{Config: string(config)})
	one, two := c.Node(1), c.Node(2)
	for _, f := range routing.Families {
		hop, err := one.FromPod(two.Addr(lab.NodeNet, f))
		if err != nil || hop.Link != lab.NodeNet {
			t.Errorf("pod to a node leaves by %s, %v", hop, err)
		}
	}
	stop := c.pings([2]int{1, 2}, [2]int{2, 1})
	c.must(c.daemons[0].Restart())
	time.Sleep(3 * time.Second)
	stop(0)
	c.routerSawNothing()
}
