package interop

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// rawPeer speaks BGP byte by byte.
type rawPeer struct {
	t *testing.T
	net.Conn
}

// dialRaw connects to port 179 of the target from the host.
func (h *host) dialRaw(to netip.Addr) (*rawPeer, error) {
	var conn net.Conn
	err := h.Do(func() (err error) {
		d := net.Dialer{Timeout: time.Second, LocalAddr: &net.TCPAddr{IP: h.addr(routing.FamilyOf(to)).AsSlice()}}
		conn, err = d.Dial("tcp", netip.AddrPortFrom(to, 179).String())
		return err
	})
	if err != nil {
		return nil, err
	}
	return &rawPeer{h.t, conn}, nil
}

// message frames a BGP message.
func message(typ byte, body ...byte) []byte {
	m := make([]byte, 18, 19+len(body))
	for i := range 16 {
		m[i] = 0xff
	}
	binary.BigEndian.PutUint16(m[16:], uint16(19+len(body)))
	return append(append(m, typ), body...)
}

// open is an OPEN with the capabilities.
func openMessage(as uint16, hold uint16, id netip.Addr, caps ...[]byte) []byte {
	var opts []byte
	for _, c := range caps {
		opts = append(append(opts, 2, byte(len(c))), c...)
	}
	body := []byte{4, byte(as >> 8), byte(as), byte(hold >> 8), byte(hold)}
	body = append(body, id.AsSlice()...)
	return message(1, append(append(body, byte(len(opts))), opts...)...)
}

// multiprotocol is the capability for unicast of a family.
func multiprotocol(f routing.Family) []byte {
	return []byte{1, 4, 0, map[routing.Family]byte{routing.IPv4: 1, routing.IPv6: 2}[f], 0, 1}
}

func fourByteAS(as uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{65, 4}, as)
}

// read returns the next message, or io.EOF.
func (p *rawPeer) read() (typ byte, body []byte, err error) {
	_ = p.SetReadDeadline(time.Now().Add(5 * time.Second))
	head := make([]byte, 19)
	if _, err := io.ReadFull(p, head); err != nil {
		return 0, nil, err
	}
	body = make([]byte, binary.BigEndian.Uint16(head[16:])-19)
	_, err = io.ReadFull(p, body)
	return head[18], body, err
}

// establish brings a session up and returns when ours says so.
func (p *rawPeer) establish(h *host, f routing.Family, hold uint16) error {
	_, _ = p.Write(openMessage(asn, hold, h.v4, multiprotocol(f), fourByteAS(asn)))
	for {
		typ, body, err := p.read()
		if err != nil {
			return err
		}
		switch typ {
		case 4:
			_, err := p.Write(message(4))
			return err
		case 3:
			return errors.New("notification " + string(body))
		}
	}
}

// update frames an UPDATE of path attributes and IPv4 prefixes.
func update(nlri []byte, attrs ...[]byte) []byte {
	var a []byte
	for _, x := range attrs {
		a = append(a, x...)
	}
	body := []byte{0, 0, byte(len(a) >> 8), byte(len(a))}
	return message(2, append(append(body, a...), nlri...)...)
}

func attr(flags, typ byte, value ...byte) []byte {
	return append([]byte{flags, typ, byte(len(value))}, value...)
}

var (
	originIGP  = attr(0x40, 1, 0)
	emptyPath  = attr(0x40, 2)
	localPref  = attr(0x40, 5, 0, 0, 0, 100)
	someNLRI   = []byte{24, 10, 244, 9}
	hostileHop = attr(0x40, 3, 10, 48, 0, 9)
)

