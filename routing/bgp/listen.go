package bgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// listener is an address that GoBGP listens on.
type listener struct {
	routing.Listen
	index int // of the link that it is bound to; the socket knows no name
	fd    int // GoBGP's own descriptor; it stays open as long as the process
}

// unbound is a wanted address that could not be listened on.
type unbound struct {
	routing.Listen
	text string
	busy bool // another socket has it
}

// busyWait is how long an address in use is tried again before we do without:
// a predecessor that was just killed is about to let go of it.
const busyWait = 300 * time.Millisecond

// probeListen returns the addresses that can be listened on and notes the
// others. GoBGP gives up at the first that it cannot bind, and leaks those
// before it.
func (s *speaker) probeListen(want *routing.Speak) []routing.Listen {
	patience := time.Now().Add(busyWait)
	var usable []routing.Listen
	s.unbound = nil
	for _, l := range want.Listen {
		err := probe(l, want.Port)
		for errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(patience) {
			time.Sleep(10 * time.Millisecond)
			err = probe(l, want.Port)
		}
		if err == nil {
			usable = append(usable, l)
			continue
		}
		s.unbound = append(s.unbound, unbound{
			Listen: l,
			text:   fmt.Sprintf("listen on %s: %v", listenName(l, want.Port), errnoOf(err)),
			busy:   errors.Is(err, syscall.EADDRINUSE),
		})
	}
	return usable
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

// probe binds and listens as GoBGP will, and closes again.
func probe(l routing.Listen, port uint16) error {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		if l.Link == "" {
			return nil
		}
		var err error
		if e := c.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), l.Link) }); e != nil {
			return e
		}
		return err
	}}
	network := "tcp4"
	if l.Addr.Is6() {
		network = "tcp6"
	}
	ln, err := lc.Listen(context.Background(), network, net.JoinHostPort(l.Addr.String(), strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	return ln.Close()
}

// bindListeners finds GoBGP's listening sockets and binds each to its link.
// GoBGP can bind all of them to one link only, but an upstream's address is on
// another link than the mesh's.
func (s *speaker) bindListeners(usable []routing.Listen, port uint16) error {
	s.listeners = nil
	for _, l := range usable {
		fd := listeningSocket(netip.AddrPortFrom(l.Addr, port))
		if fd < 0 {
			return fmt.Errorf("find the socket listening on %s", listenName(l, port))
		}
		index := 0
		if l.Link != "" {
			if err := unix.BindToDevice(fd, l.Link); err != nil {
				return fmt.Errorf("bind listener %s to %s: %w", l.Addr, l.Link, err)
			}
			index = linkIndex(l.Link)
		}
		s.listeners = append(s.listeners, listener{Listen: l, index: index, fd: fd})
	}
	return nil
}

// maxFd bounds the search for a listener; they are opened first of all.
const maxFd = 4096

// listeningSocket returns the descriptor of our socket that listens on addr, or
// -1.
func listeningSocket(addr netip.AddrPort) int {
	for fd := 3; fd < maxFd; fd++ {
		if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || on == 0 {
			continue
		}
		sa, err := unix.Getsockname(fd)
		if err != nil {
			continue
		}
		var got netip.AddrPort
		switch sa := sa.(type) {
		case *unix.SockaddrInet4:
			got = netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
		case *unix.SockaddrInet6:
			got = netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
		}
		if got == addr {
			return fd
		}
	}
	return -1
}

func linkIndex(name string) int {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return 0
	}
	return ifi.Index
}

// listenReason says why the wanted addresses need a new process, if they do. A
// listener whose address has gone from its link does no harm and works again
// when the address comes back: a link that flaps resets no session.
func (s *speaker) listenReason(want []routing.Listen) string {
	for _, w := range want {
		if !slices.ContainsFunc(s.listeners, func(l listener) bool { return l.serves(w) }) &&
			!slices.ContainsFunc(s.unbound, func(u unbound) bool { return u.Listen == w }) {
			return fmt.Sprintf("listen on %s too", w.Addr)
		}
	}
	s.unbound = slices.DeleteFunc(s.unbound, func(u unbound) bool { return !slices.Contains(want, u.Listen) })
	for _, l := range s.listeners {
		if !slices.Contains(want, l.Listen) && isOurs(l.Addr) {
			return fmt.Sprintf("listen on %s no longer", l.Addr)
		}
	}
	return ""
}

// serves reports whether the listener does what w wants: a link that was
// deleted and made again has another index.
func (l listener) serves(w routing.Listen) bool {
	return l.Listen == w && (l.Link == "" || l.index == linkIndex(l.Link))
}

// isOurs reports whether a link of this machine has the address.
func isOurs(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(addrs, func(x net.Addr) bool {
		p, err := netip.ParsePrefix(x.String())
		return err == nil && p.Addr() == a
	})
}

// retryListen tries the addresses that could not be bound, if it is time. It
// returns a reason to be renewed once one can.
func (s *speaker) retryListen(now time.Time) string {
	if now.Before(s.listenAt) {
		return ""
	}
	s.listenAt = now.Add(listenRetry)
	for i := range s.unbound {
		u := &s.unbound[i]
		err := probe(u.Listen, s.want.Port)
		if err == nil {
			return fmt.Sprintf("%s can be listened on now", u.Addr)
		}
		u.text = fmt.Sprintf("listen on %s: %v", listenName(u.Listen, s.want.Port), errnoOf(err))
		u.busy = errors.Is(err, syscall.EADDRINUSE)
	}
	return ""
}

// forgetPassword takes a former neighbour's MD5 key off the listeners; GoBGP
// leaves it there when it deletes the neighbour.
func (s *speaker) forgetPassword(remote netip.Addr) {
	sig := md5Key(remote)
	for _, l := range s.listeners {
		if l.Addr.Is4() == remote.Is4() {
			// ENOENT: it had none.
			_ = unix.SetsockoptTCPMD5Sig(l.fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, sig)
		}
	}
}
