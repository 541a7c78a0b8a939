package inventory

import (
	"context"
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
	// copyGap is the least time between two copies on disk of what changes,
	// copyAge the age at which one is made of what does not.
	copyGap, copyAge = 5 * time.Second, time.Hour
)

// collection is what the readers have told. Run's goroutine owns it.
type collection struct {
	generation int               // of the connection
	parts      []part            // of each resource, what it tells of
	facts      []map[string]fact // of each resource, by the object's name
	pending    []bool            // resources that this connection has not read yet
	errs       []error           // why each cannot be read
	err        error             // why there is no connection
	hollow     string            // what there is none of, where there was some
	standing   [parts]standing
	lock       routing.DrainLease // as it was last read
	complaints map[string]string  // of Services, by name, what the log has said of them

	toldAt time.Time // when to tell of changes; zero: there are none
	copyAt time.Time // when to make a copy; zero: never
	copied time.Time
}

// standing is how a part of the inventory stands.
type standing struct {
	dirty   bool      // facts that have not been told of
	synced  bool      // all of it has been read at least once
	warned  bool      // the log says that something is wrong
	since   time.Time // something is wrong; zero: nothing is
	staleAt time.Time // when to tell that something is wrong; zero: never
}

func newCollection(resources []resource) *collection {
	c := &collection{complaints: make(map[string]string)}
	for i := range resources {
		c.parts = append(c.parts, resources[i].part)
		c.facts = append(c.facts, make(map[string]fact))
		c.pending = append(c.pending, true)
		c.errs = append(c.errs, nil)
	}
	return c
}

// first returns the first of a part's resources; -1: it has none, and is not read.
func (c *collection) first(p part) int { return slices.Index(c.parts, p) }

// unread reports whether this connection has yet to read some of a part.
func (c *collection) unread(p part) bool {
	for i, pending := range c.pending {
		if c.parts[i] == p && pending {
			return true
		}
	}
	return false
}

// collect takes in what the readers tell until ctx ends.
func (k *Kubernetes) collect(ctx context.Context, events <-chan event, notify func()) {
	c := newCollection(k.resources)
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
			if nodes := &c.standing[ofNodes]; nodes.synced && (nodes.since.IsZero() || !c.copyAt.IsZero()) {
				k.save(c, time.Now())
			}
			return
		case e := <-events:
			c.take(e, time.Now())
		case <-timer.C:
			now := time.Now()
			tell := at(&c.toldAt, now)
			for p := range c.standing {
				if at(&c.standing[p].staleAt, now) {
					tell = true
				}
			}
			if tell {
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
	sooner := func(t time.Time) {
		if !t.IsZero() && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	sooner(c.toldAt)
	sooner(c.copyAt)
	for p := range c.standing {
		sooner(c.standing[p].staleAt)
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
		for p := range parts {
			c.judge(p, now)
		}
	case e.generation != c.generation:
		// An old connection's reader, which is about to end.
	case e.err != nil:
		c.errs[e.resource] = e.err
		c.judge(c.parts[e.resource], now)
	case e.up:
		c.errs[e.resource] = nil
		c.judge(c.parts[e.resource], now)
		if c.standing[ofNodes].synced && now.Sub(c.copied) > copyAge {
			c.copyAt = now
		}
	case e.whole != nil:
		c.facts[e.resource], c.pending[e.resource] = e.whole, false
		c.changed(e.resource, now)
		trim(len(e.whole))
	default:
		was := c.facts[e.resource][e.name]
		if sameFact(was, e.fact) {
			return
		}
		if e.fact == nil {
			delete(c.facts[e.resource], e.name)
		} else {
			c.facts[e.resource][e.name] = e.fact
		}
		if c.matters(e.resource, was, e.fact) {
			c.changed(e.resource, now)
		}
	}
}

// changed has what a resource says told of soon.
func (c *collection) changed(resource int, now time.Time) {
	c.standing[c.parts[resource]].dirty = true
	c.tellAt(now)
}

func (c *collection) tellAt(now time.Time) {
	if c.toldAt.IsZero() {
		c.toldAt = now.Add(gather)
	}
}

// judge takes in whether something is wrong with a part. What has just begun to be
// is told of later, unless nothing has been read at all.
func (c *collection) judge(p part, now time.Time) {
	s := &c.standing[p]
	if c.first(p) < 0 {
		return
	}
	if c.reason(p) == "" {
		s.since, s.staleAt = time.Time{}, time.Time{}
		c.tellAt(now)
		return
	}
	if s.since.IsZero() {
		s.since = now
	}
	// A refusal comes twice, because what cannot be watched is then listed: the
	// last word counts.
	if s.staleAt = now.Add(settle); s.synced && s.staleAt.Before(s.since.Add(patience)) {
		s.staleAt = s.since.Add(patience)
	}
}

// reason says what is wrong with a part; empty: nothing is.
func (c *collection) reason(p part) string {
	if c.err != nil {
		return c.err.Error()
	}
	if p == ofNodes && c.hollow != "" {
		return "read " + c.hollow + ": the API server has none at all any more, which is not believed"
	}
	var texts []string
	for i, err := range c.errs {
		if err != nil && c.parts[i] == p {
			texts = append(texts, err.Error())
		}
	}
	return strings.Join(texts, "; ")
}

// old returns what is to be said of a part that cannot be read, once it has lasted
// long enough, and since when: it is of then what is known of it. The time is zero
// if it has never been read.
func (c *collection) old(p part, now time.Time) (reason string, since time.Time) {
	s := &c.standing[p]
	switch reason = c.reason(p); {
	case reason == "":
		return "", time.Time{}
	case !s.synced:
		return reason, time.Time{}
	case now.Sub(s.since) < patience:
		return "", time.Time{}
	}
	return reason, s.since
}
