package kernel_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/kernel"
	"netclass.dev/test/netns"
)

// TestCounters: what leaves one end of a link is counted as sent there, and as
// received at the other.
func TestCounters(t *testing.T) {
	t.Parallel()
	here, there := netns.New(t), netns.New(t)
	var ends [2]*kernel.Kernel
	for i, ns := range []*netns.NS{here, there} {
		k, err := kernel.Open(kernel.Config{NetNS: ns.Fd()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = k.Close() })
		ends[i] = k
	}
	if err := here.Veth("pod0", there, "pod0"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return there.Up("pod0") },
		func() error { return here.Up("pod0") },
		func() error { return here.Addr("pod0", "10.48.0.1/24") },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	read := func(k *kernel.Kernel) (received, sent uint64) {
		t.Helper()
		c, err := k.Counters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := c["lo"]; !ok || len(c) != 2 {
			t.Fatalf("links counted: %v", c)
		}
		return c["pod0"].Received, c["pod0"].Sent
	}
	_, sent := read(ends[0])
	received, _ := read(ends[1])
	const packets = 50
	err := here.Do(func() error {
		to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.48.0.255:9"))
		c, err := net.ListenUDP("udp4", nil)
		if err != nil {
			return err
		}
		defer c.Close()
		for range packets {
			if _, err := c.WriteToUDP([]byte("x"), to); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, sentNow := read(ends[0])
	receivedNow, _ := read(ends[1])
	if sentNow-sent < packets || receivedNow-received < packets {
		t.Errorf("of %d packets %d were counted as sent and %d as received", packets, sentNow-sent, receivedNow-received)
	}
}

// TestMulticastCounted: of what a link receives that counts it, as a VLAN and a bridge
// do, what is sent to a group is known, and not taken for what is sent to everybody.
func TestMulticastCounted(t *testing.T) {
	t.Parallel()
	here, there := netns.New(t), netns.New(t)
	for _, step := range []func() error{
		func() error { return here.Veth("pod0", there, "port") },
		func() error { return there.Bridge("pod0") },
		func() error { return there.Enslave("port", "pod0") },
		func() error { return there.Up("port", "pod0") },
		func() error { return here.Up("pod0") },
		func() error { return here.Addr("pod0", "10.48.0.1/24") },
		func() error { return there.Addr("pod0", "10.48.0.2/24") },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	here.MustIP(t, "route add 224.0.0.0/4 dev pod0")
	k, err := kernel.Open(kernel.Config{NetNS: there.Fd()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	read := func() routing.LinkCounters {
		t.Helper()
		c, err := k.Counters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c["pod0"]
	}
	const packets = 50
	send := func(to string) (received, multicast uint64) {
		t.Helper()
		was := read()
		err := here.Do(func() error {
			c, err := net.ListenUDP("udp4", nil)
			if err != nil {
				return err
			}
			defer c.Close()
			for range packets {
				if _, err := c.WriteToUDP([]byte("x"), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to))); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		now := read()
		return now.Received - was.Received, now.Multicast - was.Multicast
	}
	for range 100 { // until the bridge forwards
		if received, _ := send("10.48.0.255:9"); received >= packets {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	for to, group := range map[string]bool{"239.1.2.3:9": true, "10.48.0.255:9": false} {
		if received, multicast := send(to); received < packets || (multicast >= packets) != group {
			t.Errorf("of %d packets to %s %d were counted as received and %d as multicast", packets, to, received, multicast)
		}
	}
}
