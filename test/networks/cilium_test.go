package networks

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/kubeapi"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// seedSource is how the seed names its API.
const seedSource = "kubernetes: {kubeconfig: /etc/netclassd/kubeconfig}"

// startRouter has the upstream router speak BGP, as the seed wants it.
func (c *cluster) startRouter() {
	c.t.Helper()
	need.Program(c.t, "bird")
	_, err := c.Router.StartBGP()
	c.must(err)
}

// TestCilium runs the seed's configuration as it is, on nodes of the API: table
// 47 is what it is with a nodes file. A node comes and goes at run time.
func TestCilium(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	one, two, three := c.Node(1), c.Node(2), c.Node(3)
	config := example(t, "seed/config.yaml", seedSource, c.source())
	c.create(one, object(one))
	c.create(two, object(two))
	c.startRouter()
	c.run(config, one, two)
	c.within(patience, "two nodes apart", func() error { return c.Separated(one, two) })
	stop := c.pings(one, two)

	c.create(three, object(three))
	c.run(config, three)
	c.within(patience, "three nodes apart", func() error { return c.Separated(c.Nodes...) })
	for _, f := range routing.Families {
		c.ping(three.Pod, one.PodAddr(f).String(), two.PodAddr(f).String(), lab.WorldAddr.Of(f).String())
	}
	var want []string
	for line := range strings.Lines(example(t, "seed/expected-k8s-1.txt")) {
		if strings.Contains(line, "table main") {
			break // the guard
		}
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); strings.Contains(line, " metric ") {
			want = append(want, line)
		}
	}
	c.sameRoutes(one, want)

	c.healthy()

	// A heartbeat, a label: nothing is written.
	time.Sleep(time.Second)
	m := c.monitor(one)
	for i := range 20 {
		c.api.Do("PATCH", "/api/v1/nodes/"+two.Name+"/status", "application/strategic-merge-patch+json", map[string]any{"status": map[string]any{
			"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": fmt.Sprint(i)}},
		}})
	}
	c.api.Do("PATCH", "/api/v1/nodes/"+two.Name, "application/merge-patch+json", `{"metadata":{"labels":{"example.org/zone":"a"}}}`)
	c.changed(m, "heartbeats")

	c.delete(three)
	c.within(patience, "k8s-3 gone", func() error {
		for _, f := range routing.Families {
			if hop, err := one.FromPod(three.PodAddr(f)); err == nil {
				return fmt.Errorf("%s is reached by %s", three.PodAddr(f), hop)
			}
		}
		return nil
	})
	stop()
	c.routerSawNothing()
}

// sameRoutes fails the test unless table 47 holds these IPv4 routes of ours, as
// `ip route` words them.
func (c *cluster) sameRoutes(n *lab.Node, want []string) {
	c.t.Helper()
	if len(want) < 15 {
		c.t.Fatalf("the seed's expected routes are not read: %q", want)
	}
	words := func(lines []string) []string {
		var out []string
		for _, line := range lines {
			if !strings.Contains(line, ":") {
				out = append(out, strings.Join(strings.Fields(line), " "))
			}
		}
		slices.Sort(out)
		return out
	}
	c.within(patience, n.Name+" has the seed's routes", func() error {
		have := words(c.ours(n, "47"))
		if w := words(want); !slices.Equal(have, w) {
			return fmt.Errorf("have\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(w, "\n"))
		}
		return nil
	})
}

// TestCiliumPublish has nobody write the nodes' addresses on pod0: each netclassd
// publishes its own, and what a person wrote stands.
func TestCiliumPublish(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	one, two := c.Node(1), c.Node(2)
	for _, n := range c.Nodes {
		o := object(n)
		for _, key := range slices.Collect(maps.Keys(o.annotations)) {
			if strings.Contains(key, "pod0") {
				delete(o.annotations, key)
			}
		}
		c.create(n, o)
	}
	c.run(example(t, "seed/config.yaml", seedSource, c.source(), "podCIDRs: node ", "publish: missing\n  podCIDRs: node "))
	c.within(patience, "classes apart", func() error { return c.Separated(c.Nodes...) })
	for _, f := range routing.Families {
		c.ping(one.Pod, two.PodAddr(f).String())
	}
	text := string(c.api.Do("GET", "/api/v1/nodes/"+two.Name, "", nil))
	for _, want := range []string{`"net.renner.uno/pod0-v4":"10.48.0.2"`, `"net.renner.uno/pod0-v6":"fd00:48::2"`, `"manager":"netclassd"`} {
		if !strings.Contains(text, want) {
			t.Errorf("node %s has no %s:\n%s", two.Name, want, text)
		}
	}
	c.routerSawNothing()
}

// ciliumNodes is the part of Cilium's own definition that the API server needs.
const ciliumNodes = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ciliumnodes.cilium.io}
spec:
  group: cilium.io
  names: {kind: CiliumNode, plural: ciliumnodes, singular: ciliumnode, shortNames: [cn]}
  scope: Cluster
  versions:
  - name: v2
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// defineCiliumNodes has the API server serve them.
func (c *cluster) defineCiliumNodes() {
	c.t.Helper()
	c.api.Apply(ciliumNodes)
	c.within(patience, "CiliumNodes are served", func() error {
		status, answer, err := c.api.Request(kubeapi.Admin, "GET", "/apis/cilium.io/v2/ciliumnodes", "", nil)
		if err == nil && status != 200 {
			err = fmt.Errorf("status %d: %s", status, answer)
		}
		return err
	})
}

