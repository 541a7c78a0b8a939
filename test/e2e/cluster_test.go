// Package e2e runs the real netclassd in the lab's cluster, on the seed's
// configuration, and lets things happen to it.
package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

const (
	convergence = 30 * time.Second // patience with a busy machine, not a promise
	repair      = time.Second      // a promise: how soon the right state is back
	restartTime = 10 * time.Second // the seed's, for mesh sessions
)

// cluster is a lab with a netclassd on each node.
type cluster struct {
	*lab.Lab
	t       *testing.T
	daemons []*lab.Netclassd
}

// start makes a cluster and waits until its classes are apart.
func start(t *testing.T, opts lab.NetclassdOptions) *cluster {
	t.Helper()
	need.Root(t)
	need.Program(t, "nft")
	need.Program(t, lab.Built("netclassd"))
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
	for _, n := range l.Nodes {
		d, err := n.StartNetclassd(opts)
		if err != nil {
			t.Fatal(err)
		}
		c.daemons = append(c.daemons, d)
	}
	c.converge()
	return c
}

func (c *cluster) converge() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), convergence)
	defer cancel()
	took, err := c.WaitSeparated(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Logf("classes apart after %v", took.Round(time.Millisecond))
}

func (c *cluster) logs() {
	for _, d := range c.daemons {
		c.t.Logf("netclassd on %s ends its log:\n%s", d.Node.Name, d.LogTail(40))
	}
}

// within waits for a condition no longer than the limit and returns how long it
// took.
func (c *cluster) within(limit time.Duration, what string, check func() error) time.Duration {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	begin := time.Now()
	if err := lab.Eventually(ctx, check); err != nil {
		c.t.Fatalf("%s: not within %v: %v", what, limit, err)
	}
	return time.Since(begin)
}

// anyNumber of pings may be lost.
const anyNumber = -1

// pings pings between the pods of the given pairs of nodes, in both families,
// until stop is called; it fails the test when more than allowed are lost.
func (c *cluster) pings(pairs ...[2]int) (stop func(allowed int)) {
	c.t.Helper()
	var pingers []*lab.Pinger
	for _, pair := range pairs {
		for _, f := range routing.Families {
			from, to := c.Node(pair[0]).Pod, c.Node(pair[1]).PodAddr(f)
			if r, err := from.Ping(to, 1); err != nil || r.Lost > 0 {
				c.t.Fatalf("before anything happens: %v %v", r, err)
			}
			p, err := from.StartPing(to, lab.PingOptions{Rate: 500})
			if err != nil {
				c.t.Fatal(err)
			}
			pingers = append(pingers, p)
		}
	}
	return func(allowed int) {
		c.t.Helper()
		for _, p := range pingers {
			r := p.Stop()
			c.t.Log(r)
			if allowed != anyNumber && r.Lost > allowed {
				c.t.Errorf("%v: want at most %d", r, allowed)
			}
		}
	}
}

// routerSawNothing is the hard constraint.
func (c *cluster) routerSawNothing() {
	c.t.Helper()
	counts, err := c.Router.Counts()
	if err != nil {
		c.t.Fatal(err)
	}
	if counts.Total() == 0 {
		return
	}
	offenders, err := c.Router.Offenders()
	c.t.Errorf("the router saw %d cluster packets: %s %v", counts.Total(), strings.Join(offenders, " "), err)
}

// monitor records every change of the node's rules and routes that is ours.
type monitor struct {
	*lab.Process
	read int
}

func (c *cluster) monitor(n *lab.Node) *monitor {
	c.t.Helper()
	p, err := n.Start(lab.Command{Path: need.Program(c.t, "ip"), Args: []string{"-N", "monitor", "route", "rule"}, Name: fmt.Sprintf("monitor-%d", time.Now().UnixNano())})
	if err != nil {
		c.t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // until it listens
	return &monitor{Process: p}
}

// changes returns the lines that are new since the last call and of our
// protocol. The kernel tells others, of its own, long after an event.
func (m *monitor) changes() []string {
	b, err := os.ReadFile(m.Log)
	if err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for line := range strings.Lines(string(b[m.read:])) {
		if strings.Contains(line, "proto 148") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	m.read = len(b)
	return lines
}

// must ends the test on an error.
func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// ip runs `ip` on a node.
func (c *cluster) ip(n *lab.Node, args string) string {
	c.t.Helper()
	out, err := n.Exec(c.t.Context(), "ip", strings.Fields(args)...)
	c.must(err)
	return out
}
