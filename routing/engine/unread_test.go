package engine_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestGuardOutlivesUnreadableLedger: which networks a link had that is down is known
// from the ledger alone; where that cannot be read the guard and the fence that an
// earlier run has put in say it.
func TestGuardOutlivesUnreadableLedger(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		stops := func(metric uint32) bool {
			return r.kernel.has(func(rt routing.Route) bool { return rt.Dst == routePrefix("fd00:48::/64") && rt.Metric == metric })
		}
		for _, text := range []string{"{", `{"version": 99}`} {
			r.end()
			r.kernel.SetUp("pod0", false) // its IPv6 addresses go
			if err := os.WriteFile(filepath.Join(r.stateDir, "ledger.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 { // also the start after that
				r.make()
				r.start(seedConfig(t))
				r.wait(20 * time.Second)
				if !stops(routing.MetricGuard) || !stops(routing.MetricFence) {
					t.Errorf("ledger %q: guard %v, fence %v", text, stops(routing.MetricGuard), stops(routing.MetricFence))
				}
				r.end()
			}
			r.kernel.SetUp("pod0", true)
			r.kernel.addAddrs("pod0")
			r.make()
			r.start(seedConfig(t))
		}
	})
}
