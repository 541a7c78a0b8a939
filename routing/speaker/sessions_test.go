package speaker

import (
	"net/netip"
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

// What has not left is told by itself, and ends with its session.
func TestUnsent(t *testing.T) {
	t.Parallel()
	four, six := routing.SessionKey{Peer: "k8s-2", Family: routing.IPv4}, routing.SessionKey{Peer: "k8s-2", Family: routing.IPv6}
	s := newSessions()
	s.want([]routing.Neighbor{{Key: four}, {Key: six}})
	wants := func(what string, v4, v6 uint32) {
		t.Helper()
		if list := s.list(); list[0].Unsent != v4 || list[1].Unsent != v6 {
			t.Errorf("%s: %+v", what, list)
		}
	}
	up := func() *routing.Session {
		return &routing.Session{Key: four, State: routing.Established, RouterID: netip.MustParseAddr("10.48.0.2")}
	}
	s.report(up())
	wants("just up", 1, 0)
	if !s.unsent(map[routing.SessionKey]uint32{four: 3, six: 1}) || s.unsent(map[routing.SessionKey]uint32{four: 3, six: 1}) {
		t.Error("news once only")
	}
	s.report(up())
	wants("another report", 3, 1)
	if !s.unsent(map[routing.SessionKey]uint32{four: 2}) {
		t.Error("no news")
	}
	wants("less", 2, 0)
	s.report(&routing.Session{Key: four})
	wants("down", 0, 0)
	s.report(up())
	s.unsent(map[routing.SessionKey]uint32{four: 2})
	s.lost(time.Now())
	wants("process lost", 0, 0)
	if id := s.list()[0].RouterID; id.IsValid() {
		t.Errorf("router ID %s of a session that is down", id)
	}
}
