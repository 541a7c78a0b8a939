package fibprobe

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
	"netclass.dev/test/netns"
)

// TestBoundSocket checks the model with real sockets bound to a link, for which
// RTM_GETROUTE cannot stand in IPv6: IPv4 takes any destination that the lookup
// refuses to be on the link, IPv6 looks only at routes over the link, so that
// reject routes are not seen. Neither takes a route over another link.
func TestBoundSocket(t *testing.T) {
	t.Parallel()
	ns, far := netns.New(t), netns.New(t)
	router(t, ns)
	for i, link := range worldLinks {
		check(t, ns.Veth(link, far, link))
		check(t, ns.Up(link))
		n := string(rune('0' + i))
		check(t, ns.Addr(link, "172.16."+n+".1/24", "fd01:"+n+"::1/64"))
	}
	check(t, far.Up(worldLinks...))
	check(t, ns.Down("a3"))
	batch(t, ns, routing.IPv4, false, []string{
		"rule add priority 200 to 10.3.0.0/16 unreachable",
		"route add unreachable 10.1.0.0/16 metric 10",
		"route add 10.1.0.0/16 via 172.16.1.9 metric 20",
		"route add unreachable 10.2.0.0/16 metric 10",
		"route add default via 172.16.0.9",
	})
	batch(t, ns, routing.IPv6, false, []string{
		"rule add priority 200 to fd00:3::/32 unreachable",
		"route add unreachable fd00:1::/32 metric 10",
		"route add fd00:1::/32 via fd01:1::9 metric 20",
		"route add unreachable fd00:2::/32 metric 10",
		"route add default via fd01::9",
	})
	f := fib.New(dump(t, ns))
	for _, c := range []struct {
		flow fib.Flow
		want error // of connect; nil: it has a route over the link
	}{
		{fib.Flow{Dst: addr("10.1.0.5"), OIF: "a1"}, nil},
		{fib.Flow{Dst: addr("10.2.0.5"), OIF: "a1"}, nil},
		{fib.Flow{Dst: addr("10.3.0.5"), OIF: "a1"}, nil},
		{fib.Flow{Dst: addr("10.1.0.5"), OIF: "a3"}, unix.ENETUNREACH},
		{fib.Flow{Dst: addr("10.2.0.5")}, unix.EHOSTUNREACH},
		{fib.Flow{Dst: addr("10.3.0.5")}, unix.ENETUNREACH},
		{fib.Flow{Dst: addr("10.9.0.5")}, nil},
		{fib.Flow{Dst: addr("fd00:1::5"), OIF: "a1"}, nil},
		{fib.Flow{Dst: addr("fd00:1::5"), Src: addr("fd01:1::1"), OIF: "a1"}, nil},
		{fib.Flow{Dst: addr("fd00:2::5"), OIF: "a1"}, unix.ENETUNREACH},
		{fib.Flow{Dst: addr("fd00:2::5"), Src: addr("fd01:1::1"), OIF: "a1"}, unix.ENETUNREACH},
		{fib.Flow{Dst: addr("fd00:2::5"), OIF: "a0"}, nil}, // by the default
		{fib.Flow{Dst: addr("fd00:2::5"), Src: addr("fd01::1"), OIF: "a0"}, nil},
		{fib.Flow{Dst: addr("fd00:3::5"), OIF: "a1"}, unix.ENETUNREACH},
		{fib.Flow{Dst: addr("fd00:9::5"), Src: addr("fd01:1::1"), OIF: "a1"}, unix.ENETUNREACH},
		{fib.Flow{Dst: addr("fd00:1::5")}, unix.EHOSTUNREACH},
		{fib.Flow{Dst: addr("fd00:3::5")}, unix.ENETUNREACH},
	} {
		t.Run(fmt.Sprintf("%s from %s by %s", c.flow.Dst, c.flow.Src, c.flow.OIF), func(t *testing.T) {
			var err error
			check(t, ns.Do(func() error { err = connect(c.flow); return nil }))
			if !errors.Is(err, c.want) {
				t.Errorf("connect: got %v, want %v", err, c.want)
			}
			r := f.Lookup(c.flow, fib.Stack)
			if (r.Action == fib.Forward) != (c.want == nil) || c.flow.OIF != "" && c.want == nil && r.Route.Link != c.flow.OIF {
				t.Errorf("the model says %s by %q", r.Action, r.Route.Link)
			}
		})
	}
}

// connect connects a datagram socket, which is a route lookup and nothing else.
func connect(f fib.Flow) error {
	family, to, from := unix.AF_INET6, sockaddr(f.Dst), unix.Sockaddr(nil)
	if f.Dst.Is4() {
		family = unix.AF_INET
	}
	if f.Src.IsValid() {
		from = sockaddr(f.Src)
	}
	s, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if f.OIF != "" {
		if err := unix.SetsockoptString(s, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, f.OIF); err != nil {
			return err
		}
	}
	if from != nil {
		if err := unix.Bind(s, from); err != nil {
			return err
		}
	}
	return unix.Connect(s, to)
}

func sockaddr(a netip.Addr) unix.Sockaddr {
	const port = 9
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: port}
	}
	return &unix.SockaddrInet6{Addr: a.As16(), Port: port}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }
