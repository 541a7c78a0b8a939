// Package fibprobe asks the real kernel of a network namespace where a packet
// would go: the stack's lookup by RTM_GETROUTE, and the one that eBPF datapaths
// use by bpf_fib_lookup. It is the measure for package fib and for the
// end-to-end tests.
package fibprobe

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// Answer is what the kernel said.
type Answer struct {
	// Action is NoRoute also where the kernel only says that it has no answer:
	// see Seen.
	Action fib.Action
	Link   string // Forward: the link it leaves by; Route also gives that of Local
	Via    netip.Addr
	Src    netip.Addr      // by Route only
	Table  routing.TableID // by Route only
	Metric uint32          // by BPF, and by Route in IPv6
	Code   string          // the kernel's own word: an errno or BPF_FIB_LKUP_RET_*
}

// String gives the answer as the packet table of an expectation writes it.
func (a Answer) String() string {
	switch {
	case a.Action != fib.Forward:
		return a.Action.String()
	case a.Via.IsValid():
		return a.Link + " via " + a.Via.String()
	}
	return a.Link
}

// Prober asks one namespace. It is not for concurrent use.
type Prober struct {
	conn  *netlink.Conn
	ioctl int // a socket in the namespace: interface names and indexes
	prog  *ebpf.Program
	calls chan func()
}

// Open makes a prober for the namespace of an open file descriptor, which may
// be closed afterwards. It needs root.
//
// The namespace must forward (net.ipv4.ip_forward, net.ipv6.conf.all.forwarding)
// for flows that arrive by a link, and for BPF also on the link asked about, lo
// included. The link must exist, and may be down. What the kernel refuses for
// other reasons than routes looks like an answer of RTM_GETROUTE in IPv4:
//   - forwarding off on the link: EHOSTUNREACH, as of an unreachable route;
//   - a source that is the host's own on a packet that arrives, or that strict
//     rp_filter refuses: EINVAL, as of a blackhole;
//   - a source that is not the host's own on a packet that it sends:
//     ENETUNREACH, as of no route.
func Open(ns int) (*Prober, error) {
	p := &Prober{calls: make(chan func()), ioctl: -1}
	entered := make(chan error)
	go p.thread(ns, entered)
	if err := <-entered; err != nil {
		close(p.calls)
		return nil, fmt.Errorf("enter namespace: %w", err)
	}
	var err error
	p.run(func() { p.ioctl, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open socket: %w", err), p.Close())
	}
	if p.conn, err = netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: ns}); err != nil {
		return nil, errors.Join(fmt.Errorf("open netlink: %w", err), p.Close())
	}
	if p.prog, err = ebpf.NewProgram(lookupProgram()); err != nil {
		return nil, errors.Join(fmt.Errorf("load program: %w", err), p.Close())
	}
	return p, nil
}

// thread runs calls on an operating system thread that stays in the namespace,
// because PROG_TEST_RUN runs in that of its caller. The thread ends with the
// goroutine.
func (p *Prober) thread(ns int, entered chan<- error) {
	runtime.LockOSThread()
	entered <- unix.Setns(ns, unix.CLONE_NEWNET)
	for call := range p.calls {
		call()
	}
}

// run runs fn in the namespace and waits for it.
func (p *Prober) run(fn func()) {
	done := make(chan struct{})
	p.calls <- func() { fn(); close(done) }
	<-done
}

// Close ends the prober.
func (p *Prober) Close() error {
	close(p.calls)
	var errs []error
	if p.ioctl >= 0 {
		errs = append(errs, unix.Close(p.ioctl))
	}
	if p.conn != nil {
		errs = append(errs, p.conn.Close())
	}
	if p.prog != nil {
		errs = append(errs, p.prog.Close())
	}
	return errors.Join(errs...)
}

// index returns a link's index.
func (p *Prober) index(name string) (uint32, error) {
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		err = unix.IoctlIfreq(p.ioctl, unix.SIOCGIFINDEX, ifr)
	}
	if err != nil {
		return 0, fmt.Errorf("look up link %s: %w", name, err)
	}
	return ifr.Uint32(), nil
}

// name returns a link's name.
func (p *Prober) name(index uint32) (string, error) {
	ifr, err := unix.NewIfreq("")
	if err == nil {
		ifr.SetUint32(index)
		err = unix.IoctlIfreq(p.ioctl, unix.SIOCGIFNAME, ifr)
	}
	if err != nil {
		return "", fmt.Errorf("look up link %d: %w", index, err)
	}
	return ifr.Name(), nil
}
