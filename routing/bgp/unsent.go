package bgp

import (
	"net"
	"net/netip"
	"time"
	"unsafe"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
	"github.com/osrg/gobgp/v3/pkg/server"
	"golang.org/x/sys/unix"

	speakerv1 "netclass.dev/proto/netclass/speaker/v1"
	"netclass.dev/routing"
)

// What an order had us say has left once the peer's kernel has acknowledged it.
// On its way it waits in three places: in a queue of GoBGP's, in the hands of the
// goroutine that takes it from there and writes it, and in the kernel's send
// queue. The second cannot be looked into. So a message of nothing is put into
// the queue behind what was said: once that has been taken, all before it has
// been written.

const (
	// unsentAgain is how often it is looked at first; unsentRest how often when
	// the peer reads nothing for long.
	unsentAgain = 50 * time.Millisecond
	unsentRest  = 500 * time.Millisecond
)

// unsent is what of a session may not have left yet.
type unsent struct {
	since  time.Time // of the newest thing said; zero: all has left
	marked bool      // the message of nothing is behind it
}

// said notes that something has been said in the sessions with the targets, as
// setKey names them.
func (s *speaker) said(targets map[string]bool) {
	now := time.Now()
	for _, p := range s.sessions {
		if p.State == routing.Established && targets[targetOf(&p.neighbor)] {
			p.unsent, s.unsentAt = unsent{since: now}, now
		}
	}
}

// watchUnsent looks at what may not have left, when that is due, and tells the
// daemon what has changed.
func (s *speaker) watchUnsent(now time.Time) error {
	if s.unsentAt.IsZero() || now.Before(s.unsentAt) {
		return nil
	}
	s.unsentAt = time.Time{}
	var open []*session
	for _, p := range s.sessions {
		if !p.unsent.since.IsZero() && p.State == routing.Established {
			open = append(open, p)
		}
	}
	changed := false
	_ = onServing(s.bgp, func() error {
		for _, p := range open {
			count := s.countUnsent(p)
			changed = changed || count != p.Unsent
			p.Unsent = count
		}
		return nil
	}, false)
	for _, p := range open {
		if p.Unsent == 0 {
			p.unsent = unsent{}
			continue
		}
		again := now.Add(min(max(unsentAgain, now.Sub(p.unsent.since)/16), unsentRest))
		if s.unsentAt.IsZero() || again.Before(s.unsentAt) {
			s.unsentAt = again
		}
	}
	if !changed {
		return nil
	}
	var list []routing.Session
	for _, p := range s.sessions {
		list = append(list, routing.Session{Key: p.Key, Unsent: p.Unsent})
	}
	return s.tell(&speakerv1.Report{Report: &speakerv1.Report_Unsent{Unsent: speakerv1.FromUnsent(list)}})
}

// countUnsent is called on GoBGP's serving goroutine, which alone replaces and
// closes the queue.
func (s *speaker) countUnsent(p *session) uint32 {
	if !p.endAt.IsZero() {
		return 1 // until then the peer keeps what it had: see restartPause
	}
	peer, queue := outgoing(s.bgp, p.addr)
	if queue == nil {
		return 1 // it cannot be told
	}
	if !p.unsent.marked {
		send(peer, nil, nil, false)
		p.unsent.marked = true
	}
	return uint32(queue.Len()) + s.lines.unacknowledged(p.neighbor.Remote)
}

// unacknowledged returns how many bytes of those written to the neighbour its
// kernel has not acknowledged. Where no connection is to be seen, that cannot be
// told: one.
func (l *lines) unacknowledged(remote netip.Addr) (bytes uint32) {
	seen := false
	l.each(remote, func(c *net.TCPConn) bool {
		n, ok := sendQueue(c)
		bytes, seen = bytes+n, seen || ok
		return ok
	})
	if !seen {
		return 1
	}
	return bytes
}

// sendQueue asks the kernel for a connection's bytes that are not acknowledged;
// false when we have closed it.
func sendQueue(c *net.TCPConn) (n uint32, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	if raw.Control(func(fd uintptr) { n, err = unix.IoctlGetUint32(int(fd), unix.SIOCOUTQ) }) != nil || err != nil {
		return 0, false
	}
	return n, true
}

// onServing carries out f on GoBGP's serving goroutine, as GoBGP's own calls are.
//
//go:linkname onServing github.com/osrg/gobgp/v3/pkg/server.(*BgpServer).mgmtOperation
func onServing(s *server.BgpServer, f func() error, checkActive bool) error

// send puts a message into a neighbour's queue. Without paths and a NOTIFICATION
// nothing is written for it.
//
//go:linkname send github.com/osrg/gobgp/v3/pkg/server.sendfsmOutgoingMsg
func send(peer unsafe.Pointer, paths []unsafe.Pointer, notification *bgp.BGPMessage, stayIdle bool)
