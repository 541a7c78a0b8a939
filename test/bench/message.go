package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"netclass.dev/routing"
)

// Message types of RFC 4271 §4.1.
const (
	typeOpen         = 1
	typeUpdate       = 2
	typeNotification = 3
	typeKeepalive    = 4
)

const (
	headerLength  = 19
	maxMessage    = 4096
	unicast       = 1
	transitive    = 0x40
	optional      = 0x80
	localPref     = 100
	capMP         = 1
	capRestart    = 64
	capFourOctets = 65
)

var marker = bytes.Repeat([]byte{0xff}, 16)

// message puts the header before a body.
func message(kind byte, body []byte) []byte {
	m := append([]byte(nil), marker...)
	m = binary.BigEndian.AppendUint16(m, uint16(headerLength+len(body)))
	m = append(m, kind)
	return append(m, body...)
}

// readMessage reads one message and returns its type. What a message says is of
// no interest to a peer that only announces, beyond its type. buf takes the
// longest message.
func readMessage(r io.Reader, buf []byte) (byte, error) {
	if _, err := io.ReadFull(r, buf[:headerLength]); err != nil {
		return 0, err
	}
	length := int(binary.BigEndian.Uint16(buf[16:]))
	if !bytes.Equal(buf[:16], marker) || length < headerLength || length > maxMessage {
		return 0, errors.New("read message: not a BGP header")
	}
	if _, err := io.ReadFull(r, buf[headerLength:length]); err != nil {
		return 0, err
	}
	return buf[18], nil
}

// expect reads one message, which must be of the type.
func expect(r io.Reader, kind byte, buf []byte) error {
	got, err := readMessage(r, buf)
	if err != nil {
		return err
	}
	if got == typeNotification {
		return fmt.Errorf("read message: notification %d/%d", buf[headerLength], buf[headerLength+1])
	}
	if got != kind {
		return fmt.Errorf("read message: type %d, want %d", got, kind)
	}
	return nil
}

func afi(f routing.Family) uint16 {
	if f == routing.IPv4 {
		return 1
	}
	return 2
}

// openMessage offers one family, four-octet AS numbers and graceful restart.
func openMessage(asn uint32, hold time.Duration, id netip.Addr, f routing.Family) []byte {
	family := binary.BigEndian.AppendUint16(nil, afi(f))
	caps := append([]byte{capMP, 4}, family...)
	caps = append(caps, 0, unicast)
	caps = append(caps, capFourOctets, 4)
	caps = binary.BigEndian.AppendUint32(caps, asn)
	caps = append(caps, capRestart, 6, 0, 120) // no flags, 120 s
	caps = append(caps, family...)
	caps = append(caps, unicast, 0)

	body := []byte{4}
	body = binary.BigEndian.AppendUint16(body, uint16(asn)) // private numbers fit
	body = binary.BigEndian.AppendUint16(body, uint16(hold/time.Second))
	body = append(body, id.AsSlice()...)
	body = append(body, byte(len(caps)+2), 2, byte(len(caps)))
	return message(typeOpen, append(body, caps...))
}

// updateMessage announces one prefix as an iBGP peer does.
func updateMessage(p netip.Prefix, hop netip.Addr) []byte {
	nlri := append([]byte{byte(p.Bits())}, p.Addr().AsSlice()[:(p.Bits()+7)/8]...)
	attrs := []byte{
		transitive, 1, 1, 0, // ORIGIN: IGP
		transitive, 2, 0, // AS_PATH: empty
		transitive, 5, 4, 0, 0, 0, localPref,
	}
	if p.Addr().Is4() {
		attrs = append(attrs, transitive, 3, 4) // NEXT_HOP
		attrs = append(attrs, hop.AsSlice()...)
		return update(attrs, nlri)
	}
	reach := binary.BigEndian.AppendUint16(nil, afi(routing.IPv6))
	reach = append(reach, unicast, 16)
	reach = append(reach, hop.AsSlice()...)
	reach = append(reach, 0)
	reach = append(reach, nlri...)
	attrs = append(attrs, optional, 14, byte(len(reach))) // MP_REACH_NLRI
	return update(append(attrs, reach...), nil)
}

// endOfRIB is RFC 4724's sign that everything has been said.
func endOfRIB(f routing.Family) []byte {
	if f == routing.IPv4 {
		return update(nil, nil)
	}
	return update([]byte{optional, 15, 3, 0, 2, unicast}, nil) // MP_UNREACH_NLRI of nothing
}

func update(attrs, nlri []byte) []byte {
	body := []byte{0, 0} // nothing withdrawn
	body = binary.BigEndian.AppendUint16(body, uint16(len(attrs)))
	body = append(body, attrs...)
	return message(typeUpdate, append(body, nlri...))
}
