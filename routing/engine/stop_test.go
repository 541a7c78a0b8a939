package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
)

func TestStopKeep(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		kernel := r.kernel.text()
		r.kernel.taken()
		r.end()
		r.speaker.taken()
		if err := r.engine.Stop(routing.ExitKeep); err != nil {
			t.Error(err)
		}
		if r.kernel.text() != kernel || len(r.kernel.taken()) > 0 {
			t.Error("keep changed the kernel")
		}
		orders := r.speaker.taken()
		if len(orders) != 1 || len(orders[0].Neighbors) != 4 || len(orders[0].Announce) != 2 {
			t.Fatalf("orders %+v", orders)
		}
		for _, n := range orders[0].Neighbors {
			if n.Upstream {
				t.Errorf("session with the router %s is kept", n.Key)
			}
		}
		if len(r.speaker.closed) != 1 || r.speaker.closed[0] {
			t.Errorf("closed with CEASE: %v", r.speaker.closed)
		}
	})
}

func TestStopFlush(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		// An older configuration's objects that could not be deleted.
		r.kernel.set(func(k *fakeKernel) {
			k.onApply = func(ops []routing.Op) []error {
				errs := make([]error, len(ops))
				for i, op := range ops {
					if op.Verb == routing.Delete {
						errs[i] = errors.New("no")
					}
				}
				return errs
			}
		})
		r.engine.Configure(seedConfig(t, "id: 47", "id: 48", "ipv6: 1000, ipv4: 1001", "ipv6: 1100, ipv4: 1101"), routing.ConfigStatus{}, nil)
		r.wait(200 * time.Millisecond)
		foreign := routing.Route{Table: 47, Dst: routePrefix("192.0.2.0/24"), Metric: 7, Protocol: 4, Link: "mgmt0"}
		r.kernel.foreign(routing.Add, foreign)
		r.kernel.set(func(k *fakeKernel) { k.onApply = nil })
		if text := r.kernel.text(); !strings.Contains(text, "lookup 47") || !strings.Contains(text, "lookup 48") {
			t.Fatal("not both tables are there")
		}
		r.end()
		r.kernel.taken()
		if err := r.engine.Stop(routing.ExitFlush); err != nil {
			t.Error(err)
		}
		if got := r.kernel.text(); got != foreign.String()+"\n" {
			t.Errorf("left:\n%s", got)
		}
		if len(r.speaker.closed) != 1 || !r.speaker.closed[0] {
			t.Errorf("closed with CEASE: %v", r.speaker.closed)
		}
		batches := r.kernel.taken()
		for i, b := range batches {
			for _, op := range b {
				if op.Stage != b[0].Stage || i > 0 && op.Stage <= batches[i-1][0].Stage {
					t.Errorf("%s out of order", op)
				}
			}
		}
		if b := batches[len(batches)-1]; b[0].Stage != routing.StageDropGuard {
			t.Errorf("the last out is of %s", b[0].Stage)
		}
	})
}

func TestFlush(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.end()
		ledger, err := engine.LoadLedger(r.stateDir)
		if err != nil {
			t.Fatal(err)
		}
		own := routing.Ownership{Protocols: ledger.Protocols, Tables: ledger.Tables, Priorities: ledger.Priorities}
		refused := errors.New("operation not permitted")
		r.kernel.onApply = func(ops []routing.Op) []error {
			errs := make([]error, len(ops))
			if ops[0].Stage == routing.StageDropPeers {
				errs[0] = refused
			}
			return errs
		}
		r.kernel.taken()
		n, err := engine.Flush(t.Context(), r.kernel, own)
		if !errors.Is(err, refused) || !strings.Contains(err.Error(), "delete route 10.244.2.0/24") || n == 0 {
			t.Errorf("flushed %d, error %v", n, err)
		}
		if batches := r.kernel.taken(); batches[len(batches)-1][0].Stage != routing.StageDropPeers {
			t.Error("the flush went on after a failure")
		}
		r.kernel.onApply = nil
		if n, err := engine.Flush(t.Context(), r.kernel, own); err != nil || n == 0 || r.kernel.text() != "" {
			t.Errorf("flushed %d, error %v, left:\n%s", n, err, r.kernel.text())
		}
		if n, err := engine.Flush(t.Context(), r.kernel, own); err != nil || n != 0 {
			t.Errorf("a second flush: %d, %v", n, err)
		}
		r.kernel.dumpErr = refused
		if _, err := engine.Flush(t.Context(), r.kernel, own); !errors.Is(err, refused) {
			t.Errorf("error %v", err)
		}
	})
}

// TestStopWithoutPass: what an earlier run left is flushed although this one
// never got to read the kernel, nor has a ledger of it, and stopping before any
// configuration is no error.
func TestStopWithoutPass(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.end()
		r.stateDir = ""
		r.make()
		r.kernel.dumpErr = errors.New("no")
		r.start(seedConfig(t))
		r.end()
		r.kernel.dumpErr = nil
		if err := r.engine.Stop(routing.ExitFlush); err != nil || r.kernel.text() != "" {
			t.Errorf("error %v, left:\n%s", err, r.kernel.text())
		}
	})
	bubble(t, func(t *testing.T, r *rig) {
		r.start(nil)
		r.end()
		for _, policy := range []routing.ExitPolicy{routing.ExitKeep, routing.ExitFlush, routing.ExitAuto} {
			if err := r.engine.Stop(policy); err != nil {
				t.Errorf("%s: %v", policy, err)
			}
		}
	})
}
