package bgp

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/netns"
)

// TestSilence: the kernel of an idle peer is heard often enough never to be in
// doubt, and soon not at all when its link is cut.
func TestSilence(t *testing.T) {
	t.Parallel()
	here, there := netns.New(t), netns.New(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(here.Veth("pod0", there, "pod0"))
	for ns, addr := range map[*netns.NS]string{here: "10.48.0.1/24", there: "10.48.0.2/24"} {
		must(ns.Addr("pod0", addr))
		must(ns.Up("pod0"))
	}
	remote := netip.MustParseAddr("10.48.0.2")
	var listener *net.TCPListener
	must(there.Do(func() (err error) {
		listener, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: remote.AsSlice()})
		return err
	}))
	defer listener.Close()
	var conn *net.TCPConn
	must(here.Do(func() (err error) {
		conn, err = net.DialTCP("tcp4", nil, listener.Addr().(*net.TCPAddr))
		return err
	}))
	defer conn.Close()

	var l lines
	if _, ok := l.silence(remote); ok {
		t.Error("silence without a connection")
	}
	l.add(&routing.Neighbor{Remote: remote}, conn)
	for begin := time.Now(); time.Since(begin) < 3*time.Second; time.Sleep(20 * time.Millisecond) {
		if d, ok := l.silence(remote); !ok || d >= pulseLimit {
			t.Fatalf("an idle peer has been silent for %v (%v)", d, ok)
		}
	}
	must(there.Down("pod0"))
	begin := time.Now()
	for d := time.Duration(0); d < pulseLimit; time.Sleep(20 * time.Millisecond) {
		if d, _ = l.silence(remote); time.Since(begin) > pulseLimit+500*time.Millisecond {
			t.Fatalf("silent for only %v after %v", d, time.Since(begin))
		}
	}
	t.Logf("in doubt %v after the cut", time.Since(begin).Round(time.Millisecond))
	must(conn.Close())
	if _, ok := l.silence(remote); ok || len(l.of) > 0 {
		t.Errorf("closed, and still there: %v", l.of)
	}
}
