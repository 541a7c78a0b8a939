package fakekernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// Apply carries out ops; the ones after a failed one too.
func (k *Kernel) Apply(ctx context.Context, ops []routing.Op) []error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for i, op := range ops {
		err := ctx.Err()
		if err == nil {
			err = k.attempt(op)
		}
		if err != nil {
			if errs == nil {
				errs = make([]error, len(ops))
			}
			errs[i] = fmt.Errorf("%s: %w", op, err)
		}
	}
	return errs
}

// attempt makes one change of our own, unless a fault is set for it.
func (k *Kernel) attempt(op routing.Op) error {
	n := k.writes
	k.writes++
	if k.faults.Apply != nil {
		if err := k.faults.Apply(n, op); err != nil {
			return err
		}
	}
	_, err := k.change(op)
	if err == nil && k.faults.Applied != nil {
		k.faults.Applied(op, k.picture())
	}
	return err
}

// Foreign makes a change as another process does.
func (k *Kernel) Foreign(op routing.Op) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed, err := k.change(op)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if changed && (op.IsRule() || k.protocols[op.Route.Protocol] || k.tables[op.Route.Table] && counted(op.Route)) {
		k.event()
	}
	return nil
}

// change carries out an op and reports whether it changed anything: deleting
// what is gone does not, and is no failure.
func (k *Kernel) change(op routing.Op) (changed bool, err error) {
	switch {
	case op.IsRule():
		return k.changeRule(op)
	case op.Verb == routing.Delete:
		return k.deleteRoute(op.Route), nil
	}
	r := op.Route.Wanted()
	if err := k.check(r); err != nil {
		return false, err
	}
	there := k.routes[r.Key()]
	switch {
	case op.Verb == routing.Add && len(there) > 0:
		return false, unix.EEXIST
	case len(there) > 0:
		there[0] = r // whoever owned it
	default:
		k.routes[r.Key()] = []routing.Route{r}
	}
	return true, nil
}

// check refuses what the kernel refuses.
func (k *Kernel) check(r routing.Route) error {
	v4 := r.Family() == routing.IPv4
	switch {
	case r.Type >= routing.Other || r.Dst != r.Dst.Masked():
		return unix.EINVAL
	case !v4 && r.Metric == 0:
		return errors.New("an IPv6 route needs a metric: the kernel makes 0 into 1024")
	case r.Type.Reject():
		return nil
	}
	l, err := k.needLink(r.Link)
	if err != nil {
		return err
	}
	if !l.Up {
		return unix.ENETDOWN
	}
	if !v4 && l.NoIPv6 {
		return unix.EACCES
	}
	if r.Src.IsValid() && !k.isLocal(r.Src) {
		return unix.EINVAL
	}
	if !r.Via.IsValid() || r.OnLink || r.Via.IsLinkLocalUnicast() {
		return nil
	}
	if r.Via.Is6() && k.isLocal(r.Via) {
		return unix.EINVAL
	}
	if !k.onLink(r) {
		if v4 {
			return unix.ENETUNREACH
		}
		return unix.EHOSTUNREACH
	}
	return nil
}

// onLink reports whether a device route of main or the route's own table covers
// its next hop.
func (k *Kernel) onLink(r routing.Route) bool {
	for _, routes := range k.routes {
		for _, d := range routes {
			if d.Type == routing.Unicast && !d.Via.IsValid() && d.Link == r.Link && d.Dst.Contains(r.Via) &&
				(d.Table == routing.MainID || d.Table == r.Table) {
				return true
			}
		}
	}
	return false
}

func (k *Kernel) isLocal(a netip.Addr) bool {
	return slices.ContainsFunc(k.links, func(l routing.Link) bool {
		return slices.ContainsFunc(l.Addrs, func(la routing.LinkAddr) bool { return la.Prefix.Addr() == a && la.Usable() })
	})
}

// deleteRoute takes the route that has all that the op names.
func (k *Kernel) deleteRoute(r routing.Route) bool {
	routes := k.routes[r.Key()]
	place := slices.IndexFunc(routes, func(o routing.Route) bool {
		return o.Protocol == r.Protocol && o.Type == r.Type && (o.Link == r.Link || k.link(r.Link) == nil) && o.Via == r.Via
	})
	if place < 0 {
		return false
	}
	k.setRoutes(r.Key(), slices.Delete(routes, place, place+1))
	return true
}

func (k *Kernel) setRoutes(key routing.RouteKey, routes []routing.Route) {
	if len(routes) == 0 {
		delete(k.routes, key)
		return
	}
	k.routes[key] = routes
}

func (k *Kernel) changeRule(op routing.Op) (bool, error) {
	r := op.Rule
	r.From, r.To = selector(r.From), selector(r.To)
	place := slices.Index(k.rules, r)
	switch {
	case r.Opaque && op.Verb != routing.Delete && r.Extra == "":
		return false, unix.EINVAL
	case op.Verb == routing.Add && place >= 0:
		return false, unix.EEXIST
	case op.Verb == routing.Add:
		// Behind every rule of its family and priority.
		at := len(k.rules)
		for i, o := range k.rules {
			if cmp.Or(cmp.Compare(o.Family, r.Family), cmp.Compare(o.Priority, r.Priority)) > 0 {
				at = i
				break
			}
		}
		k.rules = slices.Insert(k.rules, at, r)
		return true, nil
	case op.Verb == routing.Replace:
		return false, errors.New("the kernel cannot replace rules")
	case place < 0:
		return false, nil
	}
	k.rules = slices.Delete(k.rules, place, place+1)
	return true, nil
}

// selector is the zero prefix for one that selects everything.
func selector(p netip.Prefix) netip.Prefix {
	if p.Bits() <= 0 {
		return netip.Prefix{}
	}
	return p
}

// byPlace orders routes as a dump does.
func byPlace(a, b routing.Route) int {
	return cmp.Or(
		cmp.Compare(a.Family(), b.Family()),
		cmp.Compare(a.Table, b.Table),
		a.Dst.Addr().Compare(b.Dst.Addr()),
		cmp.Compare(a.Dst.Bits(), b.Dst.Bits()),
		cmp.Compare(a.Metric, b.Metric),
	)
}

// counted reports whether a foreign route of a watched table is told of: of main
// only one of a metric that we use.
func counted(r routing.Route) bool {
	switch r.Metric {
	case routing.MetricPath, routing.MetricFallback, routing.MetricGuard:
		return true
	}
	return r.Table != routing.MainID
}
