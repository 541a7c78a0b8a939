package speaker

import (
	"testing"
	"time"

	"netclass.dev/routing"
)

// What the process says of the beginning of a session is dated once, and then
// stays, also when the wall clock has been set between the two.
func TestSince(t *testing.T) {
	t.Parallel()
	key := routing.SessionKey{Peer: "k8s-2", Family: routing.IPv4}
	s := newSessions()
	s.want([]routing.Neighbor{{Key: key}})
	for _, ago := range []time.Duration{time.Second, 20000 * 24 * time.Hour, -time.Hour} {
		told := time.Now().Round(0).Add(-ago)
		s.report(&routing.Session{Key: key, State: routing.Established, Since: told})
		first := s.list()[0].Since
		if lasts := time.Since(first); lasts < 0 || lasts > time.Minute {
			t.Errorf("told %v ago: it seems to last %v", ago, lasts)
		}
		if ago == time.Second && !first.Equal(told) {
			t.Errorf("since %v, told %v", first, told)
		}
		time.Sleep(time.Millisecond)
		s.report(&routing.Session{Key: key, State: routing.Established, Since: told, EndOfRIB: true})
		if again := s.list()[0].Since; again != first {
			t.Errorf("told %v ago: first %v, then %v", ago, first, again)
		}
	}
	s.want(nil)
	if len(s.told) > 0 {
		t.Errorf("remembered of sessions that are not wanted: %v", s.told)
	}
}
