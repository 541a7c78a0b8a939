package engine

import (
	"net/netip"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestFightCost: a network manager that undoes sixteen times the routes costs no 256
// times the work.
func TestFightCost(t *testing.T) {
	cost := func(n int) time.Duration {
		k, ops := &routing.Kernel{}, make([]routing.Op, n)
		for i := range ops {
			r := routing.Route{
				Table: 47, Dst: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)}), 32),
				Metric: routing.MetricPath, Via: netip.AddrFrom4([4]byte{10, 48, byte(i >> 8), byte(i)}), Link: "pod0", Protocol: routing.ProtocolNetclass,
			}
			ops[i] = routing.Op{Stage: routing.StagePeers, Verb: routing.Add, Route: r}
			instead := r
			instead.Metric = routing.MetricFallback
			k.Routes = append(k.Routes, r, instead)
		}
		best := time.Hour
		for range 5 {
			fs, now := make(fights), time.Now()
			start := time.Now()
			for range fightAfter {
				fs.notice(now, ops, k, "networkd")
				now = now.Add(time.Millisecond)
			}
			if kept := fs.limit(now.Add(fightPause), ops, &routing.Plan{}, k); len(kept) != n {
				t.Fatalf("%d of %d put back after the pause", len(kept), n)
			}
			if kept := fs.limit(now.Add(fightPause+time.Second), ops, &routing.Plan{}, k); len(kept) > 0 {
				t.Fatalf("%d of %d put back at once", len(kept), n)
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	few, many := cost(250), cost(4000)
	t.Logf("250: %v, 4000: %v", few, many)
	if many > 80*few {
		t.Errorf("250 take %v, 4000 take %v", few, many)
	}
}
