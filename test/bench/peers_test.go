package bench

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/netns"
)

// TestPeers speaks to a peer of each family by hand.
func TestPeers(t *testing.T) {
	ns := netns.New(t)
	peer := Peer{
		Addr: routing.PerFamily[netip.Addr]{IPv4: netip.MustParseAddr("127.0.0.2"), IPv6: netip.MustParseAddr("::1")},
		Prefix: routing.PerFamily[netip.Prefix]{
			IPv4: netip.MustParsePrefix("10.244.2.0/24"), IPv6: netip.MustParsePrefix("fd00:10:244:2::/64"),
		},
	}
	p, err := Listen(ns, []Peer{peer})
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range routing.Families {
		var c net.Conn
		err := ns.Do(func() (err error) {
			c, err = net.Dial(network(f), netip.AddrPortFrom(peer.Addr.Of(f), port).String())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.Write(openMessage(asn, hold, netip.MustParseAddr("10.48.0.1"), f)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, maxMessage)
		if err := expect(c, typeOpen, buf); err != nil {
			t.Fatal(f, err)
		}
		for _, want := range []byte{typeKeepalive, typeUpdate, typeUpdate, typeKeepalive} {
			if err := expect(c, want, buf); err != nil {
				t.Fatal(f, err)
			}
			if _, err := c.Write(message(typeKeepalive, nil)); err != nil {
				t.Fatal(err)
			}
		}
		if p.Up() != i+1 {
			t.Errorf("%d sessions are up, want %d", p.Up(), i+1)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if p.Up() != 0 {
		t.Errorf("%d sessions are up after the end", p.Up())
	}
}