// crashers are messages that GoBGP v3.37.0 was seen to panic at.
var crashers = []struct {
	name  string
	early bool // before the OPEN
	bytes []byte
	crash bool // the others only when GoBGP is asked for the path in another form
}{
	{name: "unknown type before OPEN", early: true, bytes: message(9), crash: true},
	{name: "unknown type", bytes: message(9), crash: true},
	{name: "AS4_PATH before AS_PATH", bytes: update(someNLRI, originIGP, hostileHop, localPref, attr(0xc0, 17, 2, 1, 0, 0, 0xfd, 0xe8), attr(0x40, 2, 2, 1, 0, 0, 0xfd, 0xe8)), crash: true},
	{name: "short EVPN", bytes: update(nil, originIGP, emptyPath, localPref, attr(0x80, 14, 0, 25, 70, 4, 10, 48, 0, 9, 0, 2, 1, 2)), crash: true},
	{name: "short VPLS", bytes: update(nil, originIGP, emptyPath, localPref, attr(0x80, 14, 0, 25, 65, 4, 10, 48, 0, 9, 0, 0, 1, 0)), crash: true},
	{name: "short MUP", bytes: update(nil, originIGP, emptyPath, localPref, attr(0x80, 14, 0, 1, 85, 4, 10, 48, 0, 9, 0, 1, 0, 1, 1, 0)), crash: true},
	{name: "SRv6 Prefix-SID with unknown sub-TLV", bytes: update(someNLRI, originIGP, emptyPath, hostileHop, localPref, attr(0xc0, 40, 5, 0, 5, 0, 9, 0, 1, 0)), crash: true},
	{name: "tunnel encapsulation", bytes: update(someNLRI, originIGP, emptyPath, hostileHop, localPref, attr(0xc0, 23, 0, 15, 0, 4, 12, 2, 0, 0))},
}

// Whatever a configured peer sends, the others' sessions are back within 3 s
// and stay, also when it goes on.
func TestHostile(t *testing.T) {
	for _, c := range crashers {
		t.Run(c.name, func(t *testing.T) {
			l := newLAN(t)
			a, b, evil := l.host(1), l.host(2), l.host(9)
			b.bird(asn, birdPeer{to: a, asn: asn})
			s := a.speaker()
			want := a.speak(b, evil)
			for i := range want.Neighbors {
				want.Neighbors[i].Passive = true
			}
			set(t, s, want)
			others := func() string {
				for _, f := range routing.Families {
					if x := session(s, key(b, f)); x.State != routing.Established || len(x.Paths) != 1 {
						return describe(x)
					}
				}
				return ""
			}
			eventually(t, 10*time.Second, others)
			stop := make(chan struct{})
			attacked := make(chan struct{})
			go func() {
				defer close(attacked)
				for {
					select {
					case <-stop:
						return
					case <-time.After(50 * time.Millisecond):
					}
					p, err := evil.dialRaw(a.v4)
					if err != nil {
						continue
					}
					if c.early {
						_, _ = p.Write(c.bytes)
					} else if p.establish(evil, routing.IPv4, 9) == nil {
						_, _ = p.Write(c.bytes)
					}
					_ = p.SetReadDeadline(time.Now().Add(time.Second))
					_, _ = io.Copy(io.Discard, p)
					_ = p.Close()
				}
			}()
			defer func() { close(stop); <-attacked }()
			pid := s.Status().PID
			begun := time.Now()
			for time.Since(begun) < 2*time.Second && s.Status().Restarts == 0 {
				time.Sleep(time.Millisecond)
			}
			st := s.Status()
			if st.Restarts > 0 {
				t.Logf("crashed: %s", st.LastExit)
			} else {
				t.Logf("survived: %s", describe(session(s, key(evil, routing.IPv4))))
			}
			if c.crash != (st.Restarts > 0) {
				t.Errorf("crashed: %v, want %v", st.Restarts > 0, c.crash)
			}
			back := eventually(t, 3*time.Second, others)
			t.Logf("others back after %s (pid %d then %d)", back, pid, s.Status().PID)
			// And they stay, though the attack goes on.
			for range 30 {
				time.Sleep(100 * time.Millisecond)
				if why := others(); why != "" {
					t.Fatal(why)
				}
			}
			x := session(s, key(evil, routing.IPv4))
			t.Log(describe(x))
			if st.Restarts > 0 && (!strings.Contains(x.Detail, "left out") || x.Cause != routing.CauseError) {
				t.Error("the peer is not left out")
			}
		})
	}
}
