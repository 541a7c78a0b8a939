package bench

import (
	"errors"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/test/netns"
)

// event is one change of a route, as the kernel tells it.
type event struct {
	at      time.Time
	deleted bool
	table   uint32
	dst     netip.Prefix
	via     netip.Addr
	link    uint32
}

// monitor hears of every change of a route in a namespace.
type monitor struct {
	fd int

	mu      sync.Mutex
	events  []event
	missing map[netip.Prefix]netip.Addr // routes that are waited for, with their next hops
	arrived chan time.Time              // gets the time at which none is missing any more
	fault   error
}

// table is the kernel table that all benches fill.
const table = 47

func newMonitor(b *testing.B, ns *netns.NS) *monitor {
	b.Helper()
	m := &monitor{}
	err := ns.Do(func() (err error) {
		m.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		groups := uint32(1<<(unix.RTNLGRP_IPV4_ROUTE-1) | 1<<(unix.RTNLGRP_IPV6_ROUTE-1))
		return errors.Join(
			unix.SetsockoptInt(m.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.Bind(m.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}),
			// So that the reader looks for its end now and then.
			unix.SetsockoptTimeval(m.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}),
		)
	})
	if err != nil {
		b.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		m.read(stop)
	}()
	b.Cleanup(func() {
		close(stop)
		<-done
		_ = unix.Close(m.fd)
		if m.fault != nil {
			b.Error(m.fault)
		}
	})
	return m
}

func (m *monitor) read(stop chan struct{}) {
	buf := make([]byte, 1<<16)
	for {
		select {
		case <-stop:
			return
		default:
		}
		n, _, err := unix.Recvfrom(m.fd, buf, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		now := time.Now()
		messages, parseErr := syscall.ParseNetlinkMessage(buf[:max(n, 0)])
		m.mu.Lock()
		if err := errors.Join(err, parseErr); err != nil && m.fault == nil {
			m.fault = err
		}
		for i := range messages {
			m.take(now, &messages[i])
		}
		m.mu.Unlock()
	}
}

func (m *monitor) take(now time.Time, msg *syscall.NetlinkMessage) {
	kind := msg.Header.Type
	if kind != unix.RTM_NEWROUTE && kind != unix.RTM_DELROUTE {
		return
	}
	attrs, err := syscall.ParseNetlinkRouteAttr(msg)
	if err != nil || len(msg.Data) < unix.SizeofRtMsg {
		return
	}
	e := event{at: now, deleted: kind == unix.RTM_DELROUTE}
	for _, a := range attrs {
		switch a.Attr.Type {
		case unix.RTA_TABLE:
			e.table = nativeUint32(a.Value)
		case unix.RTA_OIF:
			e.link = nativeUint32(a.Value)
		case unix.RTA_DST:
			addr, _ := netip.AddrFromSlice(a.Value)
			e.dst = netip.PrefixFrom(addr, int(msg.Data[1]))
		case unix.RTA_GATEWAY:
			e.via, _ = netip.AddrFromSlice(a.Value)
		}
	}
	m.events = append(m.events, e)
	if via, ok := m.missing[e.dst]; ok && !e.deleted && e.table == table && e.via == via {
		delete(m.missing, e.dst)
		if len(m.missing) == 0 {
			m.arrived <- now
		}
	}
}

// await forgets what was heard, and returns where the time is told at which the
// last of the routes has come into the table.
func (m *monitor) await(paths map[netip.Prefix]netip.Addr) <-chan time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = nil
	m.arrived = make(chan time.Time, 1)
	m.missing = make(map[netip.Prefix]netip.Addr, len(paths))
	for dst, via := range paths {
		m.missing[dst] = via
	}
	return m.arrived
}

// missed returns how many routes have not come yet.
func (m *monitor) missed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.missing)
}

// heard returns the changes since the last call of await.
func (m *monitor) heard() []event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]event(nil), m.events...)
}
