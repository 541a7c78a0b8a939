package e2e

import (
	"slices"
	"strings"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// pingRate is how often a second each pair of pods is pinged in each family, and
// so how finely a loss shows.
const pingRate = 1000

// traffic is what goes on between pods while things happen: pings and a TCP
// connection for each pair and family.
type traffic struct {
	*cluster
	pingers []*lab.Pinger
	streams []*lab.Stream
	before  []lab.Counts
}

// traffic starts it between the pods of the given pairs of nodes.
func (c *cluster) traffic(pairs ...[2]int) *traffic {
	c.t.Helper()
	tr := &traffic{cluster: c}
	for _, pair := range pairs {
		for _, f := range routing.Families {
			from, to := c.Node(pair[0]).Pod, c.Node(pair[1])
			if r, err := from.Ping(to.PodAddr(f), 1); err != nil || r.Lost > 0 {
				c.t.Fatalf("before anything happens: %v %v", r, err)
			}
			s, err := from.StartStream(to.Pod, to.PodAddr(f))
			c.must(err)
			tr.streams = append(tr.streams, s)
		}
	}
	for _, n := range c.Nodes {
		counts, err := n.Counts()
		c.must(err)
		tr.before = append(tr.before, counts)
	}
	for _, pair := range pairs {
		for _, f := range routing.Families {
			p, err := c.Node(pair[0]).Pod.StartPing(c.Node(pair[1]).PodAddr(f), lab.PingOptions{Rate: pingRate})
			c.must(err)
			tr.pingers = append(tr.pingers, p)
		}
	}
	return tr
}

// stop ends the traffic. It wants all connections to have stood and carried
// everything in order, no more than the allowed number of pings to have been
// lost (anyNumber), and every packet from pod to pod to have left by one of the
// links.
func (tr *traffic) stop(allowed int, links ...string) {
	tr.t.Helper()
	sent, lost := 0, 0
	var gap time.Duration
	for _, p := range tr.pingers {
		r := p.Stop()
		sent, lost, gap = sent+r.Sent, lost+r.Lost, max(gap, r.LongestGap)
		if allowed != anyNumber && r.Lost > allowed {
			tr.t.Errorf("%v: want at most %d", r, allowed)
		}
	}
	var stall time.Duration
	for _, s := range tr.streams {
		stall = max(stall, s.Stall())
		if err := s.Stop(); err != nil {
			tr.t.Error(err)
		}
	}
	for i, n := range tr.Nodes {
		counts, err := n.Counts()
		tr.must(err)
		for flow, packets := range counts.Since(tr.before[i]) {
			if flow.Out && flow.From == lab.ZonePod && flow.To == lab.ZonePod && flow.Link != lab.CNILink && !slices.Contains(links, flow.Link) {
				tr.t.Errorf("%d packets from pod to pod (%s) left %s by %s, want only %s", packets, flow.Family, n.Name, flow.Link, strings.Join(links, " and "))
			}
		}
	}
	tr.routerSawNothing()
	tr.t.Logf("%d pings, %d lost, the longest gap %v; %d TCP connections stood, the longest stall %v",
		sent, lost, gap.Round(time.Millisecond), len(tr.streams), stall.Round(time.Millisecond))
}
