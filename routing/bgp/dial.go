package bgp

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// dialer connects to neighbours in GoBGP's place, which waits between one and
// two seconds before it first dials anybody: that is how long a cluster would
// stay unseparated after each start. To GoBGP every neighbour is passive; a
// connection made here reaches it as one that was accepted.
type dialer struct {
	accept chan<- *net.TCPConn // GoBGP's, of accepted connections
	lines  *lines
	failed func(addr string, err error)
	// isOpen reports whether connections to a local address can come in.
	isOpen func(local netip.Addr) bool

	mu      sync.Mutex
	callees map[string]*callee // by address
}

// callee is a neighbour to dial: at once, or where it is the one to call, once it
// has not done so for a while.
type callee struct {
	routing.Neighbor
	port uint16
	ttl  int                // of our packets; 0: the system's
	stop context.CancelFunc // ends the attempts under way; nil: there are none

	attempt *attempt  // the one that is on its way, or being handed over
	entered time.Time // when the neighbour's own connection was last let in
	waiting bool      // one of its own waits to be let in
}

// patience is for how many retries a neighbour that is to dial is waited for.
// Others choose the side that dials by rules of their own, and with both sides
// waiting a session would never come up: Calico's mesh has the higher address
// dial, as text compares.
const patience = 3

// waits reports whether the neighbour is waited for before it is dialled. Where
// we cannot listen, because another program has the port, that is of no use.
func (d *dialer) waits(t *callee) bool { return t.Passive && d.isOpen(t.Local) }

// rest returns the time between attempts.
func (t *callee) rest(waits bool) time.Duration {
	retry := t.Timers.ConnectRetry
	if retry <= 0 {
		retry = defaultConnectRetry
	}
	if waits {
		retry *= patience
	}
	// RFC 4271 §10: a quarter of jitter, so that a cluster which starts at once
	// does not dial at once for ever.
	return retry - rand.N(retry/4+1)
}

func newDialer(l *lines, failed func(addr string, err error)) *dialer {
	return &dialer{lines: l, failed: failed, callees: make(map[string]*callee)}
}

// aim makes the neighbour one to dial whenever its session waits for a
// connection.
func (d *dialer) aim(addr string, n *routing.Neighbor, port uint16, asn uint32) {
	d.forget(addr)
	t := &callee{Neighbor: *n, port: port}
	if n.Upstream {
		t.port = upstreamPort
	}
	switch {
	case n.GTSM:
		t.ttl = maxTTL
	case n.PeerASN != asn:
		t.ttl = max(1, int(n.Multihop))
	}
	d.mu.Lock()
	d.callees[addr] = t
	d.mu.Unlock()
}

// retime takes new timers for the attempts to come.
func (d *dialer) retime(addr string, timers routing.Timers) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.callees[addr]; t != nil {
		t.Timers = timers
	}
}

// forget ends all attempts to reach the neighbour.
func (d *dialer) forget(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.callees[addr]; t != nil {
		t.halt()
		delete(d.callees, addr)
	}
}

// state follows the neighbour's session: it is dialled while that is Active.
func (d *dialer) state(addr string, to routing.SessionState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.callees[addr]
	if t == nil {
		return
	}
	t.halt()
	if to == routing.Active {
		var ctx context.Context
		ctx, t.stop = context.WithCancel(context.Background())
		t.entered = time.Time{}
		go d.keepDialing(ctx, addr, t)
	}
}

func (t *callee) halt() {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
}

// keepDialing dials until the session moves on. A connection that GoBGP does not
// take leaves the session where it is: then it is dialled again.
func (d *dialer) keepDialing(ctx context.Context, addr string, t *callee) {
	d.mu.Lock()
	n := *t // its timers may change
	d.mu.Unlock()
	for first := true; ; first = false {
		if waits := d.waits(&n); waits || !first {
			wait := time.NewTimer(n.rest(waits))
			select {
			case <-ctx.Done():
				wait.Stop()
				return
			case <-wait.C:
			}
		}
		a := d.begin(ctx, t)
		if a == nil {
			continue // or ctx is over, as the wait finds
		}
		conn, err := n.dial(a.ctx, cmp.Or(max(n.Timers.ConnectRetry, 0), defaultConnectRetry))
		a.settle(conn)
		switch {
		case err == nil:
			d.lines.add(&n.Neighbor, conn)
			select {
			case d.accept <- conn:
			case <-ctx.Done():
				conn.Close()
			}
		case a.ctx.Err() == nil:
			d.failed(addr, err)
		}
		d.end(t, a)
	}
}

// dial makes one connection, bound to the neighbour's link.
func (t *callee) dial(ctx context.Context, limit time.Duration) (*net.TCPConn, error) {
	network := "tcp4"
	if t.Remote.Is6() {
		network = "tcp6"
	}
	nd := net.Dialer{
		Timeout:   limit,
		KeepAlive: -1, // see lines.add
		Control: func(_, _ string, c syscall.RawConn) error {
			var err error
			if e := c.Control(func(fd uintptr) { err = t.prepare(int(fd)) }); e != nil {
				return e
			}
			return err
		},
	}
	if t.Local.IsValid() {
		nd.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(t.Local, 0))
	}
	conn, err := nd.DialContext(ctx, network, netip.AddrPortFrom(t.Remote, t.port).String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// maxTTL is what GTSM sends and demands (RFC 5082).
const maxTTL = 255

// prepare sets what must hold from the first packet on.
func (t *callee) prepare(fd int) error {
	if t.Link != "" {
		if err := unix.BindToDevice(fd, t.Link); err != nil {
			return fmt.Errorf("bind to %s: %w", t.Link, err)
		}
	}
	if t.Password != "" {
		sig := md5Key(t.Remote)
		sig.Keylen = uint16(copy(sig.Key[:], t.Password))
		if err := unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, sig); err != nil {
			return fmt.Errorf("set MD5 key: %w", err)
		}
	}
	if t.ttl == 0 {
		return nil
	}
	level, ttl, minTTL := unix.IPPROTO_IP, unix.IP_TTL, unix.IP_MINTTL
	if t.Remote.Is6() {
		level, ttl, minTTL = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_MINHOPCOUNT
	}
	if err := unix.SetsockoptInt(fd, level, ttl, t.ttl); err != nil {
		return fmt.Errorf("set TTL: %w", err)
	}
	if !t.GTSM {
		return nil
	}
	if err := unix.SetsockoptInt(fd, level, minTTL, maxTTL); err != nil {
		return fmt.Errorf("set least TTL: %w", err)
	}
	return nil
}

// md5Key is an empty key for a neighbour's address.
func md5Key(remote netip.Addr) *unix.TCPMD5Sig {
	sig := &unix.TCPMD5Sig{}
	if remote.Is4() {
		sig.Addr.Family = unix.AF_INET
		copy(sig.Addr.Data[2:], remote.AsSlice())
	} else {
		sig.Addr.Family = unix.AF_INET6
		copy(sig.Addr.Data[6:], remote.AsSlice())
	}
	return sig
}
