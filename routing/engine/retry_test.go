package engine

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestDueDuringAPass: what has become due while a pass was at it is not left until
// something else happens.
func TestDueDuringAPass(t *testing.T) {
	t.Parallel()
	now := time.Now()
	begun, since := now.Add(-time.Second), now.Add(-500*time.Millisecond)
	router := routing.Neighbor{Key: routing.SessionKey{Peer: "udm", Family: routing.IPv4}, Upstream: true}
	for name, prepare := range map[string]func(*Engine){
		"nothing":                        func(*Engine) {},
		"a CIDR that main does not know": func(e *Engine) { e.unrouted = map[netip.Prefix]time.Time{{}: since.Add(-comesIn)} },
		"a router that is away": func(e *Engine) {
			e.sessions.of[router.Key] = &session{neighbor: router, synced: true, downAt: since.Add(-comesUp)}
		},
		"a path that waits":   func(e *Engine) { e.arrivals[nextHop{}] = &arrival{since: since.Add(-answerTime)} },
		"a fight that pauses": func(e *Engine) { e.fights[object{}] = &fight{lost: fought(begun), healed: since.Add(-fightPause)} },
	} {
		e := New(Options{Speaker: mute{}, Log: slog.New(slog.DiscardHandler)})
		e.dumpedAt, e.inventory, e.draining = now, &routing.Inventory{Synced: true}, &drain{}
		e.stats.At = begun
		prepare(e)
		wait := e.retry(&routing.Config{Daemon: routing.Daemon{Resync: time.Hour}})
		if soon := wait <= settle; soon != (name != "nothing") {
			t.Errorf("%s: the next pass is in %v", name, wait)
		}
	}
}

func fought(at time.Time) (lost []time.Time) {
	for range fightAfter {
		lost = append(lost, at)
	}
	return lost
}
