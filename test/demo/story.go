package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// Limits of patience, well above what is needed on a slow machine.
const (
	convergence = 30 * time.Second
	fallback    = 20 * time.Second
)

// story tells what happens, step by step, and notes every broken promise.
type story struct {
	out        io.Writer
	faultsOnly bool
	step       int
	lab        *lab.Lab
	broken     []string
	unplugged  int // pings lost until a peer's unplugged link was noticed
}

// result is what the faults did to one system.
type result struct {
	system    string
	faults    int
	sent      int
	lost      int
	atRouter  uint64
	offenders []string
}

// tell runs a lab from start to end.
func (s *story) tell(ctx context.Context, sys system) (_ result, err error) {
	s.heading("The cluster, %s", sys.name())
	s.para("Three nodes, each with a pod; a switch with a VLAN for each class; an upstream router and the world behind it. " +
		"All of them are network namespaces on this machine.")
	s.lines(
		"  mgmt0     VLAN 40   world and node   10.40.0.N   to the router",
		"  node0     VLAN 46   node and node    10.46.0.N",
		"  ingress0  VLAN 47   world and pod    10.47.0.N   to the router",
		"  pod0      VLAN 48   pod and pod      10.48.0.N",
	)
	start := time.Now()
	l, err := lab.New(ctx, lab.Options{})
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	s.lab = l
	s.fact("Cluster made in %s.", seconds(time.Since(start)))
	if !s.faultsOnly {
		// The nodes announce their load balancers' addresses to the router.
		if _, err := l.Router.StartBGP(); errors.Is(err, exec.ErrNotFound) {
			s.fact("BIRD is not installed, so the router speaks no BGP: its sessions stay Active.")
		} else if err != nil {
			return result{}, err
		}
	}
	for _, n := range l.Nodes {
		if err := sys.start(ctx, n); err != nil {
			return result{}, err
		}
	}
	if err := s.converge(ctx, sys); err != nil {
		return result{}, err
	}
	if s.faultsOnly {
		return s.faults(ctx, sys)
	}
	if err := s.classes(ctx); err != nil {
		return result{}, err
	}
	if err := s.losePeerLink(ctx); err != nil {
		return result{}, err
	}
	s.heading("What netclassctl says on %s", l.Node(1).Name)
	if nc, ok := sys.(*netclass); ok {
		if err := s.showCtl(ctx, nc.daemons[l.Node(1)]); err != nil {
			return result{}, err
		}
	}
	return s.faults(ctx, sys)
}

// converge waits until every node separates all classes.
func (s *story) converge(ctx context.Context, sys system) error {
	wait, cancel := context.WithTimeout(ctx, convergence)
	defer cancel()
	took, err := s.lab.WaitSeparated(wait)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s does not separate the classes: %w%s", sys.daemon(), err, s.logs())
	}
	s.fact("%s on every node; the classes are apart after %s.", sys.daemon(), seconds(took))
	return nil
}

// flow is one class's traffic, from node 1's side.
type flow struct {
	class    string
	from, to string
	host     *lab.Host
	dst      routing.PerFamily[addr]
	zones    [2]lab.Zone
	link     string // that it must leave by
}

// pings of each family for each class.
const classPings = 20

// classes shows by which link each class's packets leave node 1.
func (s *story) classes(ctx context.Context) error {
	s.heading("Which link does each class leave by?")
	s.para("From k8s-1, %d pings of each family for each class, counted by the kernel on each link as they leave.", classPings)
	rows, err := s.count(ctx, s.flows())
	if err != nil {
		return err
	}
	s.table(rows)
	return s.router(0)
}

func (s *story) flows() []flow {
	one, two := s.lab.Node(1), s.lab.Node(2)
	return []flow{
		{"pod-pod", "pod on k8s-1", "pod on k8s-2", one.Pod, podAddrs(two), [2]lab.Zone{lab.ZonePod, lab.ZonePod}, lab.PodNet},
		{"world-pod", "pod on k8s-1", "world", one.Pod, lab.WorldAddr, [2]lab.Zone{lab.ZonePod, lab.ZoneWorld}, lab.Ingress},
		{"node-node", "k8s-1", "k8s-2", one.Host, nodeAddrs(two), [2]lab.Zone{lab.ZoneNode, lab.ZoneNode}, lab.NodeNet},
		{"world-node", "k8s-1", "world", one.Host, lab.WorldAddr, [2]lab.Zone{lab.ZoneNode, lab.ZoneWorld}, lab.Mgmt},
	}
}

