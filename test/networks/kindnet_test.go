package networks

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

func parseAddr(t *testing.T, text string) netip.Addr {
	t.Helper()
	a, err := netip.ParseAddr(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// withoutCNI takes away the routes to the peers' pods that the lab's CNI has made
// in main: they are netclassd's to make here.
func (c *cluster) withoutCNI() {
	c.t.Helper()
	for _, n := range c.Nodes {
		for _, peer := range c.Nodes {
			for _, f := range routing.Families {
				if peer != n {
					c.ip(n, fmt.Sprintf("route del %s dev %s", peer.PodCIDR(f), lab.NodeNet))
				}
			}
		}
	}
}

// TestKindnet routes as kindnet does: main holds a route to each peer's pods by
// its InternalIP, straight from the Node objects, read as a pod. The example's
// eth0 is node0 here, and there is IPv6 as well.
func TestKindnet(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.withoutCNI()
	one, two, three := c.Node(1), c.Node(2), c.Node(3)
	c.create(one, object(one))
	c.create(two, object(two))
	c.runInPods(example(t, "kindnet.yaml", "eth0", "node0", "[10.244.0.0/16]", `[10.244.0.0/16, "fd00:10:244::/48"]`))

	c.hasRoutes(one, "main", "10.244.2.0/24 via 10.46.0.2 dev node0 metric 10", "fd00:10:244:2::/64 via fd00:46::2 dev node0 metric 10")
	c.hasRoutes(two, "main", "10.244.1.0/24 via 10.46.0.1 dev node0 metric 10", "fd00:10:244:1::/64 via fd00:46::1 dev node0 metric 10")
	if pid, err := c.daemons[0].Speaker(); err == nil {
		t.Errorf("there is a speaker, process %d", pid)
	}
	stop := c.pings(one, two)
	m := c.monitor(one)

	// A node is added, and one more message for each family.
	c.create(three, object(three))
	c.within(patience, "added", func() error { return one.PodPaths(lab.NodeNet, c.Nodes...) })
	c.ping(one.Pod, three.PodAddr(routing.IPv4).String(), three.PodAddr(routing.IPv6).String())
	c.changed(m, "added", "10.244.3.0/24 via 10.46.0.3", "fd00:10:244:3::/64 via fd00:46::3")

	// Another address: its routes are replaced in place.
	for _, p := range []string{"10.46.0.102/24", "fd00:46::102/64"} {
		c.must(two.AddAddr(lab.NodeNet, netip.MustParsePrefix(p)))
	}
	c.setInternalIPs(two, "10.46.0.102", "fd00:46::102")
	c.hasRoutes(one, "main",
		"10.244.2.0/24 via 10.46.0.102 dev node0 metric 10", "10.244.3.0/24 via 10.46.0.3 dev node0 metric 10",
		"fd00:10:244:2::/64 via fd00:46::102 dev node0 metric 10", "fd00:10:244:3::/64 via fd00:46::3 dev node0 metric 10")
	c.changed(m, "another address", "10.244.2.0/24 via 10.46.0.102", "fd00:10:244:2::/64 via fd00:46::102")

	stop()

	// Deleted and made again, with the first address.
	c.delete(two)
	c.create(two, object(two))
	c.within(patience, "made again", func() error {
		hop, err := one.FromPod(two.PodAddr(routing.IPv4))
		if err == nil && hop.Via != two.Addr(lab.NodeNet, routing.IPv4) {
			err = fmt.Errorf("leaves by %s", hop)
		}
		return err
	})

	// Another CIDR, which a Node gets when it is made again.
	time.Sleep(time.Second)
	m.changes()
	moved := object(two)
	moved.podCIDRs = []string{"10.244.22.0/24", "fd00:10:244:22::/64"}
	c.delete(two)
	c.create(two, moved)
	c.hasRoutes(one, "main",
		"10.244.22.0/24 via 10.46.0.2 dev node0 metric 10", "10.244.3.0/24 via 10.46.0.3 dev node0 metric 10",
		"fd00:10:244:22::/64 via fd00:46::2 dev node0 metric 10", "fd00:10:244:3::/64 via fd00:46::3 dev node0 metric 10")
	c.changed(m, "another CIDR",
		"10.244.22.0/24 via 10.46.0.2", "fd00:10:244:22::/64 via fd00:46::2", "Deleted 10.244.2.0/24", "Deleted fd00:10:244:2::/64")
	c.healthy()
	c.routerSawNothing()
}

// hasRoutes waits until the table's routes of ours are these.
func (c *cluster) hasRoutes(n *lab.Node, table string, want ...string) {
	c.t.Helper()
	c.within(patience, n.Name+" has its routes in "+table, func() error {
		var have []string
		for _, line := range c.ours(n, table) {
			line, _, _ = strings.Cut(line, " pref ")
			have = append(have, strings.TrimSpace(strings.ReplaceAll(line, " proto 148", "")))
		}
		slices.Sort(have)
		if !slices.Equal(have, slices.Sorted(slices.Values(want))) {
			return fmt.Errorf("have\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
		}
		return nil
	})
}

// changed fails the test unless the kernel has told of these changes, of which
// the beginnings are given, and of no others.
func (c *cluster) changed(m *monitor, what string, want ...string) {
	c.t.Helper()
	time.Sleep(300 * time.Millisecond) // for what should not come
	lines := m.changes()
	ok := len(lines) == len(want)
	for i := range want {
		ok = ok && slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want[i]+" ") })
	}
	if !ok {
		c.t.Errorf("%s: the kernel told of\n%s\nwant\n%s", what, strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
