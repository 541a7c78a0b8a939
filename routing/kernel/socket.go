package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// socket is one rtnetlink connection. mdlayher/netlink opens it in its namespace
// and parks readers of events in the runtime's poller; sending and receiving go
// straight to the descriptor, for three reasons: whole batches are encoded into
// one buffer, a datagram is decoded where it was received, and the header of the
// message that ends a dump stays visible (it can be the only one that says that
// the dump was interrupted).
type socket struct {
	conn *netlink.Conn   // nil for one of dialDirect
	raw  syscall.RawConn // nil likewise
	fd   int             // of one of dialDirect
	port uint32          // the kernel's name for this end; events carry their cause's
	seq  uint32
	in   []byte
	// datagrams is how many the last dump came in.
	datagrams int
	// broken is set when answers may have been lost or left unread.
	broken bool
}

// The kernel makes datagrams of a dump at most 32 KiB.
const receiveSize = 64 << 10

// dial opens a connection in a namespace (0: the current one) with a receive
// buffer of so many bytes. Port 0 lets the kernel choose.
func dial(netns int, port uint32, buffer int) (*socket, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: netns, PID: port})
	if err != nil {
		return nil, err
	}
	s := &socket{conn: conn, port: conn.PID(), in: make([]byte, receiveSize)}
	if err = conn.SetReadBuffer(buffer); err == nil {
		// Alone: together with CapAcknowledge errors could not be decoded.
		err = conn.SetOption(netlink.ExtendedAcknowledge, true)
	}
	if err == nil {
		// Only kernels before 4.20 lack it, and they filter less.
		_ = conn.SetOption(netlink.GetStrictCheck, true)
		s.raw, err = conn.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

// dialDirect is dial for a connection on which nothing comes unasked: the kernel
// has its answer ready when a send returns. It has no place in the runtime's
// poller, whose thread would wake for each datagram that another is already
// reading. Patience bounds the wait for an answer; 0: there is none.
func dialDirect(netns int, port uint32, buffer int, patience time.Duration) (*socket, error) {
	s, err := dial(netns, port, buffer)
	if err != nil {
		return nil, err
	}
	fd := -1
	if e := s.raw.Control(func(polled uintptr) { fd, err = unix.FcntlInt(polled, unix.F_DUPFD_CLOEXEC, 0) }); e != nil {
		err = e
	}
	if err == nil && patience > 0 {
		wait := unix.NsecToTimeval(patience.Nanoseconds())
		err = errors.Join(unix.SetNonblock(fd, false), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
	}
	if err = errors.Join(err, s.conn.Close()); err != nil {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
		return nil, err
	}
	s.conn, s.raw, s.fd = nil, nil, fd
	return s, nil
}

func (s *socket) close() error {
	if s.conn != nil {
		return s.conn.Close()
	}
	return unix.Close(s.fd)
}

// join subscribes to a multicast group.
func (s *socket) join(group uint32) error {
	if s.conn != nil {
		return s.conn.JoinGroup(group)
	}
	return unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, int(group))
}

// answerTimeout is far beyond what an answer takes. It only keeps a fault from
// blocking us for ever.
const answerTimeout = 10 * time.Second

// send gives the kernel one or more encoded messages in one system call, on a
// connection of dialDirect. When it returns, the kernel has carried them out and
// queued its answers.
func (s *socket) send(b []byte) error {
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	err := ignoringEINTR(func() error { return unix.Sendto(s.fd, b, 0, to) })
	if err != nil {
		return fmt.Errorf("send to rtnetlink: %w", err)
	}
	return nil
}

// receive waits for a datagram. It is valid until the next call.
func (s *socket) receive() ([]byte, error) {
	var n int
	var from unix.Sockaddr
	var err error
	read := func(fd int) {
		err = ignoringEINTR(func() (err error) {
			n, from, err = unix.Recvfrom(fd, s.in, unix.MSG_TRUNC)
			return err
		})
	}
	if s.raw == nil {
		if read(s.fd); errors.Is(err, unix.EAGAIN) {
			err = os.ErrDeadlineExceeded
		}
	} else if e := s.raw.Read(func(fd uintptr) bool {
		read(int(fd))
		return !errors.Is(err, unix.EAGAIN)
	}); e != nil {
		err = e
	}
	if err != nil {
		s.broken = true
		return nil, fmt.Errorf("receive from rtnetlink: %w", err)
	}
	if n > len(s.in) {
		s.broken = true
		return nil, fmt.Errorf("receive from rtnetlink: datagram of %d bytes", n)
	}
	// Other processes can send to our port; only the kernel's word counts.
	if sa, ok := from.(*unix.SockaddrNetlink); !ok || sa.Pid != 0 {
		return nil, nil
	}
	return s.in[:n], nil
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// request starts a message of the next sequence number; the body is appended
// to what it returns, and finish completes it.
func (s *socket) request(b []byte, kind uint16, flags uint16) []byte {
	s.seq++
	return appendHeader(b, kind, flags|unix.NLM_F_REQUEST, s.seq)
}

// query sends one encoded message of the newest sequence number and returns the
// payload of the answer: nil for an acknowledgement.
func (s *socket) query(b []byte) ([]byte, error) {
	if err := s.send(b); err != nil {
		return nil, err
	}
	for {
		datagram, err := s.receive()
		if err != nil {
			return nil, err
		}
		for m, err := range messages(datagram) {
			switch {
			case err != nil:
				return nil, err
			case m.seq != s.seq:
				// A leftover of a request that was given up.
			case m.kind == unix.NLMSG_ERROR:
				return nil, m.err()
			default:
				return m.data, nil
			}
		}
	}
}

// errInterrupted means that the kernel's state changed during a dump, which is
// therefore incomplete.
var errInterrupted = errors.New("the kernel changed during the dump")

// list requests a dump and calls each with the payload of every message of
// kind want. After an error what was seen is incomplete. A dump is always read
// to its end: the connection refuses another one until then.
func (s *socket) list(ctx context.Context, get, want uint16, body []byte, each func([]byte) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b := finish(append(s.request(nil, get, unix.NLM_F_DUMP), body...), 0)
	if err := s.send(b); err != nil {
		return err
	}
	var failed error
	interrupted := false
	for s.datagrams = 0; ; s.datagrams++ {
		datagram, err := s.receive()
		if err != nil {
			return err
		}
		for m, err := range messages(datagram) {
			if err != nil {
				s.broken = true
				return err
			}
			if m.seq != s.seq {
				continue
			}
			interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
			switch {
			case m.kind == unix.NLMSG_ERROR:
				return m.err()
			case m.kind == unix.NLMSG_DONE:
				if err := m.doneErr(); err != nil {
					return err
				}
				if interrupted {
					return errInterrupted
				}
				return failed
			case m.kind == want && failed == nil:
				failed = each(m.data)
			}
		}
	}
}
