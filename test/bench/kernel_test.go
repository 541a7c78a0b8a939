package bench

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/jsimonetti/rtnetlink"
	"golang.org/x/sys/unix"

	"netclass.dev/routing"
	"netclass.dev/routing/kernel"
	"netclass.dev/test/netns"
)

// BenchmarkApply writes 50,000 routes of both families into table 47 and
// compares with a floor measured beside it: the same routes, encoded beforehand,
// 128 to a send, one acknowledgement for each send, nothing looked at twice.
// "of-floor" is the share of the floor's speed that Apply reaches; it must be at
// least 0.70.
func BenchmarkApply(b *testing.B) {
	const count, perSend = 50_000, 128
	ns := netns.New(b)
	for _, err := range []error{
		ns.Veth("pod0", ns, "port"), ns.Up("pod0", "port"), ns.Addr("pod0", "10.48.0.1/24", "fd00:48::1/64"),
	} {
		if err != nil {
			b.Fatal(err)
		}
	}
	k, err := kernel.Open(kernel.Config{NetNS: ns.Fd()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = k.Close() })
	link, err := ns.Handle().LinkByName("pod0")
	if err != nil {
		b.Fatal(err)
	}
	adds := make([]routing.Op, count)
	dels := make([]routing.Op, count)
	for i := range adds {
		adds[i] = routing.Op{Stage: routing.StagePeers, Verb: routing.Add, Route: routeNumber(i)}
		dels[i] = routing.Op{Stage: routing.StageDropPeers, Verb: routing.Delete, Route: routeNumber(i)}
	}
	raw := newRawWriter(b, ns, adds, link.Attrs().Index, perSend)

	clear := func() {
		if errs := k.Apply(b.Context(), dels); errs != nil {
			b.Fatal(slices.IndexFunc(errs, func(err error) bool { return err != nil }), errs)
		}
	}
	var floor, ours []float64 // routes per second
	for b.Loop() {
		floor = append(floor, count/seconds(func() { raw.write(b) }))
		clear()
		ours = append(ours, count/seconds(func() {
			if errs := k.Apply(b.Context(), adds); errs != nil {
				b.Fatal(errs)
			}
		}))
		clear()
	}
	atLeast(b, "50,000 routes written", "of-floor", median(ours)/median(floor), 0.70,
		fmt.Sprintf("%.0f routes/s, the floor %.0f", median(ours), median(floor)))
}

// BenchmarkDump reads 50,000 routes of both families.
func BenchmarkDump(b *testing.B) {
	const count = 50_000
	ns := netns.New(b)
	for _, err := range []error{
		ns.Veth("pod0", ns, "port"), ns.Up("pod0", "port"), ns.Addr("pod0", "10.48.0.1/24", "fd00:48::1/64"),
	} {
		if err != nil {
			b.Fatal(err)
		}
	}
	k, err := kernel.Open(kernel.Config{NetNS: ns.Fd()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = k.Close() })
	adds := make([]routing.Op, count)
	for i := range adds {
		adds[i] = routing.Op{Verb: routing.Add, Route: routeNumber(i)}
	}
	if errs := k.Apply(b.Context(), adds); errs != nil {
		b.Fatal(errs)
	}
	b.ReportAllocs()
	for b.Loop() {
		if p, err := k.Dump(b.Context()); err != nil || len(p.Routes) < count {
			b.Fatal(len(p.Routes), err)
		}
	}
}

// routeNumber gives the i-th of many routes, of both families in turn.
func routeNumber(i int) routing.Route {
	r := routing.Route{Table: 47, Metric: routing.MetricPath, Protocol: routing.ProtocolNetclass, Link: "pod0"}
	n := i / 2
	if i%2 == 0 {
		r.Dst = netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(n >> 8), byte(n), 0}), 24)
		r.Via = netip.AddrFrom4([4]byte{10, 48, 0, byte(2 + n%200)})
		return r
	}
	r.Dst = netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 1, byte(n >> 8), byte(n)}), 64)
	r.Via = netip.AddrFrom16([16]byte{0: 0xfd, 3: 0x48, 15: byte(2 + n%200)})
	return r
}

// rawWriter is the floor: encoded sends, ready to go.
type rawWriter struct {
	fd    int
	sends []rawSend
	in    []byte
}

type rawSend struct {
	bytes []byte
	last  uint32 // sequence number of the acknowledged message
}

func newRawWriter(b *testing.B, ns *netns.NS, ops []routing.Op, index, perSend int) *rawWriter {
	b.Helper()
	w := &rawWriter{in: make([]byte, 1<<16)}
	err := ns.Do(func() (err error) {
		w.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		return unix.Bind(w.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = unix.Close(w.fd) })
	seq := uint32(0)
	for chunk := range slices.Chunk(ops, perSend) {
		var s rawSend
		for i, op := range chunk {
			seq++
			flags := uint16(unix.NLM_F_REQUEST | unix.NLM_F_CREATE | unix.NLM_F_EXCL)
			if i == len(chunk)-1 {
				flags |= unix.NLM_F_ACK
			}
			body := rawRoute(b, op.Route, index)
			s.bytes = binary.NativeEndian.AppendUint32(s.bytes, uint32(unix.SizeofNlMsghdr+len(body)))
			s.bytes = binary.NativeEndian.AppendUint16(s.bytes, unix.RTM_NEWROUTE)
			s.bytes = binary.NativeEndian.AppendUint16(s.bytes, flags)
			s.bytes = binary.NativeEndian.AppendUint32(s.bytes, seq)
			s.bytes = binary.NativeEndian.AppendUint32(s.bytes, 0)
			s.bytes = append(s.bytes, body...)
		}
		s.last = seq
		w.sends = append(w.sends, s)
	}
	return w
}

func rawRoute(b *testing.B, r routing.Route, index int) []byte {
	b.Helper()
	family := uint8(unix.AF_INET)
	if r.Dst.Addr().Is6() {
		family = unix.AF_INET6
	}
	m := rtnetlink.RouteMessage{
		Family: family, DstLength: uint8(r.Dst.Bits()), Protocol: uint8(r.Protocol), Type: unix.RTN_UNICAST,
		Attributes: rtnetlink.RouteAttributes{
			Dst: r.Dst.Addr().AsSlice(), Gateway: r.Via.AsSlice(), OutIface: uint32(index),
			Priority: r.Metric, Table: uint32(r.Table),
		},
	}
	body, err := m.MarshalBinary()
	if err != nil {
		b.Fatal(err)
	}
	return body
}

func (w *rawWriter) write(b *testing.B) {
	b.Helper()
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	for _, s := range w.sends {
		if err := unix.Sendto(w.fd, s.bytes, 0, to); err != nil {
			b.Fatal(err)
		}
		n, _, err := unix.Recvfrom(w.fd, w.in, 0)
		if err != nil {
			b.Fatal(err)
		}
		code, seq := int32(binary.NativeEndian.Uint32(w.in[16:])), binary.NativeEndian.Uint32(w.in[8:])
		if n < 20 || code != 0 || seq != s.last {
			b.Fatalf("raw write: error %d for message %d of %d", -code, seq, s.last)
		}
	}
}

func seconds(f func()) float64 {
	started := time.Now()
	f()
	return time.Since(started).Seconds()
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
