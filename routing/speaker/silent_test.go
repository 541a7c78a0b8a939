package speaker

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/need"
)

// A peer that takes the connection and says nothing, as one that has lost power
// since, is given up and dialled again within seconds, and it is said.
func TestSilentPeer(t *testing.T) {
	t.Parallel()
	need.Root(t)
	want := loopback(18197)
	peer := netip.MustParseAddr("127.0.0.87")
	l, err := net.Listen("tcp4", netip.AddrPortFrom(peer, want.Port).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want.Neighbors = []routing.Neighbor{{
		Key: routing.SessionKey{Peer: "silent", Family: routing.IPv4}, Local: want.RouterID, Remote: peer, Link: "lo", PeerASN: 64512,
	}}
	calls := make(chan time.Time, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			calls <- time.Now()
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}()
		}
	}()
	s := started(t, Config{}, want)
	detail := func(text string) bool {
		all := s.Sessions()
		return len(all) == 1 && strings.Contains(all[0].Detail, text)
	}
	first := <-calls
	within(t, 5*time.Second, "that no OPEN has come is said", func() bool { return detail("no OPEN from the peer yet") })
	select {
	case second := <-calls:
		t.Logf("dialled again after %v", second.Sub(first))
	case <-time.After(30 * time.Second):
		t.Fatal("it is not dialled again")
	}
	within(t, 5*time.Second, "it is said again", func() bool { return detail("no OPEN from the peer") })
}
