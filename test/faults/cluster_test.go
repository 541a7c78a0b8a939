// Package faults injects into the real netclassd, in the lab's cluster, what a
// machine, an administrator, another program or a peer can do to it.
package faults

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
	"netclass.dev/routing/kernel"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

const (
	convergence = 30 * time.Second // patience with a busy machine, not a promise
	repair      = 2 * time.Second
)

// cluster is a lab of nodes with a netclassd on each of the first daemons.
type cluster struct {
	*lab.Lab
	t       *testing.T
	daemons []*lab.Netclassd
	one     *lab.Node
	d       *lab.Netclassd // of one
	kernel  *kernel.Kernel // of one, to look at
	api     *client.Client // of d
}

// start makes a cluster in which every class is apart.
func start(t *testing.T, nodes int) *cluster {
	t.Helper()
	c := bare(t, nodes)
	for _, n := range c.Nodes {
		c.run(n)
	}
	c.converge()
	return c
}

// bare makes a cluster on which nothing runs.
func bare(t *testing.T, nodes int) *cluster {
	t.Helper()
	need.Root(t)
	need.Program(t, "nft")
	need.Program(t, lab.Built("netclassd"))
	l, err := lab.New(t.Context(), lab.Options{Nodes: nodes, NoCounters: true})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{Lab: l, t: t, one: l.Node(1)}
	t.Cleanup(func() {
		c.routerSawNothing()
		if t.Failed() {
			for _, d := range c.daemons {
				t.Logf("netclassd on %s ends its log:\n%s", d.Node.Name, d.LogTail(60))
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	c.kernel, err = kernel.Open(kernel.Config{NetNS: c.one.NS().Fd()})
	c.must(err)
	t.Cleanup(func() { _ = c.kernel.Close() })
	return c
}

// run starts netclassd on a node.
func (c *cluster) run(n *lab.Node) *lab.Netclassd {
	c.t.Helper()
	d, err := n.StartNetclassd(lab.NetclassdOptions{})
	c.must(err)
	c.daemons = append(c.daemons, d)
	if n == c.one {
		c.d = d
		c.api, err = client.Dial(d.Socket)
		c.must(err)
		c.t.Cleanup(func() { _ = c.api.Close() })
	}
	return d
}

// converge waits until classes are apart, sessions are up, and there is nothing
// left to do.
func (c *cluster) converge() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), convergence)
	defer cancel()
	if _, err := c.WaitSeparated(ctx); err != nil {
		c.t.Fatal(err)
	}
	c.within(convergence, "every session", func() error {
		s, err := c.status()
		if err != nil {
			return err
		}
		// Nobody speaks BGP at the router.
		if want := uint32(2 * (len(c.Nodes) - 1)); s.SessionsEstablished != want || !s.Pass.Synced {
			return fmt.Errorf("%d of %d sessions, synced %v", s.SessionsEstablished, want, s.Pass.Synced)
		}
		return nil
	})
}

func (c *cluster) status() (*pb.Status, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	return c.api.Status(ctx)
}

// condition waits for a condition of the daemon whose object begins as given and
// whose message has the text.
func (c *cluster) condition(limit time.Duration, object, reason, text string) {
	c.t.Helper()
	c.within(limit, "condition "+object+" "+reason, func() error {
		s, err := c.status()
		if err != nil {
			return err
		}
		for _, x := range s.Conditions {
			if strings.HasPrefix(x.Object, object) && x.Reason == reason && strings.Contains(x.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", s.Conditions)
	})
}

// dump returns the picture of k8s-1's kernel.
func (c *cluster) dump() *routing.Kernel {
	c.t.Helper()
	for range 20 {
		k, err := c.kernel.Dump(c.t.Context())
		if err == nil {
			return k
		}
	}
	c.t.Fatal("the kernel does not hold still to be looked at")
	return nil
}

// ours returns what of k8s-1's kernel is netclass's, and others what is not but
// stands among it.
func (c *cluster) ours() []string {
	c.t.Helper()
	return lines(c.dump(), func(p routing.Protocol) bool { return p == routing.ProtocolNetclass })
}

func lines(k *routing.Kernel, of func(routing.Protocol) bool) (out []string) {
	for _, r := range k.Rules {
		if of(r.Protocol) {
			out = append(out, r.Family.String()+" rule "+r.String())
		}
	}
	for _, r := range k.Routes {
		if of(r.Protocol) {
			out = append(out, r.Wanted().String())
		}
	}
	slices.Sort(out)
	return out
}

// restored waits until what is ours is as it was.
func (c *cluster) restored(limit time.Duration, what string, want []string) time.Duration {
	c.t.Helper()
	return c.within(limit, what, func() error { return differ(want, c.ours()) })
}

// unchanged fails when what is ours is not as it was.
func (c *cluster) unchanged(what string, want []string) {
	c.t.Helper()
	if err := differ(want, c.ours()); err != nil {
		c.broken("%s: %v", what, err)
	}
}

func differ(want, got []string) error {
	var wrong []string
	for _, l := range want {
		if !slices.Contains(got, l) {
			wrong = append(wrong, "missing: "+l)
		}
	}
	for _, l := range got {
		if !slices.Contains(want, l) {
			wrong = append(wrong, "not wanted: "+l)
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong[:min(len(wrong), 6)], "\n"))
	}
	return nil
}

// fenced fails when table 47 has a default without the whole fence of its
// family.
func (c *cluster) fenced(want []string, what string) {
	c.t.Helper()
	got := c.ours()
	for _, f := range routing.Families {
		stands := slices.ContainsFunc(got, func(l string) bool {
			return strings.HasPrefix(l, "default via ") && strings.Contains(l, ":") == (f == routing.IPv6)
		})
		for _, l := range want {
			if stands && strings.HasPrefix(l, "unreachable") && strings.Contains(l, " table 47 ") &&
				strings.Contains(l, ":") == (f == routing.IPv6) && !slices.Contains(got, l) {
				c.broken("%s: the %s default stands without %q", what, f, l)
			}
		}
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

// pings pings between the pods of the first two nodes, both ways and in both
// families, while f does what must not matter to them. What is lost counts.
func (c *cluster) pings(f func()) {
	c.t.Helper()
	var pingers []*lab.Pinger
	for _, pair := range [][2]int{{1, 2}, {2, 1}} {
		for _, family := range routing.Families {
			p, err := c.Node(pair[0]).Pod.StartPing(c.Node(pair[1]).PodAddr(family), lab.PingOptions{Rate: 100})
			c.must(err)
			pingers = append(pingers, p)
		}
	}
	f()
	for _, p := range pingers {
		r := p.Stop()
		score.mu.Lock()
		score.sent += r.Sent
		score.lost += r.Lost
		score.mu.Unlock()
		if r.Lost > 0 {
			c.t.Errorf("packets lost: %v", r)
		}
	}
}

// routerSawNothing is the hard constraint.
func (c *cluster) routerSawNothing() {
	counts, err := c.Router.Counts()
	if err != nil {
		c.t.Error(err)
	}
	if counts.Total() > 0 {
		offenders, err := c.Router.Offenders()
		c.broken("the router saw %d cluster packets: %s %v", counts.Total(), strings.Join(offenders, " "), err)
	}
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// ip runs lines of `ip` on k8s-1.
func (c *cluster) ip(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		_, err := c.one.Exec(c.t.Context(), "ip", strings.Fields(line)...)
		c.must(err)
	}
}

// has reports whether a picture has a route of ours to a destination in table
// 47, with a metric.
func has(k *routing.Kernel, dst netip.Prefix, metric uint32) bool {
	return slices.ContainsFunc(k.Routes, func(r routing.Route) bool {
		return r.Table == 47 && r.Dst == dst && r.Metric == metric && r.Protocol == routing.ProtocolNetclass
	})
}
