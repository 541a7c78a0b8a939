package bgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

const (
	// An address that cannot be listened on is tried again after this, doubling:
	// soon, because a predecessor that was just killed is about to let go of it.
	firstListenRetry = 100 * time.Millisecond
	maxListenRetry   = time.Second
	// acceptPause follows an error of accept: out of descriptors, most likely.
	acceptPause = 100 * time.Millisecond
)

// door is where connections come in. GoBGP's own listeners cannot be changed
// while it runs, all or none of them work, and all are bound to one link; these
// hand what they accept to it as its own would.
type door struct {
	accept chan<- *net.TCPConn // GoBGP's, of accepted connections
	lines  *lines
	dialer *dialer

	listeners []*listener
	unbound   []unbound
	retryAt   time.Time // when unbound is tried again
	delay     time.Duration

	mu       sync.Mutex
	expected map[netip.Addr]*routing.Neighbor // by remote address
	open     map[netip.Addr]bool              // by local address: we listen there
}

// listener is an address that we listen on.
type listener struct {
	routing.Listen
	index int // of the link that it is bound to: the socket knows no name
	*net.TCPListener
}

// unbound is a wanted address that could not be listened on.
type unbound struct {
	routing.Listen
	text string
	busy bool // another socket has it
}

func newDoor(l *lines, d *dialer, accept chan<- *net.TCPConn) *door {
	return &door{accept: accept, lines: l, dialer: d, expected: make(map[netip.Addr]*routing.Neighbor)}
}

// listen listens on the wanted addresses and no others. A link that was deleted
// and made again is another link.
func (d *door) listen(want []routing.Listen, port uint16, now time.Time) {
	d.listeners = slices.DeleteFunc(d.listeners, func(l *listener) bool {
		keep := slices.Contains(want, l.Listen) && (l.Link == "" || l.index == linkIndex(l.Link))
		if !keep {
			_ = l.Close()
		}
		return !keep
	})
	failed := d.unbound
	d.unbound = nil
	for _, w := range want {
		if slices.ContainsFunc(d.listeners, func(l *listener) bool { return l.Listen == w }) {
			continue
		}
		if !slices.ContainsFunc(failed, func(u unbound) bool { return u.Listen == w }) {
			d.delay = 0 // new: begin anew
		}
		if err := d.bind(w, port); err != nil {
			d.unbound = append(d.unbound, unbound{
				Listen: w,
				text:   fmt.Sprintf("listen on %s: %v", listenName(w, port), errnoOf(err)),
				busy:   errors.Is(err, syscall.EADDRINUSE),
			})
		}
	}
	open := make(map[netip.Addr]bool, len(d.listeners))
	for _, l := range d.listeners {
		open[l.Listen.Addr] = true
	}
	d.mu.Lock()
	d.open = open
	d.mu.Unlock()
	d.retryAt = time.Time{}
	if len(d.unbound) > 0 {
		d.delay = min(max(2*d.delay, firstListenRetry), maxListenRetry)
		d.retryAt = now.Add(d.delay)
	}
}

// isOpen reports whether connections to the address can come in.
func (d *door) isOpen(local netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open[local]
}

func (d *door) bind(w routing.Listen, port uint16) error {
	network, level, opt := "tcp4", unix.IPPROTO_IP, unix.IP_TTL
	if w.Addr.Is6() {
		network, level, opt = "tcp6", unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
	}
	lc := net.ListenConfig{KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) {
			if w.Link != "" {
				err = unix.BindToDevice(int(fd), w.Link)
			}
			// Our answer to a SYN, before it is known whose connection it is,
			// must reach a peer that demands TTL security.
			if err == nil {
				err = unix.SetsockoptInt(int(fd), level, opt, maxTTL)
			}
		}); e != nil {
			return e
		}
		return err
	}}
	// Passwords and TTL security fail on a multipath socket, Go's default.
	lc.SetMultipathTCP(false)
	// The index before the name is used: should the link be replaced between
	// the two, the next look finds them to differ.
	l := &listener{Listen: w}
	if w.Link != "" {
		l.index = linkIndex(w.Link)
	}
	ln, err := lc.Listen(context.Background(), network, net.JoinHostPort(w.Addr.String(), strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	l.TCPListener = ln.(*net.TCPListener)
	d.listeners = append(d.listeners, l)
	d.mu.Lock()
	for remote, n := range d.expected {
		if n.Password != "" {
			l.setKey(remote, n.Password)
		}
	}
	d.mu.Unlock()
	go d.serve(l)
	return nil
}

// serve accepts until the listener is closed.
func (d *door) serve(l *listener) {
	for {
		conn, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		n := d.admits(l, conn)
		if n == nil {
			_ = conn.Close()
			continue
		}
		go d.letIn(n, conn)
	}
}

// letIn hands a connection to GoBGP, unless one of ours to the same peer goes first.
func (d *door) letIn(n *routing.Neighbor, conn *net.TCPConn) {
	addr := n.Remote.String()
	if !d.dialer.enter(addr) {
		_ = conn.Close()
		return
	}
	defer d.dialer.entered(addr)
	d.lines.add(n, conn)
	d.accept <- conn
}

// admits returns the configured peer whose connection it is, if it came in where
// that peer is: its address alone can be forged on another link. Else it is nil.
func (d *door) admits(l *listener, conn *net.TCPConn) *routing.Neighbor {
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return nil
	}
	a, _ := netip.AddrFromSlice(remote.IP)
	d.mu.Lock()
	n := d.expected[a.Unmap()]
	d.mu.Unlock()
	if n == nil || n.Link != l.Link || n.Local.IsValid() && n.Local != l.Listen.Addr {
		return nil
	}
	return n
}

// expect lets the neighbour in, with its password.
func (d *door) expect(n *routing.Neighbor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.expected[n.Remote]
	d.expected[n.Remote] = n
	if n.Password == "" && (old == nil || old.Password == "") {
		return
	}
	for _, l := range d.listeners {
		l.setKey(n.Remote, n.Password)
	}
}

// forget lets the neighbour in no longer.
func (d *door) forget(n *routing.Neighbor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.expected, n.Remote)
	if n.Password != "" {
		for _, l := range d.listeners {
			l.setKey(n.Remote, "")
		}
	}
}

// setKey sets a neighbour's MD5 key on the listener; an empty one takes it off.
func (l *listener) setKey(remote netip.Addr, key routing.Secret) {
	if l.Listen.Addr.Is4() != remote.Is4() {
		return
	}
	sig := md5Key(remote)
	sig.Keylen = uint16(copy(sig.Key[:], key))
	c, err := l.SyscallConn()
	if err == nil {
		err = c.Control(func(fd uintptr) {
			err = unix.SetsockoptTCPMD5Sig(int(fd), unix.IPPROTO_TCP, unix.TCP_MD5SIG, sig)
		})
	}
	if err != nil && !(errors.Is(err, unix.ENOENT) && key == "") {
		say("WARN", "cannot set the MD5 key of a peer", map[string]any{"Key": remote.String(), "Error": err})
	}
}

func listenName(l routing.Listen, port uint16) string {
	name := netip.AddrPortFrom(l.Addr, port).String()
	if l.Link != "" {
		name += " (" + l.Link + ")"
	}
	return name
}

// errnoOf strips what the net package wraps around an errno.
func errnoOf(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

func linkIndex(name string) int {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return 0
	}
	return ifi.Index
}
