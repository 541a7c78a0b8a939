package fakekernel_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
	"netclass.dev/test/fakekernel"
)

func unreachable(dst string) routing.Op {
	return routing.Op{Verb: routing.Add, Route: routing.Route{Table: 47, Metric: routing.MetricFence, Type: routing.Unreachable,
		Protocol: routing.ProtocolNetclass, Dst: netip.MustParsePrefix(dst)}}
}

func TestFaults(t *testing.T) {
	k := fakekernel.New()
	ops := []routing.Op{unreachable("10.1.0.0/16"), unreachable("10.2.0.0/16"), unreachable("10.3.0.0/16")}
	k.SetFaults(fakekernel.FailAt(1, unix.ENOBUFS))
	errs := k.Apply(t.Context(), ops)
	if len(errs) != 3 || errs[0] != nil || !errors.Is(errs[1], unix.ENOBUFS) || errs[2] != nil {
		t.Errorf("with the second op failing: %v", errs)
	}
	k.SetFaults(fakekernel.Refuse(unix.EPERM))
	if errs := k.Apply(t.Context(), ops[1:2]); len(errs) != 1 || !errors.Is(errs[0], unix.EPERM) {
		t.Errorf("without permission: %v", errs)
	}
	k.SetFaults(fakekernel.InterruptDumps(1))
	if _, err := k.Dump(t.Context()); err == nil {
		t.Error("an interrupted dump succeeded")
	}
	if _, err := k.Dump(t.Context()); err != nil {
		t.Error(err)
	}
	steps := 0
	k.SetFaults(fakekernel.Faults{Applied: func(_ routing.Op, after *routing.Kernel) {
		steps++
		if len(after.Routes) == 0 {
			t.Error("an intermediate picture is empty")
		}
	}})
	if errs := k.Apply(t.Context(), ops[1:2]); errs != nil || steps != 1 {
		t.Errorf("after the fault: %v, %d steps", errs, steps)
	}
	if k.Writes() != 1 || k.Dumps() != 2 {
		t.Errorf("%d writes, %d dumps", k.Writes(), k.Dumps())
	}
}

// The fake stands in a synctest bubble: a Watch that waits is durably blocked.
func TestWatchInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := fakekernel.New()
		calls := 0
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = k.Watch(ctx, func(bool) { calls++ }) }()
		synctest.Wait()
		if err := k.AddLink("pod0"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		k.Overrun()
		synctest.Wait()
		k.SetDeaf(true)
		if err := k.SetUp("pod0", false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if calls != 3 {
			t.Errorf("%d calls", calls)
		}
		if err := k.SetUp("absent0", false); !errors.Is(err, unix.ENODEV) {
			t.Errorf("a link that is absent: %v", err)
		}
		cancel()
		synctest.Wait()
	})
}
