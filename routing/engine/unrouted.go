package engine

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"netclass.dev/routing"
)

const (
	// comesIn is how long a CNI may take to put in the route to a node, be it new or
	// the CNI itself just started.
	comesIn = 10 * time.Second
	// unroutedNamed is how many CIDRs a condition names.
	unroutedNamed = 3
)

// lacking says which pod CIDRs main has had no route to for longer than a CNI takes.
// The guard keeps this node itself from them, so that a class waits which promises
// them to nodes.
func (e *Engine) lacking(p *routing.Plan) {
	now := e.conditions.now
	since := make(map[netip.Prefix]time.Time, len(p.Unrouted))
	var late []string
	count := 0
	for _, dst := range p.Unrouted {
		at, known := e.unrouted[dst]
		if !known {
			at = now
		}
		since[dst] = at
		if e.dumpedAt.Before(at.Add(comesIn)) {
			continue
		}
		if count++; count <= unroutedNamed {
			late = append(late, dst.String())
		}
	}
	e.unrouted = since
	if count == 0 {
		return
	}
	text := strings.Join(late, ", ")
	if count > len(late) {
		text += fmt.Sprintf(" and %d more", count-len(late))
	}
	text = "the CNI has no route to " + text + " in main: this node itself cannot reach these pods, the guard stops it"
	for i := range p.Classes {
		c := &p.Classes[i]
		if !slices.Contains(c.Class.Traffic, routing.Traffic{From: "nodes", To: "pods"}) {
			continue
		}
		switch c.Health {
		case routing.Ready, routing.Shared:
			c.Health, c.Reason = routing.Waiting, text
		case routing.Waiting:
			return // the routes have gone with its link
		}
	}
	e.conditions.add("table/"+routing.MainTable, "NoRoute", text)
}

// suspects reports whether a CIDR is late by a picture that is older than that. Not
// every change in main is told of, so that it takes a newer one.
func (e *Engine) suspects(now time.Time) bool {
	for _, at := range e.unrouted {
		if late := at.Add(comesIn); e.dumpedAt.Before(late) && !now.Before(late) {
			return true
		}
	}
	return false
}

// lackDue returns when the first CIDR that main has no route to is late, of those
// that are not yet.
func (e *Engine) lackDue(now time.Time) (due time.Time, any bool) {
	for _, at := range e.unrouted {
		if late := at.Add(comesIn); now.Before(late) && (!any || late.Before(due)) {
			due, any = late, true
		}
	}
	return due, any
}
