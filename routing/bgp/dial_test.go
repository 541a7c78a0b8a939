package bgp

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestDialPassive: a neighbour that is to dial is waited for, and dialled where it
// never does.
func TestDialPassive(t *testing.T) {
	t.Parallel()
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accept := make(chan *net.TCPConn)
	d := newDialer(&lines{}, func(addr string, err error) { t.Logf("dial %s: %v", addr, err) })
	var shut atomic.Bool
	d.accept, d.isOpen = accept, func(netip.Addr) bool { return !shut.Load() }
	const retry = 200 * time.Millisecond
	n := &routing.Neighbor{Remote: netip.MustParseAddr("127.0.0.1"), Timers: routing.Timers{ConnectRetry: retry}}
	start := func(passive bool) time.Time {
		n.Passive = passive
		d.aim("127.0.0.1", n, uint16(listener.Addr().(*net.TCPAddr).Port), 64512)
		d.state("127.0.0.1", routing.Active)
		return time.Now()
	}
	dialled := func(limit time.Duration) bool {
		select {
		case conn := <-accept:
			conn.Close()
			return true
		case <-time.After(limit):
			return false
		}
	}
	start(false)
	if !dialled(5 * time.Second) {
		t.Error("one that is ours to dial is not dialled")
	}
	begin := start(true)
	if !dialled(5 * time.Second) {
		t.Error("one that never dials is not dialled")
	}
	if waited := time.Since(begin); waited < 2*retry {
		t.Errorf("one that is to dial was waited for only %v", waited)
	}
	start(true)
	d.state("127.0.0.1", routing.OpenSent) // it has called
	if dialled(patience * retry * 3 / 2) {
		t.Error("one that has dialled is dialled too")
	}
	d.state("127.0.0.1", routing.Idle)

	// It could not call here.
	shut.Store(true)
	begin = start(true)
	if !dialled(5*time.Second) || time.Since(begin) >= retry {
		t.Errorf("where nobody can call, it took %v", time.Since(begin))
	}
	d.forget("127.0.0.1")
}
