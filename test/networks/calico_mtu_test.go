package networks

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pathMTU wants pods to be told the MTU of the route, which is less than that of
// every link, and packets of that size to cross.
func (c *calico) pathMTU() {
	c.t.Helper()
	for _, f := range c.families {
		var mtu int
		c.within(patience, "path MTU of "+f.String(), func() (err error) {
			err = c.Node(2).Pod.Do(func() (err error) { mtu, err = discover(podOf(3, f)); return err })
			if err == nil && mtu != 1480 {
				err = fmt.Errorf("the path MTU to %s is %d, want 1480", podOf(3, f), mtu)
			}
			return err
		})
	}
}

// discover sends a packet of 1500 bytes that must not be fragmented, and returns
// what the path's MTU then is.
func discover(to netip.Addr) (mtu int, err error) {
	network, level, option, read, header := "udp4", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_MTU, 20
	if to.Is6() {
		network, level, option, read, header = "udp6", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_MTU, 40
	}
	conn, err := net.Dial(network, netip.AddrPortFrom(to, 9).String())
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	if err := control(raw, func(fd int) error { return unix.SetsockoptInt(fd, level, option, unix.IP_PMTUDISC_DO) }); err != nil {
		return 0, err
	}
	_, _ = conn.Write(make([]byte, 1500-header-8))
	time.Sleep(50 * time.Millisecond)
	err = control(raw, func(fd int) error { mtu, err = unix.GetsockoptInt(fd, level, read); return err })
	return mtu, err
}

func control(raw syscall.RawConn, f func(fd int) error) error {
	var err error
	if e := raw.Control(func(fd uintptr) { err = f(int(fd)) }); e != nil {
		return e
	}
	return err
}
