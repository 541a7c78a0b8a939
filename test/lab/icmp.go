package lab

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Echo messages carry a run number, so that a late reply to another pinger is
// not taken for ours, and a sequence number that does not wrap.
const (
	echoHeader = 8
	echoSize   = echoHeader + 16
)

// echoSocket is a raw ICMP socket connected to one destination.
type echoSocket struct {
	file *os.File
	v6   bool
	run  uint64
	buf  [echoSize]byte
}

// openEcho opens the socket in the calling thread's namespace.
func openEcho(from, to netip.Addr, run uint64) (*echoSocket, error) {
	proto := unix.IPPROTO_ICMP
	if to.Is6() {
		proto = unix.IPPROTO_ICMPV6
	}
	fd, err := unix.Socket(family(to), unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto)
	if err != nil {
		return nil, fmt.Errorf("open ICMP socket: %w", err)
	}
	if err := tune(fd, to.Is6()); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("tune ICMP socket: %w", err)
	}
	if from.IsValid() {
		if err := unix.Bind(fd, sockaddr(from)); err != nil {
			_ = unix.Close(fd)
			return nil, fmt.Errorf("bind to %s: %w", from, err)
		}
	}
	if err := unix.Connect(fd, sockaddr(to)); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("connect to %s: %w", to, err)
	}
	// The file is non-blocking and a socket, so reads take deadlines.
	return &echoSocket{file: os.NewFile(uintptr(fd), "icmp"), v6: to.Is6(), run: run}, nil
}

// tune leaves only replies to the socket, and room for those that come while a
// busy machine does not let us read: a reply dropped here would look like one
// lost in the network.
func tune(fd int, v6 bool) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
		return err
	}
	if v6 { // a bit for each type, set to block it (RFC 3542)
		var f unix.ICMPv6Filter
		for i := range f.Data {
			f.Data[i] = ^uint32(0)
		}
		f.Data[129>>5] &^= 1 << (129 & 31)
		return unix.SetsockoptICMPv6Filter(fd, unix.SOL_ICMPV6, unix.ICMPV6_FILTER, &f)
	}
	const icmpFilter = 1                                        // ICMP_FILTER of linux/icmp.h: a bit for each type, set to block it
	return unix.SetsockoptInt(fd, unix.SOL_RAW, icmpFilter, -2) // all but type 0
}

func (s *echoSocket) close() error { return s.file.Close() }

// send sends one echo request. Only one goroutine may send.
func (s *echoSocket) send(seq uint64) error {
	b := s.buf[:]
	clear(b[:echoHeader])
	b[0] = 8 // echo request (RFC 792)
	if s.v6 {
		b[0] = 128 // RFC 4443; the kernel fills in the checksum
	}
	binary.BigEndian.PutUint16(b[4:], uint16(s.run))
	binary.BigEndian.PutUint16(b[6:], uint16(seq))
	binary.BigEndian.PutUint64(b[8:], s.run)
	binary.BigEndian.PutUint64(b[16:], seq)
	if !s.v6 {
		binary.BigEndian.PutUint16(b[2:], checksum(b))
	}
	_, err := s.file.Write(b)
	return err
}

// receive returns the sequence number of the next reply to us. Errors that an
// ICMP message left on the socket are returned too, and do not close it.
func (s *echoSocket) receive(b []byte) (uint64, error) {
	for {
		n, err := s.file.Read(b)
		if err != nil {
			return 0, err
		}
		m := b[:n]
		if !s.v6 { // raw IPv4 sockets hand out the IP header too
			if n < 20 || n < int(m[0]&0xf)*4 {
				continue
			}
			m = m[int(m[0]&0xf)*4:]
		}
		reply := byte(0)
		if s.v6 {
			reply = 129
		}
		if len(m) < echoSize || m[0] != reply || binary.BigEndian.Uint64(m[8:]) != s.run {
			continue
		}
		return binary.BigEndian.Uint64(m[16:]), nil
	}
}

func (s *echoSocket) deadline(t time.Time) error { return s.file.SetReadDeadline(t) }

// checksum is RFC 1071's.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func sockaddr(a netip.Addr) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Addr: a.As16()}
}
