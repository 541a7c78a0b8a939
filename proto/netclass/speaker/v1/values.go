package speakerv1

import (
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"netclass.dev/routing"
)

// addrBytes writes an address as 4 or 16 bytes, the zero address as none.
func addrBytes(a netip.Addr) []byte {
	if !a.IsValid() {
		return nil
	}
	return a.AsSlice()
}

// addrFrom is the reverse. A mapped address stays what it is: IPv6.
func addrFrom(b []byte) (netip.Addr, error) {
	if len(b) == 0 {
		return netip.Addr{}, nil
	}
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		return netip.Addr{}, fmt.Errorf("address of %d bytes", len(b))
	}
	return a, nil
}

func prefixMessage(p netip.Prefix) *Prefix {
	return &Prefix{Address: addrBytes(p.Addr()), Length: uint32(p.Bits())}
}

func prefixFrom(m *Prefix) (netip.Prefix, error) {
	a, err := addrFrom(m.GetAddress())
	if err != nil {
		return netip.Prefix{}, err
	}
	if !a.IsValid() || m.GetLength() > uint32(a.BitLen()) {
		return netip.Prefix{}, fmt.Errorf("prefix %s/%d", a, m.GetLength())
	}
	p := netip.PrefixFrom(a, int(m.GetLength()))
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("prefix %s has bits beyond its length", p)
	}
	return p, nil
}

func keyMessage(k routing.SessionKey) *SessionKey {
	return &SessionKey{Peer: k.Peer, Family: uint32(k.Family)}
}

func keyFrom(m *SessionKey) (routing.SessionKey, error) {
	f := m.GetFamily()
	if f != uint32(routing.IPv4) && f != uint32(routing.IPv6) {
		return routing.SessionKey{}, fmt.Errorf("family %d", f)
	}
	if m.GetPeer() == "" {
		return routing.SessionKey{}, fmt.Errorf("session without a peer")
	}
	return routing.SessionKey{Peer: m.GetPeer(), Family: routing.Family(f)}, nil
}

func durationMessage(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func durationFrom(m *durationpb.Duration) (time.Duration, error) {
	if m == nil {
		return 0, nil
	}
	if err := m.CheckValid(); err != nil {
		return 0, err
	}
	d := m.AsDuration()
	if d < 0 {
		return 0, fmt.Errorf("duration %s", d)
	}
	return d, nil
}
