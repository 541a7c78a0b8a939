package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

const (
	pingRate = 500             // per second, on each path and family
	settle   = 4 * time.Second // after a fault whose daemon comes back
	away     = 12 * time.Second
)

// fault is one thing that goes wrong, and how long we then watch.
type fault struct {
	what  string
	do    func() error
	watch time.Duration
}

// faults lets one thing after another go wrong while pods ping each other.
func (s *story) faults(ctx context.Context, sys system) (result, error) {
	one, two, three := s.lab.Node(1), s.lab.Node(2), s.lab.Node(3)
	s.heading("Faults, under %d pings a second on each path", pingRate)
	s.para("Paths: the pods of k8s-1 to k8s-2, k8s-1 to k8s-3 and k8s-2 to k8s-1, IPv4 and IPv6. " +
		"The router drops what it should not have seen, so a packet that goes astray is also a lost ping.")
	list := []fault{
		{sys.daemon() + " on k8s-1 restarted (SIGTERM)", func() error { return sys.restart(one) }, settle},
		{sys.daemon() + " on k8s-2 killed (SIGKILL)", func() error { return sys.kill(two) }, settle},
		{"BGP speaker of k8s-1 killed (SIGKILL)", func() error { return sys.killSpeaker(one) }, settle},
		{sys.daemon() + " on k8s-3 stopped for good", func() error { return sys.stop(three) }, away},
	}
	pingers, stop, err := s.startPings([][2]*lab.Node{{one, two}, {one, three}, {two, one}})
	if err != nil {
		return result{}, err
	}
	defer stop()
	if err := sleep(ctx, time.Second); err != nil {
		return result{}, err
	}
	before, err := s.lab.Router.Counts()
	if err != nil {
		return result{}, err
	}
	r := result{system: sys.name(), faults: len(list)}
	var times []time.Time
	var router []uint64
	last := before.Total()
	for _, f := range list {
		times = append(times, time.Now())
		if err := f.do(); err != nil {
			return r, err
		}
		if err := sleep(ctx, f.watch-time.Since(times[len(times)-1])); err != nil {
			return r, err
		}
		c, err := s.lab.Router.Counts()
		if err != nil {
			return r, err
		}
		router = append(router, c.Total()-last)
		last = c.Total()
	}
	times = append(times, time.Now())
	stop()

	rows := [][]string{{"FAULT", "PINGS", "LOST", "AT ROUTER"}}
	for i, f := range list {
		var sent, lost int
		for _, p := range pingers {
			a, b := p.Between(times[i], times[i+1])
			sent, lost = sent+a, lost+b
		}
		rows = append(rows, []string{f.what, number(uint64(sent)), number(uint64(lost)), number(router[i])})
		r.sent, r.lost, r.atRouter = r.sent+sent, r.lost+lost, r.atRouter+router[i]
	}
	s.table(rows)
	if err := s.afterwards(sys, one, two, three); err != nil {
		return r, err
	}
	if r.atRouter > 0 {
		r.offenders, err = s.lab.Router.Offenders()
	}
	return r, err
}

// afterwards shows by which link k8s-1 now reaches each peer's pods.
func (s *story) afterwards(sys system, one, two, three *lab.Node) error {
	for _, c := range []struct {
		peer *lab.Node
		link string
	}{{two, lab.PodNet}, {three, lab.NodeNet}} {
		hop, err := one.FromPod(c.peer.PodAddr(routing.IPv4))
		if err != nil {
			return err
		}
		s.fact("k8s-1 now reaches the pods of %s by %s.", c.peer.Name, hop)
		if _, ours := sys.(*netclass); ours {
			if err := one.PodPaths(c.link, c.peer); err != nil {
				s.breach("%v", err)
			}
		}
	}
	return nil
}

// startPings starts pinging between pods in both families.
func (s *story) startPings(paths [][2]*lab.Node) (_ []*lab.Pinger, stop func(), err error) {
	var pingers []*lab.Pinger
	stop = func() {
		var all sync.WaitGroup
		for _, p := range pingers {
			all.Go(func() { p.Stop() })
		}
		all.Wait()
	}
	for _, path := range paths {
		for _, f := range routing.Families {
			to := path[1].PodAddr(f)
			if r, err := path[0].Pod.Ping(to, 1); err != nil || r.Lost > 0 {
				stop()
				return nil, nil, fmt.Errorf("before the faults: %v %w", r, err)
			}
			p, err := path[0].Pod.StartPing(to, lab.PingOptions{Rate: pingRate})
			if err != nil {
				stop()
				return nil, nil, err
			}
			pingers = append(pingers, p)
		}
	}
	return pingers, stop, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
