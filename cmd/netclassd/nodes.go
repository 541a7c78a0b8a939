package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/inventory"
)

// nodes is the inventory's source in force.
type nodes struct {
	source
	origin origin
	stop   context.CancelFunc
}

// source knows the nodes.
type source interface {
	Inventory() *routing.Inventory
	Run(ctx context.Context, notify func())
}

// origin is all of a configuration that the source depends on.
type origin struct {
	file        string
	kubernetes  routing.Kubernetes // used if file is empty
	podCIDRs    string
	publish     string
	annotations []string
	protect     string
	lease       inventory.LeaseName
	// Services are read where some upstream is told of them.
	services      bool
	serviceLabels []string
}

func originOf(c *routing.Config) (origin, bool) {
	switch {
	case c.Cluster == nil:
		return origin{}, false
	case c.Cluster.Kubernetes == nil:
		return origin{file: c.Cluster.NodesFile}, true
	}
	o := origin{
		kubernetes: *c.Cluster.Kubernetes, podCIDRs: c.Cluster.PodCIDRs, publish: c.Cluster.Publish, annotations: c.Annotations(),
		protect: c.Drain.ProtectSelector, lease: inventory.LeaseName{Namespace: c.Drain.LeaseNamespace, Name: c.Drain.LeaseName},
	}
	o.services, o.serviceLabels = servicesOf(c)
	return o, true
}

// servicesOf reports whether Services are announced, and which of their labels say
// which of them are.
func servicesOf(c *routing.Config) (announced bool, keys []string) {
	if c.BGP == nil {
		return false, nil
	}
	for i := range c.BGP.Upstreams {
		if s := c.BGP.Upstreams[i].Advertise.Services; s != nil {
			announced = true
			keys = slices.AppendSeq(keys, maps.Keys(s.Selector))
		}
	}
	slices.Sort(keys)
	return announced, slices.Compact(keys)
}

func (o origin) equal(p origin) bool {
	return o.file == p.file && o.kubernetes == p.kubernetes && o.podCIDRs == p.podCIDRs && o.publish == p.publish &&
		slices.Equal(o.annotations, p.annotations) && o.protect == p.protect && o.lease == p.lease &&
		o.services == p.services && slices.Equal(o.serviceLabels, p.serviceLabels)
}

// ofKubernetes returns the source of a configuration that has a cluster to ask.
func ofKubernetes(o origin, stateDir string, log *slog.Logger) *inventory.Kubernetes {
	return inventory.NewKubernetes(inventory.KubernetesOptions{
		Kubeconfig: o.kubernetes.Kubeconfig, Context: o.kubernetes.Context, PodCIDRs: o.podCIDRs,
		Annotations: o.annotations, Protect: o.protect, Services: o.services, ServiceLabels: o.serviceLabels,
		Lease: o.lease, StateDir: stateDir, Log: log,
	})
}

// follow makes what a configuration names the inventory's source.
func (d *daemon) follow(c *routing.Config) {
	origin, wanted := originOf(c)
	old := d.nodes.Load()
	if old != nil && wanted && old.origin.equal(origin) {
		return
	}
	// The old source ends before the new one begins: they share a copy on disk.
	if old != nil {
		old.stop()
	}
	if !wanted {
		d.nodes.Store(nil)
		return
	}
	ctx, cancel := context.WithCancel(d.ctx)
	done := make(chan struct{})
	next := &nodes{origin: origin, stop: func() { cancel(); <-done }}
	if origin.file != "" {
		next.source = inventory.NewFile(origin.file, d.log.Logger)
	} else {
		k := ofKubernetes(origin, d.stateDir, d.log.Logger)
		if origin.publish != "off" {
			go k.Publish(ctx, d.engine.Wait, origin.publish == "force")
		}
		next.source = k
	}
	d.nodes.Store(next)
	go func() {
		defer close(done)
		next.Run(ctx, d.engine.Look)
	}()
}

// unfollow ends the source, which then saves what it knows. It has not much time
// for it: we are being stopped.
func (d *daemon) unfollow() {
	n := d.nodes.Load()
	if n == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.stop()
	}()
	select {
	case <-done:
	case <-time.After(saveTime):
	}
}

// saveTime is how long the end of the daemon may be held up by its source's.
const saveTime = time.Second

// inventory returns the nodes as the source in force knows them.
func (d *daemon) inventory() *routing.Inventory {
	if n := d.nodes.Load(); n != nil {
		return n.Inventory()
	}
	return &routing.Inventory{Synced: true, Source: "none configured"}
}
