// Package networks runs netclassd in clusters whose nodes are objects in a real
// API server: the networks of the examples, with packets between their pods.
package networks

import (
	"context"
	"fmt"
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

// patience is with a busy machine, not a promise.
const patience = 60 * time.Second

// cluster is a lab with an API server that all of its nodes reach.
type cluster struct {
	*lab.Lab
	t          *testing.T
	api        *kubeapi.Server
	kubeconfig string
	daemons    []*lab.Netclassd
}

// newCluster makes a cluster. Its API has no nodes yet, and no daemon runs.
func newCluster(t *testing.T, nodes int) *cluster {
	t.Helper()
	need.Root(t)
	need.Program(t, "nft")
	need.Program(t, lab.Built("netclassd"))
	api := kubeapi.Start(t)
	l, err := lab.New(t.Context(), lab.Options{Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{Lab: l, t: t, api: api, kubeconfig: rights(t, api)}
	t.Cleanup(func() {
		if t.Failed() {
			for _, d := range c.daemons {
				t.Logf("netclassd on %s ends its log:\n%s", d.Node.Name, d.LogTail(40))
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, n := range l.Nodes {
		api.Forward(n.NS())
	}
	return c
}

// rights returns a kubeconfig with exactly the rights that are shipped.
func rights(t *testing.T, api *kubeapi.Server) string {
	t.Helper()
	for _, name := range []string{"rbac.yaml", "rbac-publish.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "packaging", "kubernetes", name))
		if err != nil {
			t.Fatal(err)
		}
		api.Apply(string(text))
	}
	return api.Kubeconfig(t.TempDir(), api.ServiceAccountToken("netclass", "netclassd"))
}

// nodeObject is what a Node says. Kubelets report the addresses, a controller
// gives the pod CIDRs, people and operators annotate.
type nodeObject struct {
	podCIDRs, internalIPs []string
	annotations           map[string]string
}

// object returns the node as the seed's nodes file has it.
func object(n *lab.Node) nodeObject {
	o := nodeObject{annotations: map[string]string{
		"net.renner.uno/egress-gw-v4": "10.47.0.254", "net.renner.uno/egress-gw-v6": "fd00:47::fe",
		"net.renner.uno/pod0-v4": n.Addr(lab.PodNet, routing.IPv4).String(),
		"net.renner.uno/pod0-v6": n.Addr(lab.PodNet, routing.IPv6).String(),
	}}
	for _, f := range routing.Families {
		o.podCIDRs = append(o.podCIDRs, n.PodCIDR(f).String())
		o.internalIPs = append(o.internalIPs, n.Addr(lab.NodeNet, f).String())
	}
	return o
}

// create makes a node's object.
func (c *cluster) create(n *lab.Node, o nodeObject) {
	c.t.Helper()
	spec := map[string]any{}
	if len(o.podCIDRs) > 0 {
		spec = map[string]any{"podCIDR": o.podCIDRs[0], "podCIDRs": o.podCIDRs}
	}
	c.api.Do("POST", "/api/v1/nodes", "", map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": n.Name, "annotations": o.annotations},
		"spec": spec, "status": map[string]any{"addresses": addresses(n.Name, o.internalIPs)},
	})
}

// delete removes a node's object.
func (c *cluster) delete(n *lab.Node) {
	c.t.Helper()
	c.api.Do("DELETE", "/api/v1/nodes/"+n.Name, "", nil)
}

// setInternalIPs has a node's kubelet report others.
func (c *cluster) setInternalIPs(n *lab.Node, ips ...string) {
	c.t.Helper()
	c.api.Do("PATCH", "/api/v1/nodes/"+n.Name+"/status", "application/merge-patch+json",
		map[string]any{"status": map[string]any{"addresses": addresses(n.Name, ips)}})
}

func addresses(name string, ips []string) []any {
	all := []any{map[string]string{"type": "Hostname", "address": name}}
	for _, ip := range ips {
		all = append(all, map[string]string{"type": "InternalIP", "address": ip})
	}
	return all
}

// example returns a file of the examples with texts replaced, in pairs, each of
// which must be in it.
func example(t *testing.T, name string, replace ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("%s has no %q to replace", name, replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return text
}

// source is how a configuration names the cluster's API.
func (c *cluster) source() string { return fmt.Sprintf("kubernetes: {kubeconfig: %q}", c.kubeconfig) }

// run starts a netclassd on each of the nodes, or on all.
func (c *cluster) run(config string, nodes ...*lab.Node) {
	c.t.Helper()
	if len(nodes) == 0 {
		nodes = c.Nodes
	}
	for _, n := range nodes {
		d, err := n.StartNetclassd(lab.NetclassdOptions{Config: config})
		if err != nil {
			c.t.Fatal(err)
		}
		c.daemons = append(c.daemons, d)
	}
}

// within waits for a condition.
func (c *cluster) within(limit time.Duration, what string, check func() error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	begin := time.Now()
	if err := lab.Eventually(ctx, check); err != nil {
		c.t.Fatalf("%s: not within %v: %v", what, limit, err)
	}
	c.t.Logf("%s: after %v", what, time.Since(begin).Round(time.Millisecond))
}

// ping fails the test unless a host is answered in both families.
func (c *cluster) ping(from *lab.Host, to ...string) {
	c.t.Helper()
	for _, text := range to {
		// The first packets may wait for a neighbour.
		c.within(5*time.Second, from.Name+" to "+text, func() error {
			r, err := from.Ping(parseAddr(c.t, text), 3)
			if err == nil && r.Lost > 0 {
				err = fmt.Errorf("%v", r)
			}
			return err
		})
	}
}

// pings pings between pods of two nodes in both families until stop is called,
// which fails the test if one is lost.
func (c *cluster) pings(from, to *lab.Node) (stop func()) {
	c.t.Helper()
	var pingers []*lab.Pinger
	for _, f := range routing.Families {
		c.ping(from.Pod, to.PodAddr(f).String())
		p, err := from.Pod.StartPing(to.PodAddr(f), lab.PingOptions{Rate: 500})
		c.must(err)
		pingers = append(pingers, p)
	}
	return func() {
		c.t.Helper()
		for _, p := range pingers {
			if r := p.Stop(); r.Lost > 0 {
				c.t.Errorf("%v: want none lost", r)
			} else {
				c.t.Log(r)
			}
		}
	}
}

// healthy waits until every daemon says that all is well, and that each class
// uses its link.
func (c *cluster) healthy() {
	c.t.Helper()
	for _, d := range c.daemons {
		for _, command := range []string{"status", "verify"} {
			c.within(patience, d.Node.Name+" "+command, func() error {
				out, err := d.Ctl(c.t.Context(), command)
				if err != nil {
					err = fmt.Errorf("%w: %s", err, out)
				}
				return err
			})
		}
	}
}

// routerSawNothing is the hard constraint.
func (c *cluster) routerSawNothing() {
	c.t.Helper()
	counts, err := c.Router.Counts()
	c.must(err)
	if counts.Total() > 0 {
		offenders, err := c.Router.Offenders()
		c.t.Errorf("the router saw %d cluster packets: %s %v", counts.Total(), strings.Join(offenders, " "), err)
	}
}

// monitor records every change of the node's rules and routes that is ours.
type monitor struct {
	*lab.Process
	read int
}

func (c *cluster) monitor(n *lab.Node) *monitor {
	c.t.Helper()
	p, err := n.Start(lab.Command{
		Path: need.Program(c.t, "ip"), Args: []string{"-N", "monitor", "route", "rule"}, Name: fmt.Sprintf("monitor-%d", time.Now().UnixNano()),
	})
	c.must(err)
	time.Sleep(200 * time.Millisecond) // until it listens
	return &monitor{Process: p}
}

// changes returns what is new since the last call and of our protocol.
func (m *monitor) changes() []string {
	b, err := os.ReadFile(m.Log)
	if err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for line := range strings.Lines(string(b[m.read:])) {
		if strings.Contains(line, "proto 148") {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	m.read = len(b)
	return lines
}

// ip runs `ip` on a node.
func (c *cluster) ip(n *lab.Node, args string) string {
	c.t.Helper()
	out, err := n.Exec(c.t.Context(), "ip", strings.Fields(args)...)
	c.must(err)
	return out
}

// ours returns the routes of our protocol in a table, both families, as `ip`
// words them without the protocol.
func (c *cluster) ours(n *lab.Node, table string) []string {
	c.t.Helper()
	var lines []string
	for _, family := range []string{"-4", "-6"} {
		for line := range strings.Lines(c.ip(n, family+" route show proto 148 table "+table)) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	return lines
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}
