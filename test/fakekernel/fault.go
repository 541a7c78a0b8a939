package fakekernel

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// Faults says what goes wrong. Its functions are called with the kernel locked:
// they must not call its methods.
type Faults struct {
	// Apply is asked before each op of Apply, numbered from the start or the last
	// SetFaults; an error refuses it.
	Apply func(n int, op routing.Op) error
	// Applied sees the whole picture after each op that was carried out: the
	// states that a crash could leave.
	Applied func(op routing.Op, after *routing.Kernel)
	// Dump is asked before each dump; an error fails it.
	Dump func() error
	// Probe is asked before each probe.
	Probe func(link string, hop netip.Addr) error
}

// SetFaults replaces what goes wrong, and counts ops from 0 again. The zero
// value is a kernel in good order.
func (k *Kernel) SetFaults(f Faults) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults = f
	k.writes = 0
}

// FailAt refuses the n-th op from now (from 0) with err, and no other.
func FailAt(n int, err error) Faults {
	return Faults{Apply: func(i int, _ routing.Op) error {
		if i == n {
			return err
		}
		return nil
	}}
}

// Refuse refuses every op with err, such as unix.EPERM.
func Refuse(err error) Faults {
	return Faults{Apply: func(int, routing.Op) error { return err }}
}

// InterruptDumps fails the next n dumps as one that the kernel interrupted so
// often that it was given up.
func InterruptDumps(n int) Faults {
	return Faults{Dump: func() error {
		if n == 0 {
			return nil
		}
		n--
		return fmt.Errorf("the kernel changed during the dump: %w", unix.EINTR)
	}}
}

// Overrun makes the subscription overflow: everything before it may be lost, and
// the watcher is told to dump.
func (k *Kernel) Overrun() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.event()
}

// SetDeaf loses every event while it is set.
func (k *Kernel) SetDeaf(deaf bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deaf = deaf
}

// Writes counts the ops tried since the start or the last SetFaults.
func (k *Kernel) Writes() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.writes
}

// Dumps counts the dumps.
func (k *Kernel) Dumps() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dumps
}

// Picture is Dump without faults or counting.
func (k *Kernel) Picture() *routing.Kernel {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.picture()
}

// Link is a copy of one link, nil when there is none.
func (k *Kernel) Link(name string) *routing.Link {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.link(name)
	if l == nil {
		return nil
	}
	c := *l
	c.Addrs = slices.Clone(l.Addrs)
	return &c
}
