package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// watchGroups are the multicast groups of everything that a pass looks at.
const watchGroups = 1<<(unix.RTNLGRP_LINK-1) |
	1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1) |
	1<<(unix.RTNLGRP_IPV4_ROUTE-1) | 1<<(unix.RTNLGRP_IPV6_ROUTE-1) |
	1<<(unix.RTNLGRP_IPV4_RULE-1) | 1<<(unix.RTNLGRP_IPV6_RULE-1)

// A subscription that fails at once again is renewed after a growing pause.
const (
	renewPause    = 10 * time.Millisecond
	renewPauseMax = 5 * time.Second
)

// watchRange is which route events count.
type watchRange struct {
	protocols map[routing.Protocol]bool
	tables    map[routing.TableID]bool
}

// Watch calls notify whenever something changed that is not our own doing, and
// once at the start of each subscription, so that nothing in between is lost. It
// blocks until ctx ends or the Kernel is closed, and returns why.
//
// dump says whether the kernel must be read again to know what changed; events
// never say it all, so that it always is true. An overrun or any other failure
// renews the subscription; one that cannot be made is an error, so that the
// caller knows that nobody will tell it anything.
func (k *Kernel) Watch(ctx context.Context, notify func(dump bool)) error {
	pause := renewPause
	for {
		started := time.Now()
		subscribed := false
		err := k.subscribe(ctx, func(dump bool) {
			subscribed = true
			notify(dump)
		})
		if end := k.alive(ctx); end != nil {
			return end
		}
		if !subscribed {
			return fmt.Errorf("subscribe to kernel events: %w", err)
		}
		if errors.Is(err, unix.ENOBUFS) {
			k.log.Info("kernel events overran the subscription")
		} else {
			k.log.Warn("subscription to kernel events failed", "error", err)
		}
		if time.Since(started) > renewPauseMax {
			pause = renewPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		case <-k.closed:
		}
		pause = min(2*pause, renewPauseMax)
	}
}

// subscribe watches until something fails.
func (k *Kernel) subscribe(ctx context.Context, notify func(dump bool)) error {
	s, err := dial(k.netns, 0, k.watchBuffer)
	if err != nil {
		return err
	}
	defer func() { _ = s.close() }()
	ended := make(chan struct{})
	defer close(ended)
	go func() { // wakes the reader up
		select {
		case <-ctx.Done():
		case <-k.closed:
		case <-ended:
		}
		_ = s.conn.SetReadDeadline(time.Unix(1, 0))
	}()
	if err := s.conn.SetBPF(others(k.port)); err != nil {
		return err
	}
	for group := uint32(1); group <= 32; group++ {
		if watchGroups&(1<<(group-1)) != 0 {
			if err := s.join(group); err != nil {
				return err
			}
		}
	}
	notify(true)
	for {
		datagram, err := s.receive()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return net.ErrClosed
			}
			return err
		}
		for m, err := range messages(datagram) {
			if err != nil {
				return err
			}
			if k.counts(m) {
				k.noteMeddler(m)
				notify(true)
				break // the rest of the datagram says no more
			}
		}
	}
}

// counts reports whether an event means that the kernel must be looked at.
func (k *Kernel) counts(m message) bool {
	switch m.kind {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK, unix.RTM_NEWADDR, unix.RTM_DELADDR:
		// Also one that leaves everything as it was: a short flap takes IPv4
		// routes without an event of their own.
		return true
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		return m.port != k.port
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return m.port != k.port && k.watched.Load().holds(m.data)
	}
	return false
}

// holds reports whether a route event (struct rtmsg) is in range. One that
// cannot be read is. Of main, where others come and go all the time, only routes
// of a metric of ours count: a `replace` by another program takes one of ours
// away without naming our protocol.
func (w *watchRange) holds(b []byte) bool {
	if len(b) < unix.SizeofRtMsg {
		return true
	}
	if w.protocols[routing.Protocol(b[5])] {
		return true
	}
	table, metric := routing.TableID(b[4]), uint32(0)
	for kind, v := range attributes(b[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_TABLE:
			table = routing.TableID(u32(v))
		case unix.RTA_PRIORITY:
			metric = u32(v)
		}
	}
	if table != routing.MainID {
		return w.tables[table]
	}
	switch metric {
	case routing.MetricPath, routing.MetricFallback, routing.MetricGuard:
		return w.tables[table]
	}
	return false
}

// others is a filter that keeps the events of our own changes from being queued
// at all: a large batch would overrun the subscription and wake us for nothing.
func others(port uint32) []bpf.RawInstruction {
	// A filter loads numbers in network order.
	ours := binary.BigEndian.Uint32(native.AppendUint32(nil, port))
	prog, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 4}, // nlmsg_pid
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: ours, SkipFalse: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: 1<<32 - 1},
	})
	if err != nil {
		return nil // not possible for a constant program
	}
	return prog
}
