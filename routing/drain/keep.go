package drain

import (
	"context"
	"errors"
	"strings"
	"time"

	"netclass.dev/routing"
)

// keepLock sees that others are kept from draining as long as this node is drained:
// a lease that has been lost is taken again, and what somebody else has written into
// it is put right.
func (d *Drainer) keepLock(ctx context.Context) {
	l, s := d.lease(), d.opt.Engine.State()
	seen := s.Inventory.Drain
	// One that has changed meanwhile is looked at at once: it may be there again, and free.
	if time.Now().Before(d.rejoinAt) && (seen == nil || seen.Version == d.rejoinOf) {
		return
	}
	d.rejoinAt = time.Time{}
	switch {
	case l == nil && d.rec.Marker:
		d.holdBy(d.lockText())
		return
	case l == nil:
		d.holdBy("nobody: the configuration no longer names a Kubernetes API, which kept the lock")
		return
	case seen == nil || seen.Unusable != "" && seen.Version != "":
		return // nobody else can take it now either; one that is gone is made anew
	}
	d.rejoinOf = seen.Version
	uid, id := holderOf(seen)
	self := s.Inventory.Node(s.Node)
	switch {
	case self == nil || self.UID == "":
	case uid == self.UID && id == d.rec.Request.ID:
		d.holdBy(d.lockText())
		if strange(seen.Status, d.status) {
			// An answer to somebody may just be there: it is given time to be read.
			if d.strangeAt.IsZero() {
				d.strangeAt = time.Now()
			}
			if d.rejoinAt = d.strangeAt.Add(rejoinGap); time.Now().Before(d.rejoinAt) {
				return
			}
			d.scribe.answer(d.status, nil, d.rec.Leases)
			d.rejoinAt = time.Now().Add(rejoinGap)
		}
		d.strangeAt = time.Time{}
	default:
		if err := d.takeLease(ctx, l); err != nil {
			d.rejoinAt = time.Now().Add(rejoinGap)
			if _, unread := errors.AsType[unreadError](err); !unread {
				d.holdBy(d.without(l.String(), err))
			}
			return
		}
		d.joined = l.String()
		d.holdBy(d.lockText())
	}
}

// strange reports whether a status in the lease is not that of a node that is drained:
// an answer to somebody has taken its place.
func strange(st, drained *routing.DrainStatus) bool {
	return st == nil || st.Request.Node != drained.Request.Node || st.Request.DryRun ||
		st.Progress.Phase != drained.Progress.Phase || st.Progress.Error != drained.Progress.Error
}

// keepUntil is when the lock is to be looked at again; zero: with the next news.
func (d *Drainer) keepUntil() time.Time {
	until := soonest(d.rejoinAt, d.oldAt)
	if d.joinAt.After(time.Now()) {
		until = soonest(until, d.joinAt)
	}
	return until
}

// holdBy notes who keeps others from draining, and shows it where that is news.
func (d *Drainer) holdBy(lock string) {
	if d.lock == lock {
		return
	}
	d.lock = lock
	if strings.HasPrefix(lock, "nobody") {
		d.log.Warn("drain without a lock", "lock", lock)
	}
	d.say(d.status.Progress.Message, d.status.Progress.Rates)
}

// orphan takes up a drain of this node that only the lease remembers, as when the
// state directory was lost: what it says holds until it is undrained.
func (d *Drainer) orphan(ctx context.Context, s *routing.State) {
	l, self := d.lease(), s.Inventory.Node(s.Node)
	seen := s.Inventory.Drain
	if l == nil || self == nil || self.UID == "" || seen == nil || d.rec.Releasing || time.Now().Before(d.rejoinAt) {
		return
	}
	d.rejoinAt = time.Time{}
	uid, id := holderOf(seen)
	if uid != self.UID {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	lease, err := readLease(ctx, l)
	if err != nil {
		d.rejoinAt = time.Now().Add(leaseGap)
		return
	}
	if lease.Holder != seen.Holder {
		return
	}
	if d.ended[id] {
		// A write that had failed came through all the same.
		d.rec.Request.ID, d.rec.Releasing, d.rec.Leases = id, true, []string{l.String()}
		d.free(ctx)
		return
	}
	r := record{
		Request: routing.DrainRequest{Node: s.Node, Reason: "the lease says so", By: "netclassd", At: time.Now()},
		Phase:   routing.DrainGoing, Step: routing.DrainClaim, Since: time.Now(), Locked: true, Leases: []string{l.String()},
	}
	if st := lease.Status; st != nil && st.Request.Node == s.Node {
		r.Request = st.Request
		if p := st.Progress.Phase; p == routing.DrainUndoing || p == routing.DrainBack || p == routing.DrainEnded {
			r.Phase = routing.DrainUndoing // nothing is left but to free it
		}
	}
	r.Request.ID, r.Request.DryRun = id, false
	d.rec, d.callers, d.said, d.costs, d.joined = r, nil, progress{}, nil, l.String()
	d.mustSave()
	d.log.Warn("drain taken up from the lease", "id", id, "by", r.Request.By, "phase", string(r.Phase))
}
