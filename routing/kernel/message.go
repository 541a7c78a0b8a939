package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"
)

var native = binary.NativeEndian

// message is one decoded netlink message (struct nlmsghdr and its payload).
type message struct {
	kind, flags uint16
	seq, port   uint32
	data        []byte
}

const headerLen = unix.SizeofNlMsghdr

// messages iterates over the messages of a datagram. A malformed one is an error
// and the last.
func messages(b []byte) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		for len(b) > 0 {
			if len(b) < headerLen {
				yield(message{}, errShort)
				return
			}
			length := int(native.Uint32(b))
			if length < headerLen || length > len(b) {
				yield(message{}, errShort)
				return
			}
			m := message{
				kind:  native.Uint16(b[4:]),
				flags: native.Uint16(b[6:]),
				seq:   native.Uint32(b[8:]),
				port:  native.Uint32(b[12:]),
				data:  b[headerLen:length],
			}
			if !yield(m, nil) {
				return
			}
			b = b[min(align(length), len(b)):]
		}
	}
}

// Error is the kernel's refusal of a request. errors.Is sees its number.
type Error struct {
	Errno unix.Errno
	Text  string // the kernel's explanation, may be empty
}

func (e *Error) Error() string {
	if e.Text == "" {
		return e.Errno.Error()
	}
	return e.Errno.Error() + ": " + e.Text
}

func (e *Error) Unwrap() error { return e.Errno }

var errShort = errors.New("message is too short")

// err returns what an NLMSG_ERROR message says: nil for an acknowledgement.
func (m message) err() error {
	if len(m.data) < 4+headerLen {
		return errShort
	}
	code := int32(native.Uint32(m.data))
	if code == 0 {
		return nil
	}
	e := &Error{Errno: unix.Errno(-code)}
	if m.flags&unix.NLM_F_ACK_TLVS == 0 {
		return e
	}
	// The explanation follows the request, which comes back whole or capped.
	skip := 4 + headerLen
	if m.flags&unix.NLM_F_CAPPED == 0 {
		skip = 4 + align(int(native.Uint32(m.data[4:])))
	}
	if skip < len(m.data) {
		e.Text = explanation(m.data[skip:])
	}
	return e
}

// doneErr returns the error that a dump ended with.
func (m message) doneErr() error {
	if len(m.data) < 4 {
		return nil
	}
	code := int32(native.Uint32(m.data))
	if code >= 0 {
		return nil
	}
	e := &Error{Errno: unix.Errno(-code)}
	if m.flags&unix.NLM_F_ACK_TLVS != 0 {
		e.Text = explanation(m.data[4:])
	}
	return e
}

func explanation(b []byte) string {
	for kind, v := range attributes(b) {
		if kind == unix.NLMSGERR_ATTR_MSG {
			return text(v)
		}
	}
	return ""
}

// attributes iterates over netlink attributes, without their flag bits. What
// follows a malformed one is not seen.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			length := int(native.Uint16(b))
			if length < unix.SizeofNlAttr || length > len(b) {
				return
			}
			kind := native.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if !yield(kind, b[unix.SizeofNlAttr:length]) {
				return
			}
			b = b[min(align(length), len(b)):]
		}
	}
}

// The getters return the zero value for an attribute that is too short.

func u8(b []byte) uint8 {
	if len(b) < 1 {
		return 0
	}
	return b[0]
}

func u16(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return native.Uint16(b)
}

func u32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return native.Uint32(b)
}

func text(b []byte) string {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return string(b)
}

func addr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}

// prefix returns the prefix of the given length, of the zero address when the
// attribute was left out.
func prefix(family uint8, a netip.Addr, bits uint8) (netip.Prefix, error) {
	if !a.IsValid() {
		a = netip.IPv4Unspecified()
		if family == unix.AF_INET6 {
			a = netip.IPv6Unspecified()
		}
	}
	p := netip.PrefixFrom(a, int(bits))
	if !p.IsValid() || a.Is4() != (family == unix.AF_INET) {
		return netip.Prefix{}, fmt.Errorf("prefix %s/%d of family %d", a, bits, family)
	}
	return p, nil
}

func align(n int) int { return (n + 3) &^ 3 }

// appendHeader starts a message at the end of b; its length is set by finish.
func appendHeader(b []byte, kind, flags uint16, seq uint32) []byte {
	b = native.AppendUint32(b, 0)
	b = native.AppendUint16(b, kind)
	b = native.AppendUint16(b, flags)
	b = native.AppendUint32(b, seq)
	return native.AppendUint32(b, 0)
}

// finish sets the length of the message that starts at offset and ends with b.
func finish(b []byte, offset int) []byte {
	native.PutUint32(b[offset:], uint32(len(b)-offset))
	return b
}

func appendAttr(b []byte, kind uint16, value []byte) []byte {
	b = native.AppendUint16(b, uint16(unix.SizeofNlAttr+len(value)))
	b = native.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func appendU32(b []byte, kind uint16, value uint32) []byte {
	b = native.AppendUint16(b, unix.SizeofNlAttr+4)
	b = native.AppendUint16(b, kind)
	return native.AppendUint32(b, value)
}

func appendAddr(b []byte, kind uint16, a netip.Addr) []byte {
	if a.Is4() {
		v := a.As4()
		return appendAttr(b, kind, v[:])
	}
	v := a.As16()
	return appendAttr(b, kind, v[:])
}

func familyNumber(v4 bool) uint8 {
	if v4 {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
