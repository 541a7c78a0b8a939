package main

import (
	"context"

	"netclass.dev/routing"
	"netclass.dev/routing/drain"
	"netclass.dev/routing/inventory"
	"netclass.dev/routing/kernel"
)

// newDrainer returns who drains this node. What an earlier run was doing is ordered
// at once: it must be made before the engine runs, and after the configuration is in
// force, which says where the lock is.
func (d *daemon) newDrainer(k *kernel.Kernel) *drain.Drainer {
	return drain.New(drain.Options{
		Engine: d.engine, Lease: d.drainLease, Counters: k.Counters, StateDir: d.stateDir, Log: d.log.Logger,
	})
}

// drainLease returns the lock of a name in the Kubernetes API of the configuration in
// force, and of no name the lock that it names; nil where there is none.
func (d *daemon) drainLease(name string) drain.Lease {
	if n := d.nodes.Load(); n != nil {
		if k, ok := n.source.(*inventory.Kubernetes); ok {
			return k.DrainLock(name)
		}
	}
	return nil
}

// Drain and Undrain are what the server asks.
func (d *daemon) Drain(ctx context.Context, req routing.DrainRequest, validateOnly bool, report func(routing.DrainStatus) error) error {
	return d.drainer.Drain(ctx, req, validateOnly, report)
}

func (d *daemon) Undrain(ctx context.Context, req routing.DrainRequest, report func(routing.DrainStatus) error) error {
	return d.drainer.Undrain(ctx, req, report)
}
