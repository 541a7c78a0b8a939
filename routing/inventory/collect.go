package inventory

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"netclass.dev/routing"
)

const (
	// gather is how long changes are gathered before they are told of: those of
	// many nodes often come together.
	gather = 20 * time.Millisecond
	// settle is how long the reasons of a failure are gathered.
	settle = 250 * time.Millisecond
	// patience is how long a source that has been read may be away before anyone
	// hears of it. Watches end all the time, and begin again.
	patience = 5 * time.Second
	// copyGap is the least time between two copies on disk of nodes that change,
	// copyAge the age at which one is made of nodes that do not.
	copyGap, copyAge = 5 * time.Second, time.Hour
)

// collection is what the readers have told. Run's goroutine owns it.
type collection struct {
	generation int                        // of the connection
	facts      []map[string]*routing.Node // of each resource, by the object's name
	pending    []bool                     // resources that this connection has not read yet
	dirty      bool                       // facts that have not been told of
	errs       []error                    // why each cannot be read
	hollow     string                     // what there is none of, where there was some
	err        error                      // why there is no connection
	since      time.Time                  // something is wrong; zero: nothing is
	synced     bool                       // all have been read at least once
	warned     bool                       // the log says that something is wrong

	toldAt  time.Time // when to tell of changes; zero: there are none
	staleAt time.Time // when to tell that something is wrong; zero: never
	copyAt  time.Time // when to make a copy; zero: never
	copied  time.Time
}

// collect takes in what the readers tell until ctx ends.
func (k *Kubernetes) collect(ctx context.Context, events <-chan event, notify func()) {
	n := len(k.resources)
	c := &collection{facts: make([]map[string]*routing.Node, n), pending: make([]bool, n), errs: make([]error, n)}
	for i := range n {
		c.facts[i], c.pending[i] = make(map[string]*routing.Node), true
	}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		if due := c.due(); !due.IsZero() {
			timer.Reset(time.Until(due))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			if c.synced && (c.since.IsZero() || !c.copyAt.IsZero()) {
				k.save(c, time.Now())
			}
			return
		case e := <-events:
			c.take(e, time.Now())
		case <-timer.C:
			now := time.Now()
			told, stale := at(&c.toldAt, now), at(&c.staleAt, now)
			if told || stale {
				k.publish(c, now, notify)
			}
			if at(&c.copyAt, now) {
				k.save(c, now)
			}
		}
	}
}

