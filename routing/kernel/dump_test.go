package kernel_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"netclass.dev/routing"
)

// Rules and links that come and go during a dump never make it incomplete: it
// is tried again, or fails.
func TestDumpIsWhole(t *testing.T) {
	n := newNode(t)
	const fixed = 1500 // more rules than one datagram holds
	var ops []routing.Op
	for i := range fixed {
		r := rule(routing.IPv4, 1000+uint32(i))
		r.From = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
		ops = append(ops, addRule(r))
	}
	n.apply(t, ops...)

	other := open(t, n.NS)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		first := rule(routing.IPv4, 500, from("10.99.0.0/16"))
		for ctx.Err() == nil {
			_ = other.Apply(ctx, []routing.Op{addRule(first)})
			_ = other.Apply(ctx, []routing.Op{delRule(first)})
		}
	}()
	whole, failed := 0, 0
	for range 100 {
		p, err := n.k.Dump(t.Context())
		if err != nil {
			if !strings.Contains(err.Error(), "changed during the dump") {
				t.Error(err)
			}
			failed++
			continue
		}
		whole++
		if got := len(rulesAt(p, routing.IPv4, 1000, 999+fixed)); got != fixed {
			t.Errorf("a dump that succeeded shows %d of %d rules", got, fixed)
		}
	}
	cancel()
	<-done
	t.Logf("%d dumps whole, %d failed", whole, failed)
	if whole == 0 {
		t.Error("no dump succeeded")
	}
}

func TestDumpCancelled(t *testing.T) {
	n := newNode(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := n.k.Dump(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("dump with a cancelled context: %v", err)
	}
	n.dump(t)
}
