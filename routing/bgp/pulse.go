package bgp

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// A peer whose link is cut without a sign is only noticed when the hold timer
// runs out, after seconds in which its packets are lost. Kernels notice sooner:
// ours asks the peer's when a connection has been idle for a second (TCP
// keepalive, RFC 9293 §3.8.4), which is answered whatever the peer's BGP daemon
// is and does. Data that is under way is acknowledged as soon.
const (
	pulseIdle = time.Second
	// pulseLimit is more silence than a living peer's kernel can leave: the
	// idle second, 64 ms by which a timer of a second may be late, and time to
	// answer.
	pulseLimit = 1300 * time.Millisecond
	// pulseAgain is how often a peer in doubt is looked at.
	pulseAgain = 250 * time.Millisecond
	// pulseGrain is the grid of looks, so that a thousand sessions do not wake
	// us a thousand times.
	pulseGrain = 100 * time.Millisecond
	// pulseCount is the most probes that the kernel takes before it gives a
	// connection up (MAX_TCP_KEEPCNT): that is the hold timer's business.
	pulseCount = 127
)

// lines holds the connections with each neighbour, by its address. GoBGP closes
// them.
type lines struct {
	mu sync.Mutex
	of map[netip.Addr][]*net.TCPConn
}

// add takes up a new connection, before GoBGP does. Members of the mesh are to
// be noticed when they fall silent.
func (l *lines) add(n *routing.Neighbor, conn *net.TCPConn) {
	if !n.Upstream {
		err := conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: pulseIdle, Interval: pulseIdle, Count: pulseCount})
		if err != nil {
			return // closed by now
		}
	}
	l.each(n.Remote, func(c *net.TCPConn) bool { return tcpInfo(c) != nil })
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = make(map[netip.Addr][]*net.TCPConn)
	}
	l.of[n.Remote] = append(l.of[n.Remote], conn)
}

// each calls look for each of a neighbour's connections, and forgets those for
// which it returns false.
func (l *lines) each(remote netip.Addr, look func(*net.TCPConn) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := slices.DeleteFunc(l.of[remote], func(c *net.TCPConn) bool { return !look(c) })
	if len(open) == 0 {
		delete(l.of, remote)
	} else {
		l.of[remote] = open
	}
}

// silence returns for how long the peer's kernel has said nothing at all, also
// no acknowledgement; false when there is no connection.
func (l *lines) silence(remote netip.Addr) (least time.Duration, ok bool) {
	l.each(remote, func(c *net.TCPConn) bool {
		info := tcpInfo(c)
		if info == nil {
			return false
		}
		d := time.Duration(min(info.Last_ack_recv, info.Last_data_recv)) * time.Millisecond
		if !ok || d < least {
			least, ok = d, true
		}
		return true
	})
	return least, ok
}

// tcpInfo asks the kernel about a connection; nil when we have closed it.
func tcpInfo(c *net.TCPConn) (info *unix.TCPInfo) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	if raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }) != nil || err != nil {
		return nil
	}
	return info
}

// feel notes whether the peer of an established session is in doubt, and returns
// when to look again. Until then no silence can be too long that is not now.
func (s *speaker) feel(p *session, now time.Time) time.Time {
	silence, ok := s.lines.silence(p.neighbor.Remote)
	doubt := ok && silence >= pulseLimit
	if doubt != p.Doubt {
		p.Doubt, p.report = doubt, true
	}
	again := pulseAgain
	if !doubt {
		again = pulseLimit - silence
	}
	grains := (now.Add(again).Sub(s.begun) + pulseGrain - 1) / pulseGrain
	return s.begun.Add(grains * pulseGrain)
}