// due returns when something is to be done, or zero.
func (c *collection) due() time.Time {
	var due time.Time
	for _, t := range []time.Time{c.toldAt, c.staleAt, c.copyAt} {
		if !t.IsZero() && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	return due
}

// at reports whether a time has come, and takes it down.
func at(t *time.Time, now time.Time) bool {
	if t.IsZero() || now.Before(*t) {
		return false
	}
	*t = time.Time{}
	return true
}

// take takes in one event.
func (c *collection) take(e event, now time.Time) {
	switch {
	case e.begun:
		for i := range c.pending {
			c.pending[i] = true
		}
		c.generation, c.err = e.generation, e.err
		c.judge(now)
	case e.generation != c.generation:
		// An old connection's reader, which is about to end.
	case e.err != nil:
		c.errs[e.resource] = e.err
		c.judge(now)
	case e.up:
		c.errs[e.resource] = nil
		c.judge(now)
		if c.synced && now.Sub(c.copied) > copyAge {
			c.copyAt = now
		}
	case e.whole != nil:
		c.facts[e.resource], c.pending[e.resource] = e.whole, false
		c.changed(now)
		trim(len(e.whole))
	case !equalFact(c.facts[e.resource][e.name], e.fact):
		if e.fact == nil {
			delete(c.facts[e.resource], e.name)
		} else {
			c.facts[e.resource][e.name] = e.fact
		}
		c.changed(now)
	}
}

// changed has the nodes told of soon.
func (c *collection) changed(now time.Time) {
	c.dirty = true
	c.tellAt(now)
}

func (c *collection) tellAt(now time.Time) {
	if c.toldAt.IsZero() {
		c.toldAt = now.Add(gather)
	}
}

// judge takes in whether something is wrong. What has just begun to be is told
// of later, unless nothing has been read at all.
func (c *collection) judge(now time.Time) {
	if c.reason() == "" {
		c.since, c.staleAt = time.Time{}, time.Time{}
		c.tellAt(now)
		return
	}
	if c.since.IsZero() {
		c.since = now
	}
	// A refusal comes twice, because what cannot be watched is then listed: the
	// last word counts.
	if c.staleAt = now.Add(settle); c.synced && c.staleAt.Before(c.since.Add(patience)) {
		c.staleAt = c.since.Add(patience)
	}
}

// reason says what is wrong; empty: nothing is.
func (c *collection) reason() string {
	if c.err != nil {
		return c.err.Error()
	}
	if c.hollow != "" {
		return "read " + c.hollow + ": the API server has none at all any more, which is not believed"
	}
	var texts []string
	for _, err := range c.errs {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	return strings.Join(texts, "; ")
}

// nodes joins what the resources say of each node, by name. A node is what has a
// Node: what others say of another does not make it one.
func (c *collection) nodes() []routing.Node {
	nodes := make([]routing.Node, 0, len(c.facts[0]))
	for _, n := range c.facts[0] {
		nodes = append(nodes, *n)
	}
	slices.SortFunc(nodes, func(a, b routing.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, facts := range c.facts[1:] {
		// By the objects' names, because a map has no order, and a node's first
		// pod CIDR is its first.
		of := make(map[string][]netip.Prefix, len(nodes))
		for _, name := range slices.Sorted(maps.Keys(facts)) {
			of[facts[name].Name] = append(of[facts[name].Name], facts[name].PodCIDRs...)
		}
		for i := range nodes {
			nodes[i].PodCIDRs = of[nodes[i].Name]
		}
	}
	return nodes
}

// publish tells of what has changed.
func (k *Kubernetes) publish(c *collection, now time.Time, notify func()) {
	last := k.current.Load()
	next := *last
	if c.dirty && !slices.Contains(c.pending, true) {
		c.dirty = false
		nodes := c.nodes()
		if hollow := k.hollow(c, last); hollow != c.hollow {
			c.hollow = hollow
			c.judge(now)
		}
		if c.hollow == "" {
			if !c.synced || !slices.EqualFunc(nodes, last.Nodes, equalNode) {
				next.Nodes = nodes
				c.copyAt = c.copied.Add(copyGap)
			}
			c.synced = true
		}
	}
	reason := c.reason()
	switch late := now.Sub(c.since) >= patience; {
	case !c.synced && reason != "":
		next.Stale = reason
	case c.synced && reason != "" && late:
		next.Stale, next.AsOf = reason, c.since
	case c.synced:
		next.Synced, next.Stale, next.AsOf = true, "", time.Time{}
	}
	if next.Synced == last.Synced && next.Stale == last.Stale && slices.EqualFunc(next.Nodes, last.Nodes, equalNode) {
		return
	}
	switch {
	case next.Stale != "" && !c.warned:
		c.warned = true
		k.opt.Log.Warn("nodes not read", slog.String("source", k.String()), slog.String("error", next.Stale), slog.Bool("kept", next.Known()))
	case next.Stale == "" && (last.Stale != "" || !last.Synced):
		c.warned = false
		k.opt.Log.Info("nodes read", slog.String("source", k.String()), slog.Int("nodes", len(next.Nodes)))
	}
	k.current.Store(&next)
	notify()
}

// hollow returns the resource of which there is nothing, where there was something.
// We run on a node with pods: an API server that has none has lost its memory,
// or the definition of what tells of them.
func (k *Kubernetes) hollow(c *collection, last *routing.Inventory) string {
	for i := range k.resources {
		if len(c.facts[i]) == 0 && slices.ContainsFunc(last.Nodes, func(n routing.Node) bool { return i == 0 || len(n.PodCIDRs) > 0 }) {
			return k.resources[i].String()
		}
	}
	return ""
}

// save makes a copy on disk of what has been read.
func (k *Kubernetes) save(c *collection, now time.Time) {
	c.copied = now
	taken := now
	if !c.since.IsZero() {
		taken = c.since
	}
	if err := k.copy.save(k.current.Load().Nodes, taken); err != nil {
		k.opt.Log.Warn("copy of the nodes not saved", slog.Any("error", err))
	}
}

func equalFact(a, b *routing.Node) bool {
	return a == b || a != nil && b != nil && equalNode(*a, *b)
}

func equalNode(a, b routing.Node) bool {
	return a.Name == b.Name && slices.Equal(a.PodCIDRs, b.PodCIDRs) && slices.Equal(a.InternalIPs, b.InternalIPs) &&
		maps.Equal(a.Annotations, b.Annotations)
}
