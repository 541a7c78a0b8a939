package migrate

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// pingRate is how often a second each pair of pods is pinged in each family.
const pingRate = 1000

// traffic is what goes on while the cluster is changed over: pings and TCP from
// each node's pod to the next node's, and a masqueraded TCP connection from each
// pod to the world, in both families.
type traffic struct {
	*cluster
	pingers []*lab.Pinger
	pods    []*lab.Stream
	world   []*lab.Stream
	phases  []phase
	last    reading
}

// reading is what the counters show.
type reading struct {
	at     time.Time
	router uint64
	nodes  []lab.Counts
}

// phase is a stretch of the way, and what it cost.
type phase struct {
	name     string
	from, to time.Time
	sent     int
	lost     int
	router   uint64 // cluster packets at the router
	shared   uint64 // packets from pod to pod that left by another link than pod0
	stall    time.Duration
	broken   int // connections to the world that did not survive it
}

func (c *cluster) traffic() *traffic {
	c.t.Helper()
	tr := &traffic{cluster: c}
	for i, n := range c.nodes {
		peer := c.nodes[(i+1)%len(c.nodes)]
		for _, f := range routing.Families {
			if r, err := n.Pod.Ping(peer.PodAddr(f), 1); err != nil || r.Lost > 0 {
				c.t.Fatalf("before anything happens: %v %v", r, err)
			}
			s, err := n.Pod.StartStream(peer.Pod, peer.PodAddr(f))
			c.must(err)
			tr.pods = append(tr.pods, s)
		}
	}
	tr.toWorld()
	for i, s := range tr.world {
		if want := c.nodes[i/len(routing.Families)].Addr(lab.Ingress, routing.FamilyOf(s.Source.Addr())); s.Source.Addr() != want {
			c.t.Fatalf("TCP %s: the world sees %s, not %s: it is not masqueraded by ingress0", s.Name, s.Source, want)
		}
	}
	for i, n := range c.nodes {
		for _, f := range routing.Families {
			p, err := n.Pod.StartPing(c.nodes[(i+1)%len(c.nodes)].PodAddr(f), lab.PingOptions{Rate: pingRate})
			c.must(err)
			tr.pingers = append(tr.pingers, p)
		}
	}
	tr.last = tr.read()
	return tr
}

// toWorld opens the connections to the world, in the place of those that were.
func (tr *traffic) toWorld() {
	tr.t.Helper()
	for _, s := range tr.world {
		_ = s.Stop()
	}
	tr.world = nil
	for _, n := range tr.nodes {
		for _, f := range routing.Families {
			s, err := n.Pod.StartStream(tr.Router.World, lab.WorldAddr.Of(f))
			tr.must(err)
			tr.world = append(tr.world, s)
		}
	}
}

func (tr *traffic) read() reading {
	tr.t.Helper()
	r := reading{at: time.Now()}
	counts, err := tr.Router.Counts()
	tr.must(err)
	r.router = counts.Total()
	for _, n := range tr.nodes {
		counts, err := n.Counts()
		tr.must(err)
		r.nodes = append(r.nodes, counts)
	}
	return r
}

// phase ends a stretch of the way and begins the next.
func (tr *traffic) phase(name string) {
	tr.t.Helper()
	now := tr.read()
	p := phase{name: name, from: tr.last.at, to: now.at, router: now.router - tr.last.router}
	for i := range tr.nodes {
		p.shared += now.nodes[i].Since(tr.last.nodes[i]).Sum(func(f lab.Flow) bool {
			return f.Out && f.From == lab.ZonePod && f.To == lab.ZonePod && f.Link != lab.CNILink && f.Link != lab.PodNet
		})
	}
	for _, s := range tr.pods {
		p.stall = max(p.stall, s.Stall())
	}
	for _, s := range tr.world {
		if s.Err() != nil {
			p.broken++
		}
	}
	tr.phases, tr.last = append(tr.phases, p), now
	if p.broken > 0 {
		tr.toWorld()
	}
}

// stop ends the traffic, and says what each phase cost. All that go from pod to
// pod must have stood and carried everything in order, but for the phases that
// are allowed to cost something.
func (tr *traffic) stop() []phase {
	tr.t.Helper()
	for _, p := range tr.pingers {
		p.Stop()
	}
	for _, s := range tr.pods {
		if err := s.Stop(); err != nil {
			tr.t.Error(err)
		}
	}
	for _, s := range tr.world {
		if err := s.Stop(); err != nil {
			tr.t.Error(err)
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PHASE\tLENGTH\tPINGS\tLOST\tAT ROUTER\tNOT BY POD0\tTCP STALL\tWORLD TCP BROKEN")
	for i := range tr.phases {
		p := &tr.phases[i]
		for _, pinger := range tr.pingers {
			sent, lost := pinger.Between(p.from, p.to)
			p.sent, p.lost = p.sent+sent, p.lost+lost
		}
		fmt.Fprintf(w, "%s\t%.1fs\t%d\t%d\t%d\t%d\t%v\t%d\n", p.name, p.to.Sub(p.from).Seconds(), p.sent, p.lost, p.router, p.shared, p.stall.Round(time.Millisecond), p.broken)
	}
	_ = w.Flush()
	tr.t.Logf("what each phase cost:\n%s", b.String())
	return tr.phases
}

// free fails unless a phase cost nothing: no ping lost, no cluster packet at the
// router, no connection to the world broken.
func (tr *traffic) free(p phase) {
	tr.t.Helper()
	if p.sent == 0 || p.lost > 0 || p.router > 0 || p.broken > 0 {
		tr.t.Errorf("%s: %d of %d pings lost, %d cluster packets at the router, %d connections to the world broken", p.name, p.lost, p.sent, p.router, p.broken)
	}
}
