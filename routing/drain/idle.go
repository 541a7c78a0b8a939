package drain

import (
	"context"
	"fmt"
	"slices"
	"time"

	"netclass.dev/routing"
)

// idle waits for something to do.
func (d *Drainer) idle(ctx context.Context) {
	for !d.rec.active() {
		s := d.opt.Engine.State()
		d.hearFar(s)
		d.free(ctx)
		for _, c := range d.asked() {
			switch {
			case d.rec.active():
				d.putBack(c) // for the next phase
			case c.request.DryRun:
				d.weigh(ctx, c, s)
			case c.request.Undrain:
				d.nothingDrained(c, s)
			default:
				d.begin(ctx, c)
			}
		}
		if !d.rec.active() {
			d.orphan(ctx, s)
		}
		if !d.rec.active() {
			d.followCordon(ctx, s)
		}
		if d.rec.active() || d.pause(ctx, d.idleUntil()) != nil {
			return
		}
	}
}

// putBack has a request wait in the mailbox.
func (d *Drainer) putBack(c *caller) {
	d.mu.Lock()
	d.mailbox = append(d.mailbox, c)
	d.mu.Unlock()
	d.poke()
}

// nothingDrained answers an undrain of a node that is not drained.
func (d *Drainer) nothingDrained(c *caller, s *routing.State) {
	st := &routing.DrainStatus{Request: c.request, Since: time.Now(), Lock: d.lock}
	st.Progress = routing.DrainProgress{Phase: routing.DrainEnded, Message: "it was not drained", At: time.Now()}
	d.dismissOne(c, nil, st)
	if d.status != nil && d.status.Progress.Phase == routing.DrainEnded && !d.rec.Releasing {
		d.status = nil // how an earlier one failed is no longer shown
		d.opt.Engine.SetDrain(d.rec.order(), nil)
	}
	if followsCordon(s) && !uncordoned(s) {
		// It would be drained for its cordon, which is what the caller does not want.
		d.rec.Overridden = true
		d.stopWaiting()
		d.mustSave()
		d.opt.Engine.SetDrain(d.rec.order(), d.status)
	}
}

// idleUntil is when an idle Drainer has something to do unasked; zero: never.
func (d *Drainer) idleUntil() time.Time {
	now, next := time.Now(), time.Time{}
	for _, t := range []time.Time{d.freeAt, d.rejoinAt, d.cordonAt} {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// begin starts a drain, or refuses it.
func (d *Drainer) begin(ctx context.Context, c *caller) {
	s := d.opt.Engine.State()
	req := c.request
	if err := askable(s, &req); err != nil {
		d.dismissOne(c, err, nil)
		return
	}
	reasons := d.unsafeNow(ctx, s, &req)
	if len(reasons) > 0 && !req.Force {
		d.refuse(c, reasons...)
		return
	}
	l := d.lease()
	fresh := record{Request: req, Phase: routing.DrainGoing, Step: routing.DrainNone, Since: time.Now(), Marker: l == nil, Sessions: established(s, drainable(s, &req))}
	before := d.rec
	fresh.Leases = before.Leases // which are still to be freed
	if l != nil {
		fresh.Leases = append(d.oldLeases(l.String()), l.String())
	}
	d.rec = fresh
	d.answering(c)
	if err := d.save(); err != nil {
		d.rec = before
		d.log.Error("drain not begun", "error", err, "by", req.By)
		d.dismissOne(c, fmt.Errorf("nothing has been changed: %w", err), nil)
		return
	}
	d.callers, d.waiting, d.said = []*caller{c}, nil, progress{}
	d.costs, d.lock = costs(s, &req), ""
	if len(reasons) > 0 {
		d.log.Warn("drain forced", "by", req.By, "id", req.ID, "although", reasons)
	}
}

// newsTime is how long it may take until it is known here that another node, which has
// told us, is no longer drained, or announces again.
const newsTime = time.Second

// unsafeNow names every reason why this node must not be drained. Another may just
// have been undrained, which has not been told here yet.
func (d *Drainer) unsafeNow(ctx context.Context, s *routing.State, req *routing.DrainRequest) []string {
	kube := d.lease() != nil
	look := func() []string {
		reasons := unsafe(s, req, kube, false)
		if len(reasons) > 0 && kube {
			reasons = unsafe(d.newest(ctx, s), req, kube, false)
		}
		return reasons
	}
	reasons := look()
	for until := time.Now().Add(newsTime); len(reasons) > 0 && time.Now().Before(until) && ctx.Err() == nil; {
		if last := slices.ContainsFunc(reasons, isLast); !last && (kube || len(s.Plan.Drained) == 0) {
			break
		}
		if d.newer(ctx, s.Sequence, until) != nil {
			break
		}
		s = d.opt.Engine.State()
		reasons = look()
	}
	return reasons
}

// newest returns a state with the lease as it is now, if that can be read.
func (d *Drainer) newest(ctx context.Context, s *routing.State) *routing.State {
	l := d.lease()
	if l == nil || s.Inventory.Drain == nil {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	lease, err := readLease(ctx, l)
	if err != nil {
		return s
	}
	fresh := *s
	fresh.Inventory.Drain = lease
	return &fresh
}