// count pings along each flow and gives a table of the links they left by.
func (s *story) count(ctx context.Context, flows []flow) ([][]string, error) {
	rows := [][]string{append([]string{"CLASS", "FROM", "TO"}, lab.ClassLinks[:]...)}
	for _, f := range flows {
		before, err := s.lab.Node(1).Counts()
		if err != nil {
			return nil, err
		}
		for _, fam := range routing.Families {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			r, err := f.host.Ping(f.dst.Of(fam), classPings)
			if err != nil {
				return nil, err
			}
			if r.Lost > 0 {
				s.breach("%s: %v", f.class, r)
			}
		}
		after, err := s.lab.Node(1).Counts()
		if err != nil {
			return nil, err
		}
		got := after.Since(before)
		row := []string{f.class, f.from, f.to}
		for _, link := range lab.ClassLinks {
			n := got.Out(link, f.zones[0], f.zones[1])
			row = append(row, number(n))
			var want uint64
			if link == f.link {
				want = 2 * classPings
			}
			if n != want {
				s.breach("%s: %d packets left by %s, not %d", f.class, n, link, want)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// losePeerLink takes pod0 from a peer and gives it back.
func (s *story) losePeerLink(ctx context.Context) error {
	one, two := s.lab.Node(1), s.lab.Node(2)
	s.heading("A peer loses its pod0")
	s.para("pod0 of k8s-2 goes down, under %d pings a second. k8s-1 still has carrier: it can only notice that k8s-2 no longer answers there. "+
		"From then on the two share the node network: unseparated, never misrouted.", pingRate)
	pingers, stop, err := s.startPings([][2]*lab.Node{{one, two}})
	if err != nil {
		return err
	}
	defer stop()
	if err := two.LinkDown(lab.PodNet); err != nil {
		return err
	}
	took, err := waitFor(ctx, fallback, func() error { return one.PodPaths(lab.NodeNet, two) })
	if err != nil {
		return err
	}
	if err := sleep(ctx, time.Second); err != nil {
		return err
	}
	stop()
	lost := 0
	for _, p := range pingers {
		lost += p.Report().Lost
	}
	s.unplugged = lost
	s.fact("Noticed after %s, in which %s pings were lost. Now it is node0:", seconds(took), number(uint64(lost)))
	flows := s.flows()[:1]
	flows[0].link = lab.NodeNet
	rows, err := s.count(ctx, flows)
	if err != nil {
		return err
	}
	s.table(rows)
	if err := two.LinkUp(lab.PodNet); err != nil {
		return err
	}
	took, err = waitFor(ctx, convergence, func() error { return s.lab.Separated(s.lab.Nodes...) })
	if err != nil {
		return err
	}
	s.fact("pod0 of k8s-2 is back; apart again after %s.", seconds(took))
	return s.router(0)
}

// router tells what the router has seen since the lab was made.
func (s *story) router(allowed uint64) error {
	c, err := s.lab.Router.Counts()
	if err != nil {
		return err
	}
	s.fact("Cluster packets that the router has seen so far: %s.", number(c.Total()))
	if c.Total() > allowed {
		s.breach("the router saw %d cluster packets", c.Total())
	}
	return nil
}

// showCtl shows what an operator sees.
func (s *story) showCtl(ctx context.Context, d *lab.Netclassd) error {
	for _, args := range [][]string{{"status"}, {"classes"}, {"table", "pods"}, {"peers"}} {
		out, err := d.Ctl(ctx, args...)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.transcript(args, out)
		if err != nil {
			s.breach("netclassctl: %v", err)
		}
	}
	return nil
}

// waitFor waits for a condition and returns how long it took.
func waitFor(ctx context.Context, limit time.Duration, check func() error) (time.Duration, error) {
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	err := lab.Eventually(wait, check)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return time.Since(start), err
}
