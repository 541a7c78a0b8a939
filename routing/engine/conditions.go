package engine

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"netclass.dev/routing"
)

// Bounds on what conditions cost. When a link of a large cluster fails, each
// of its thousands of peers has one.
const (
	conditionsShown = 100              // of one reason and kind of object
	conditionLogGap = 10 * time.Second // between lines of one that only changes its message
	conditionQuiet  = time.Second      // after the start, when the nodes are just being read
)

// Reasons of conditions that every pass finds out by itself: that the kernel
// could not be read, and that it cannot be watched.
const (
	dumpFailed = "DumpFailed"
	notWatched = "NotWatched"
)

// notSynced is the reason of the planner's condition that every start has until the
// nodes have been read.
const notSynced = "NotSynced"

// conditions are what is not as it should be, with the time it began.
type conditions struct {
	quiet time.Time // until when it is no news that the nodes have not been read
	now   time.Time
	list  []routing.Condition        // of this pass
	added map[routing.Condition]bool // what is in it
	last  []routing.Condition        // of the pass before
	known map[routing.Condition]knownCondition
}

// knownCondition is what is remembered of a condition that lasts.
type knownCondition struct {
	since    time.Time
	logged   string // the message as last logged
	loggedAt time.Time
}

func (c *conditions) begin(now time.Time) {
	c.now = now
	c.last, c.list = c.list, nil
	c.added = make(map[routing.Condition]bool)
}

func (c *conditions) add(object, reason, message string) {
	cond := routing.Condition{Object: object, Reason: reason, Message: message}
	if !c.added[cond] {
		c.added[cond] = true
		c.list = append(c.list, cond)
	}
}

// repeat adds the conditions of the pass before, but for those that every pass
// finds out by itself.
func (c *conditions) repeat() {
	for _, l := range c.last {
		if l.Object != "config" && l.Object != "speaker" && l.Reason != dumpFailed && l.Reason != notWatched {
			c.add(l.Object, l.Reason, l.Message)
		}
	}
}

// end dates the conditions of the pass, logs those that came and went, and
// returns them.
func (c *conditions) end(log *slog.Logger) []routing.Condition {
	shown := c.bounded()
	gone := make(map[routing.Condition]bool, len(c.known))
	for k := range c.known {
		gone[k] = true
	}
	for _, s := range shown {
		delete(gone, s)
	}
	// One that only says something else now goes on.
	changed := make(map[routing.Condition][]routing.Condition)
	for k := range gone {
		same := routing.Condition{Object: k.Object, Reason: k.Reason}
		changed[same] = append(changed[same], k)
	}
	// What is only because the nodes have not been read yet is soon gone.
	quiet := c.now.Before(c.quiet) && slices.ContainsFunc(shown, func(s routing.Condition) bool { return s.Reason == notSynced })
	known := make(map[routing.Condition]knownCondition, len(shown))
	for i, s := range shown {
		k, old := c.known[s]
		same := routing.Condition{Object: s.Object, Reason: s.Reason}
		if was := changed[same]; !old && len(was) > 0 {
			k, old = c.known[was[0]], true
			delete(gone, was[0])
			changed[same] = was[1:]
		}
		if !old {
			k.since = c.now
		}
		if !quiet && (k.logged == "" || k.logged != s.Message && c.now.Sub(k.loggedAt) >= conditionLogGap) {
			k.logged, k.loggedAt = s.Message, c.now
			log.Warn("condition", "object", s.Object, "reason", s.Reason, "message", s.Message)
		}
		known[s] = k
		shown[i].Since = k.since
	}
	for k := range gone {
		if c.known[k].logged == "" {
			continue
		}
		log.Info("condition gone", "object", k.Object, "reason", k.Reason, "message", k.Message)
	}
	c.known = known
	return shown
}

// bounded returns the conditions to show: of one reason and kind of object not
// more than so many, those that were shown before first, and how many more there
// are.
func (c *conditions) bounded() []routing.Condition {
	type group struct{ kind, reason string }
	of := func(cond routing.Condition) group {
		kind, _, _ := strings.Cut(cond.Object, "/")
		return group{kind, cond.Reason}
	}
	count, old := make(map[group]int), make(map[group]int)
	for _, cond := range c.list {
		g := of(cond)
		count[g]++
		if _, is := c.known[cond]; is {
			old[g]++
		}
	}
	var shown []routing.Condition
	fresh := make(map[group]int)
	kept := make(map[group]int)
	for _, cond := range c.list {
		g := of(cond)
		if _, is := c.known[cond]; !is {
			if fresh[g] >= conditionsShown-old[g] {
				continue
			}
			fresh[g]++
		} else if kept[g] >= conditionsShown {
			continue
		} else {
			kept[g]++
		}
		shown = append(shown, cond)
	}
	more := make(map[group]bool)
	for _, cond := range c.list {
		if g := of(cond); count[g] > conditionsShown && !more[g] {
			more[g] = true
			shown = append(shown, routing.Condition{
				Object: g.kind, Reason: g.reason, Message: fmt.Sprintf("and %d more like these", count[g]-conditionsShown),
			})
		}
	}
	return shown
}
