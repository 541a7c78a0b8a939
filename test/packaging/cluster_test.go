package packaging

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/kubeapi"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// convergence is patience with a busy machine, not a promise.
const convergence = 60 * time.Second

// cluster is a lab with an API server that knows its nodes, and that has had what
// the seed's overlay makes.
type cluster struct {
	*lab.Lab
	t     *testing.T
	api   *kubeapi.Server
	token string // of the service account
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	need.Root(t)
	need.Program(t, "nft")
	need.Program(t, "bird")
	c := &cluster{t: t, api: kubeapi.Start(t)}
	c.api.Apply(render(t, seedOverlay))
	c.token = c.api.ServiceAccountToken("netclass", "netclassd")
	var err error
	if c.Lab, err = lab.New(t.Context(), lab.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, n := range c.Nodes {
		c.api.Forward(n.NS())
		c.register(n)
	}
	_, err = c.Router.StartBGP()
	c.must(err)
	return c
}

// register makes a node's object, as kubelet, a controller and the annotations of
// the machine configuration would.
func (c *cluster) register(n *lab.Node) {
	c.t.Helper()
	addresses, cidrs := []any{map[string]string{"type": "Hostname", "address": n.Name}}, []string{}
	for _, f := range routing.Families {
		addresses = append(addresses, map[string]string{"type": "InternalIP", "address": n.Addr(lab.NodeNet, f).String()})
		cidrs = append(cidrs, n.PodCIDR(f).String())
	}
	c.api.Do("POST", "/api/v1/nodes", "", map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": n.Name, "annotations": map[string]string{
			"net.renner.uno/egress-gw-v4": "10.47.0.254", "net.renner.uno/egress-gw-v6": "fd00:47::fe",
			"net.renner.uno/pod0-v4": n.Addr(lab.PodNet, routing.IPv4).String(),
			"net.renner.uno/pod0-v6": n.Addr(lab.PodNet, routing.IPv6).String(),
		}},
		"spec": map[string]any{"podCIDR": cidrs[0], "podCIDRs": cidrs},
		"status": map[string]any{
			"addresses":  addresses,
			"conditions": []any{map[string]string{"type": "Ready", "status": "True"}},
		},
	})
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// well waits until a container's daemon says that all is well, that each class
// uses its link, and that every session is up.
func (c *cluster) well(k *container) {
	c.t.Helper()
	for _, command := range []string{"health --ready", "status", "verify"} {
		within(c.t, convergence, k.name+" "+command, func() error {
			out, err := k.ctl(strings.Fields(command)...)
			if err == nil && command == "status" && (!strings.Contains(out, "6/6 Established") || strings.Contains(out, " held")) {
				err = fmt.Errorf("sessions:\n%s", out)
			}
			return err
		})
	}
}

// pings pings between the nodes' pods in both families until stop is called, which
// fails the test if one is lost.
func (c *cluster) pings(nodes []*lab.Node) (stop func()) {
	c.t.Helper()
	var pingers []*lab.Pinger
	for _, from := range nodes {
		for _, to := range nodes {
			for _, f := range routing.Families {
				if from == to {
					continue
				}
				within(c.t, 5*time.Second, fmt.Sprintf("an answer from %s", to.PodAddr(f)), func() error {
					r, err := from.Pod.Ping(to.PodAddr(f), 1)
					if err == nil && r.Lost > 0 {
						err = fmt.Errorf("%v", r)
					}
					return err
				})
				p, err := from.Pod.StartPing(to.PodAddr(f), lab.PingOptions{Rate: 100})
				c.must(err)
				pingers = append(pingers, p)
			}
		}
	}
	return func() {
		c.t.Helper()
		sent := 0
		for _, p := range pingers {
			r := p.Stop()
			if sent += r.Sent; r.Lost > 0 {
				c.t.Errorf("%v: want none lost", r)
			}
		}
		c.t.Logf("%d pings", sent)
	}
}

// changes records what becomes of rules and routes on a node until it is called,
// and then returns the lines that a filter picks.
func (c *cluster) changes(n *lab.Node, filter func(line string) bool) func() []string {
	c.t.Helper()
	p, err := n.Start(lab.Command{
		Path: need.Program(c.t, "ip"), Args: []string{"-N", "monitor", "route", "rule"}, Name: fmt.Sprintf("monitor-%d", time.Now().UnixNano()),
	})
	c.must(err)
	time.Sleep(200 * time.Millisecond) // until it listens
	return func() []string {
		c.t.Helper()
		text, err := os.ReadFile(p.Log)
		c.must(err)
		var lines []string
		for line := range strings.Lines(string(text)) {
			if filter(line) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
}

// ours picks what is of netclassd's protocol.
func ours(line string) bool { return strings.Contains(line, "proto 148") }

// gone picks what BIRD takes out of the table.
func gone(line string) bool {
	return strings.HasPrefix(line, "Deleted") && strings.Contains(line, "table 47")
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
