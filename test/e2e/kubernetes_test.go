package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/kubeapi"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// api is what a cluster's nodes reach a real API server by, one way each.
type api struct {
	*kubeapi.Server
	relays map[int]*kubeapi.Relay
}

// startWithAPI makes a cluster whose daemons have their nodes from a real API
// server, with exactly the rights that are shipped, and publish their own
// addresses on pod0 there.
func startWithAPI(t *testing.T) (*cluster, *api) {
	t.Helper()
	need.Root(t)
	need.Program(t, "nft")
	need.Program(t, lab.Built("netclassd"))
	a := &api{kubeapi.Start(t), make(map[int]*kubeapi.Relay)}
	for _, name := range []string{"rbac.yaml", "rbac-publish.yaml"} {
		text, err := os.ReadFile("../../packaging/kubernetes/" + name)
		if err != nil {
			t.Fatal(err)
		}
		a.Apply(string(text))
	}
	token := a.ServiceAccountToken("netclass", "netclassd")
	l, err := lab.New(t.Context(), lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{Lab: l, t: t}
	t.Cleanup(func() {
		if t.Failed() {
			c.logs()
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	config, err := lab.SeedConfig()
	c.must(err)
	config = strings.Replace(config, "nodesFile: nodes.yaml", "kubernetes: {kubeconfig: kubeconfig}\n  publish: missing", 1)
	for _, n := range l.Nodes {
		a.addNode(c, n)
		c.must(n.Do(func() error {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err == nil {
				a.relays[n.Number] = a.Relay(t, listener)
			}
			return err
		}))
		d, err := n.PrepareNetclassd(lab.NetclassdOptions{Config: config})
		c.must(err)
		a.relays[n.Number].Kubeconfig(d.Dir, token)
		c.must(d.Start())
		c.daemons = append(c.daemons, d)
	}
	c.converge()
	return c, a
}

// addNode makes a node's Node. Its addresses on pod0 are left for it to publish.
func (a *api) addNode(c *cluster, n *lab.Node) {
	c.t.Helper()
	text := c.NodesFile(n.Number)
	field := func(key string) string {
		_, after, _ := strings.Cut(text, key+": ")
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	a.Apply(fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata:
  name: %s
  annotations: {net.renner.uno/egress-gw-v4: %s, net.renner.uno/egress-gw-v6: %s}
spec: {podCIDRs: %s}
`, n.Name, field("net.renner.uno/egress-gw-v4"), field("net.renner.uno/egress-gw-v6"), field("podCIDRs")))
	var addresses []string
	for _, ip := range strings.FieldsFunc(field("internalIPs"), func(r rune) bool { return strings.ContainsRune(`[]", `, r) }) {
		addresses = append(addresses, fmt.Sprintf(`{"type":"InternalIP","address":%q}`, ip))
	}
	a.Do("PATCH", "/api/v1/nodes/"+n.Name+"/status", "application/merge-patch+json", `{"status":{"addresses":[`+strings.Join(addresses, ",")+`]}}`)
}

// inventory waits until a daemon says this of its nodes in its status.
func (c *cluster) inventory(d *lab.Netclassd, words ...string) {
	c.t.Helper()
	c.within(convergence, "status of the inventory", func() error {
		text, _ := d.Ctl(c.t.Context(), "status")
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "Inventory") {
				for _, w := range words {
					if !strings.Contains(line, w) {
						return fmt.Errorf("%q lacks %q", line, w)
					}
				}
				return nil
			}
		}
		return fmt.Errorf("there is no inventory in %q", text)
	})
}

// TestKubernetes routes with the nodes of a real API server, boots a node while
// that is away, and loses a node.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	c, a := startWithAPI(t)
	c.sessionsUp(convergence)
	d := c.daemons[0]
	c.inventory(d, "3 nodes", "Kubernetes API")
	stop := c.pings([2]int{1, 2}, [2]int{2, 3})

	// Heartbeats write nothing.
	m := c.monitor(d.Node)
	for i := range 20 {
		a.Do("PATCH", "/api/v1/nodes/"+c.Node(2).Name+"/status", "application/strategic-merge-patch+json",
			fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"%d","lastHeartbeatTime":%q}]}}`, i, time.Now().UTC().Format(time.RFC3339)))
	}
	time.Sleep(time.Second)
	c.unchanged(m, "heartbeats")

	// The API server goes away, with its daemons running.
	a.Down()
	c.inventory(d, "3 nodes", "stale for")
	c.unchanged(m, "the API server away")
	stop(0)

	// A node boots meanwhile.
	c.must(d.Stop())
	c.must(flush(c, d))
	c.must(d.Start())
	c.converge()
	c.inventory(d, "3 nodes", "copy of")
	if text, err := d.Ctl(t.Context(), "nodes", "-o", "json"); err != nil || !strings.Contains(text, c.Node(3).Name) || !strings.Contains(text, `"asOf": "`) {
		t.Errorf("nodes: %v\n%s", err, text)
	}
	c.sessionsUp(convergence)

	// Without its copy and without the API it knows nobody, and deletes nothing.
	c.must(d.Stop())
	c.must(os.Rename(filepath.Join(d.StateDir, "nodes.json"), filepath.Join(d.StateDir, "kept")))
	m = c.monitor(d.Node)
	c.must(d.Start())
	c.inventory(d, "not read yet")
	time.Sleep(time.Second)
	c.unchanged(m, "no node known")

	a.Up()
	c.inventory(d, "3 nodes, Kubernetes API")
	c.converge()
	a.Do("DELETE", "/api/v1/nodes/"+c.Node(3).Name, "", nil)
	c.within(convergence, "the routes of a Node that is gone", func() error {
		for _, f := range routing.Families {
			if hop, err := d.Node.FromPod(c.Node(3).PodAddr(f)); err == nil && hop.Via.IsValid() {
				return fmt.Errorf("still %v", hop)
			}
		}
		return nil
	})
	a.addNode(c, c.Node(3))
	c.converge()
	c.routerSawNothing()
}
