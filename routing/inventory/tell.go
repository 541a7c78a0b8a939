package inventory

import (
	"cmp"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"netclass.dev/routing"
)

// publish tells of what has changed.
func (k *Kubernetes) publish(c *collection, now time.Time, notify func()) {
	next := *k.current.Load()
	changed := k.tellNodes(c, &next, now)
	changed = k.tellServices(c, &next, now) || changed
	changed = k.tellDrain(c, &next, now) || changed
	if changed {
		k.current.Store(&next)
		notify()
	}
}

// tellNodes brings the nodes up to date, and reports whether that changes anything.
func (k *Kubernetes) tellNodes(c *collection, next *routing.Inventory, now time.Time) (changed bool) {
	s := &c.standing[ofNodes]
	last := *next
	if s.dirty && !c.unread(ofNodes) {
		s.dirty = false
		nodes := c.nodes()
		if hollow := k.hollow(c, &last); hollow != c.hollow {
			c.hollow = hollow
			c.judge(ofNodes, now)
		}
		if c.hollow == "" {
			if !s.synced || !slices.EqualFunc(nodes, last.Nodes, equalNode) {
				next.Nodes, changed = nodes, true
				c.copyAt = c.copied.Add(copyGap)
			}
			s.synced = true
		}
	}
	switch reason, since := c.old(ofNodes, now); {
	case !since.IsZero():
		next.Stale, next.AsOf = reason, since
	case s.synced:
		next.Synced, next.Stale, next.AsOf = true, "", time.Time{}
	case reason != "":
		next.Stale = reason
	}
	if !changed && next.Synced == last.Synced && next.Stale == last.Stale {
		return false
	}
	switch {
	case next.Stale != "" && !s.warned:
		s.warned = true
		k.opt.Log.Warn("nodes not read", slog.String("source", k.String()), slog.String("error", next.Stale), slog.Bool("kept", next.Known()))
	case next.Stale == "" && (last.Stale != "" || !last.Synced):
		s.warned = false
		k.opt.Log.Info("nodes read", slog.String("source", k.String()), slog.Int("nodes", len(next.Nodes)))
	}
	return true
}

// nodes joins what the resources say of each node, by name. A node is what has a
// Node: what others say of another does not make it one.
func (c *collection) nodes() []routing.Node {
	nodes := make([]routing.Node, 0, len(c.facts[0]))
	for _, f := range c.facts[0] {
		nodes = append(nodes, routing.Node(*f.(*nodeFact)))
	}
	slices.SortFunc(nodes, func(a, b routing.Node) int { return cmp.Compare(a.Name, b.Name) })
	for i, facts := range c.facts[1:] {
		if c.parts[i+1] != ofNodes {
			break
		}
		// By the objects' names, because a map has no order, and a node's first
		// pod CIDR is its first.
		of := make(map[string][]netip.Prefix, len(nodes))
		for _, name := range slices.Sorted(maps.Keys(facts)) {
			n := facts[name].(*nodeFact)
			of[n.Name] = append(of[n.Name], n.PodCIDRs...)
		}
		for i := range nodes {
			nodes[i].PodCIDRs = of[nodes[i].Name]
		}
	}
	return nodes
}

// hollow returns the resource of which there is nothing, where there was something.
// We run on a node with pods: an API server that has none has lost its memory,
// or the definition of what tells of them.
func (k *Kubernetes) hollow(c *collection, last *routing.Inventory) string {
	for i, p := range c.parts {
		if p == ofNodes && len(c.facts[i]) == 0 &&
			slices.ContainsFunc(last.Nodes, func(n routing.Node) bool { return i == 0 || len(n.PodCIDRs) > 0 }) {
			return k.resources[i].String()
		}
	}
	return ""
}

// believed reports whether what this connection says of anything else is to be
// believed: it has nodes. An API server that has lost its memory has no Services
// either.
func (c *collection) believed() bool { return !c.unread(ofNodes) && c.hollow == "" }

// tellServices brings the Services up to date, and reports whether that changes
// anything.
func (k *Kubernetes) tellServices(c *collection, next *routing.Inventory, now time.Time) (changed bool) {
	if c.first(ofServices) < 0 {
		return false
	}
	s := &c.standing[ofServices]
	if s.dirty && !c.unread(ofServices) && c.believed() {
		s.dirty = false
		services := c.services()
		c.complain(k.opt.Log)
		if !s.synced || !slices.EqualFunc(services, next.Services, equalService) {
			if !slices.EqualFunc(services, next.Services, equalButNodes) {
				c.copyAt = c.copied.Add(copyGap)
			}
			next.Services, changed = services, true
		}
		s.synced, next.ServicesSynced = true, true
	}
	reason, _ := c.old(ofServices, now)
	k.warn(c, ofServices, reason)
	changed = changed || reason != next.ServicesStale
	next.ServicesStale = reason
	return changed
}

// complain logs what is odd about Services, once.
func (c *collection) complain(log *slog.Logger) {
	facts := c.facts[c.first(ofServices)]
	for name, f := range facts {
		odd := f.(*serviceFact).odd
		switch odd {
		case c.complaints[name]:
		case "":
			delete(c.complaints, name)
		default:
			c.complaints[name] = odd
			log.Warn("address of a service ignored", slog.String("service", name), slog.String("error", odd))
		}
	}
	maps.DeleteFunc(c.complaints, func(name, _ string) bool { return facts[name] == nil })
}

// tellDrain brings the drain lock up to date, and reports whether that changes
// anything.
func (k *Kubernetes) tellDrain(c *collection, next *routing.Inventory, now time.Time) (changed bool) {
	if c.first(ofDrain) < 0 {
		return false
	}
	s := &c.standing[ofDrain]
	if s.dirty && !c.unread(ofDrain) && c.believed() {
		s.dirty, s.synced = false, true
		c.lock = c.lease(k.opt.Lease)
	}
	lease := c.lock
	reason, _ := c.old(ofDrain, now)
	if reason != "" {
		lease.Unusable = reason
	}
	k.warn(c, ofDrain, lease.Unusable)
	if !s.synced && reason == "" || next.Drain != nil && reflect.DeepEqual(lease, *next.Drain) {
		return false
	}
	next.Drain = &lease
	return true
}

// warn logs that a part other than the nodes is wrong, and when it no longer is.
// Where the nodes are as well, enough has been said.
func (k *Kubernetes) warn(c *collection, p part, reason string) {
	s := &c.standing[p]
	switch {
	case reason != "" && !s.warned && c.reason(ofNodes) == "":
		s.warned = true
		k.opt.Log.Warn("part of the API not usable", slog.String("part", p.String()), slog.String("error", reason))
	case reason == "" && s.warned:
		s.warned = false
		k.opt.Log.Info("part of the API read", slog.String("part", p.String()))
	}
}

// save makes a copy on disk of what has been read.
func (k *Kubernetes) save(c *collection, now time.Time) {
	c.copied = now
	taken := now
	if since := c.standing[ofNodes].since; !since.IsZero() {
		taken = since
	}
	i := k.current.Load()
	if err := k.copy.save(copied{nodes: i.Nodes, services: i.Services, taken: taken}); err != nil {
		k.opt.Log.Warn("copy of the nodes not saved", slog.Any("error", err))
	}
}
