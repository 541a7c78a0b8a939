package sim_test

import (
	"flag"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"netclass.dev/test/sim"
)

var (
	seed      = flag.Uint64("sim.seed", 0, "play the history of this seed only")
	histories = flag.Int("sim.histories", 1000, "how many histories to play; 0: until -sim.time or the test's timeout")
	first     = flag.Uint64("sim.first", 1, "the first seed")
	limit     = flag.Duration("sim.time", 0, "play no longer than this")
	trace     = flag.Bool("sim.trace", false, "show every change to the kernel in the history")
)

func example(t *testing.T, name string) string {
	text, err := os.ReadFile("../../examples/seed/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func report(t *testing.T, out sim.Outcome) {
	t.Helper()
	if len(out.Violations) > 0 {
		t.Errorf("seed %d breaks an invariant:\n\t%s\nreplay with: go test ./test/sim -run TestHistories -sim.seed=%d -sim.trace\n",
			out.Seed, strings.Join(out.History, "\n\t"), out.Seed)
	}
}

// TestHistories plays random histories and checks the invariants at every step.
func TestHistories(t *testing.T) {
	text, older := example(t, "config.yaml"), example(t, "config-two-tables.yaml")
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // pictures of the kernel, many and short-lived
	if *seed != 0 {
		out := sim.Run(t, *seed, sim.Options{Example: text, Older: older, Dir: t.TempDir(), Trace: *trace})
		report(t, out)
		t.Logf("%s", strings.Join(out.History, "\n\t"))
		return
	}
	var next, played, events, ops atomic.Int64
	var failed atomic.Bool
	begin := time.Now()
	over := func() bool {
		if failed.Load() || *limit > 0 && time.Since(begin) > *limit {
			return true
		}
		deadline, is := t.Deadline()
		return is && time.Until(deadline) < 10*time.Second
	}
	t.Run("all", func(t *testing.T) {
		for range 2 {
			t.Run("player", func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				for !over() {
					n := next.Add(1) - 1
					if *histories > 0 && n >= int64(*histories) {
						return
					}
					out := sim.Run(t, *first+uint64(n), sim.Options{Example: text, Older: older, Dir: dir, Trace: *trace})
					played.Add(1)
					events.Add(int64(out.Events))
					ops.Add(int64(out.Ops))
					if len(out.Violations) > 0 {
						failed.Store(true)
						report(t, out)
					}
				}
			})
		}
	})
	t.Logf("%d histories, %d events, %d changes to the kernel checked one by one, in %s",
		played.Load(), events.Load(), ops.Load(), time.Since(begin).Round(time.Second))
}