// pool is a second pod CIDR of a node, from another pool.
func pool(n *lab.Node, f routing.Family) netip.Prefix {
	return netip.MustParsePrefix(map[routing.Family]string{
		routing.IPv4: fmt.Sprintf("10.244.%d.0/24", 100+n.Number), routing.IPv6: fmt.Sprintf("fd00:10:244:1%02d::/64", n.Number),
	}[f])
}

// give sets the pod CIDRs that Cilium's operator has given to a node.
func (c *cluster) give(n *lab.Node, more bool) {
	c.t.Helper()
	cidrs := object(n).podCIDRs
	if more {
		cidrs = append(cidrs, pool(n, routing.IPv4).String(), pool(n, routing.IPv6).String())
	}
	for i := range cidrs {
		cidrs[i] = strconv.Quote(cidrs[i])
	}
	c.api.Apply(fmt.Sprintf("apiVersion: cilium.io/v2\nkind: CiliumNode\nmetadata: {name: %s}\nspec: {ipam: {podCIDRs: [%s]}}\n",
		n.Name, strings.Join(cidrs, ", ")))
}

// TestCiliumPools takes the pod CIDRs from CiliumNode objects, several for a node;
// what the Nodes say is not asked. The definition of the objects comes late.
func TestCiliumPools(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	one, two, three := c.Node(1), c.Node(2), c.Node(3)
	for _, n := range c.Nodes {
		o := object(n)
		o.podCIDRs = nil
		c.create(n, o)
		// The CNI has the second pool's addresses on its pods and in main.
		for _, f := range routing.Families {
			c.must(n.Pod.AddAddr("eth0", netip.PrefixFrom(pool(n, f).Addr().Next(), f.Bits())))
			c.ip(n, fmt.Sprintf("route add %s dev %s", pool(n, f), lab.CNILink))
		}
	}
	c.startRouter()
	c.run(example(t, "seed/config.yaml", seedSource, c.source(), "podCIDRs: node ", "podCIDRs: ciliumnode "))
	c.within(patience, "the wait for the definition is told", func() error {
		out, err := c.daemons[0].Ctl(t.Context(), "status") // which ends with an error: not all is well
		if !strings.Contains(out, "waiting for their CustomResourceDefinition") {
			return fmt.Errorf("status: %s %w", out, err)
		}
		return nil
	})

	c.defineCiliumNodes()
	for _, n := range c.Nodes {
		c.give(n, n != two)
	}
	c.within(patience, "classes apart", func() error { return c.Separated(c.Nodes...) })
	for _, f := range routing.Families {
		c.goes(one, pool(three, f).Addr().Next(), lab.PodNet)
		c.ping(one.Pod, two.PodAddr(f).String(), pool(three, f).Addr().Next().String())
		if hop, err := one.FromPod(pool(two, f).Addr().Next()); err == nil {
			t.Errorf("%s, nobody's yet, leaves by %s", pool(two, f), hop)
		}
	}

	c.healthy()

	// Another pool at run time, of a peer and, here k8s-2, its own.
	stop := c.pings(one, two)
	c.give(two, true)
	for _, f := range routing.Families {
		to := pool(two, f).Addr().Next()
		c.within(patience, "another pool", func() error {
			hop, err := one.FromPod(to)
			if err == nil && hop.Link != lab.PodNet {
				err = fmt.Errorf("%s leaves by %s", to, hop)
			}
			return err
		})
		c.ping(one.Pod, to.String())
	}
	stop()

	// And given back.
	c.give(two, false)
	c.within(patience, "a pool given back", func() error {
		for _, n := range []*lab.Node{one, two} {
			for _, line := range c.ours(n, "47") {
				if strings.HasPrefix(line, pool(two, routing.IPv4).String()) || strings.HasPrefix(line, pool(two, routing.IPv6).String()) {
					return fmt.Errorf("%s: %s", n.Name, line)
				}
			}
		}
		return nil
	})
	c.routerSawNothing()
}
