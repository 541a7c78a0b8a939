package interop

import (
	"testing"
	"time"

	"netclass.dev/routing"
)

// Two speakers see each other's pod CIDRs over their own family's session.
func TestMesh(t *testing.T) {
	l := newLAN(t)
	a, b := l.host(1), l.host(2)
	sa, sb := a.speaker(), b.speaker()
	set(t, sa, a.speak(b))
	set(t, sb, b.speak(a))
	t.Logf("established after %s", eventually(t, 10*time.Second, up(sa, 2)))
	for _, f := range routing.Families {
		eventually(t, time.Second, hasPaths(sa, routing.SessionKey{Peer: "host2", Family: f},
			routing.Path{Prefix: b.cidr(f), NextHop: b.addr(f)}))
		eventually(t, time.Second, hasPaths(sb, routing.SessionKey{Peer: "host1", Family: f},
			routing.Path{Prefix: a.cidr(f), NextHop: a.addr(f)}))
	}
	for _, x := range sa.Sessions() {
		if x.PeerRestartTime != 10*time.Second {
			t.Errorf("%s: peer's restart time is %s", x.Key, x.PeerRestartTime)
		}
	}
	time.Sleep(7 * time.Second)
	t.Logf("speaker's PSS with 2 sessions: %d KiB", pss(t, sa.Status().PID))
}
