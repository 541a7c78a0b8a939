package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"netclass.dev/routing"
)

// A configuration may come to name another lease while this node is drained, or none
// where there was one, on some nodes before others. What has been taken is held until
// it is undrained, and what is named now is taken beside it: whichever lock another
// node goes by, it is not free.

// Times of a lease that the configuration has come to name, or names no more.
const (
	joinGap = time.Second      // between tries of taking the former
	oldGap  = 30 * time.Second // between looks at the latter
)

// lease returns the lock in the Kubernetes API that the configuration in force names;
// nil: there is none.
func (d *Drainer) lease() Lease { return d.leaseOf("") }

func (d *Drainer) leaseOf(name string) Lease {
	if d.opt.Lease == nil {
		return nil
	}
	return d.opt.Lease(name)
}

// configured names the lease of a configuration.
func configured(c *routing.Config) string { return c.Drain.LeaseNamespace + "/" + c.Drain.LeaseName }

// note remembers that a lease is ours, or may come to be.
func (d *Drainer) note(l Lease) error {
	if slices.Contains(d.rec.Leases, l.String()) {
		return nil
	}
	before := d.rec.Leases
	d.rec.Leases = append(slices.Clone(before), l.String())
	if err := d.save(); err != nil {
		d.rec.Leases = before
		return err
	}
	return nil
}

// lockText says who keeps others from draining, for people.
func (d *Drainer) lockText() string {
	switch {
	case len(d.rec.Leases) == 0 && d.rec.Marker:
		return d.markerName()
	case d.rec.Marker:
		return d.leaseText() + "; " + d.markerName()
	}
	return d.leaseText()
}

// leaseText names the leases that are held: the one that the configuration names first.
func (d *Drainer) leaseText() string {
	now := ""
	if l := d.lease(); l != nil {
		now = l.String()
	}
	old := d.oldLeases(now)
	switch {
	case len(d.rec.Leases) == 0:
		return "lease"
	case !slices.Contains(d.rec.Leases, now):
		return "lease " + list(old) + ", as was configured when it was taken"
	case len(old) > 0:
		return fmt.Sprintf("lease %s, and %s until it is undrained, as was configured before", now, list(old))
	}
	return "lease " + now
}

// oldLeases are those that have been taken, but for the one that is configured now.
func (d *Drainer) oldLeases(now string) []string {
	return slices.DeleteFunc(slices.Clone(d.rec.Leases), func(name string) bool { return name == now })
}

// without says why nobody keeps others from draining by the lease that is configured,
// and who does all the same.
func (d *Drainer) without(now string, err error) string {
	var held string
	switch old := d.oldLeases(now); {
	case len(old) > 0:
		held = "lease " + list(old)
	case d.rec.Marker:
		held = d.markerName()
	default:
		return "nobody: " + err.Error()
	}
	return fmt.Sprintf("%s only: %s, which is configured now, is not ours: %v", held, now, err)
}

// joinLock takes the lock that the configuration has come to name during a drain or
// undrain. It fails when another node has that.
func (d *Drainer) joinLock(ctx context.Context) error {
	l, begin := d.lease(), time.Now()
	switch {
	case !d.rec.Locked, begin.Before(d.joinAt):
		return nil
	case l == nil:
		d.joinMarker()
		return nil
	case l.String() == d.joined:
		return nil
	}
	err := d.takeLease(ctx, l)
	if err == nil {
		d.joined, d.joinAt = l.String(), time.Time{}
		d.log.Info("drain lease taken", "lease", d.joined, "id", d.rec.Request.ID)
		d.holdBy(d.lockText())
		return nil
	}
	d.joinAt = time.Now().Add(joinGap + 2*time.Since(begin)) // what else there is to do goes first
	if refused, is := errors.AsType[*routing.Refused](err); is {
		d.joinAt = time.Now().Add(rejoinGap)
		return fmt.Errorf("the configuration names another lease now, %s: %s", l, strings.Join(refused.Reasons, "; "))
	}
	return nil
}

// joinMarker has the mesh told by BGP too, where the configuration no longer names a
// Kubernetes API.
func (d *Drainer) joinMarker() {
	s := d.opt.Engine.State()
	if d.rec.Marker || !anyPeer(s) || s.Config.Config == nil || s.Config.Config.Cluster == nil || s.Config.Config.Cluster.Kubernetes != nil {
		return
	}
	d.rec.Marker, d.joined = true, ""
	d.mustSave()
	d.log.Info("drain told by a marker in BGP, as the configuration no longer names a Kubernetes API", "id", d.rec.Request.ID)
	d.holdBy(d.lockText())
}

// lookBack looks at the leases that are held and no longer configured, now and then.
// One that somebody has taken or freed by hand is left to them, once there is another.
func (d *Drainer) lookBack(ctx context.Context) {
	now := d.lease()
	if now == nil || now.String() != d.joined || len(d.oldLeases(d.joined)) == 0 {
		d.oldAt = time.Time{}
		return
	}
	if time.Now().Before(d.oldAt) {
		return
	}
	old := d.oldLeases(d.joined)
	d.oldAt = time.Now().Add(oldGap)
	for _, name := range old {
		lease, err := d.read(ctx, d.leaseOf(name))
		if err != nil || d.ours(lease) {
			continue
		}
		d.log.Warn("drain lease that was configured before is no longer ours", "lease", name, "holder", lease.Holder)
		d.rec.Leases = slices.DeleteFunc(slices.Clone(d.rec.Leases), func(n string) bool { return n == name })
		d.mustSave()
	}
}

// read reads a lease within bounds.
func (d *Drainer) read(ctx context.Context, l Lease) (*routing.DrainLease, error) {
	if l == nil {
		return nil, errors.New("the configuration names no Kubernetes API")
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return readLease(ctx, l)
}

// ours reports whether a lease is held for this node's drain, or by what is left of
// one before.
func (d *Drainer) ours(lease *routing.DrainLease) bool {
	uid, id := holderOf(lease)
	if uid == "" {
		return false
	}
	s := d.opt.Engine.State()
	self := s.Inventory.Node(s.Node)
	return id == d.rec.Request.ID || self != nil && uid == self.UID
}

// release frees what is held at the end of an undrain. Where the API is away that
// holds up nobody for long: it is tried again later.
func (d *Drainer) release(ctx context.Context, last *routing.DrainStatus) {
	giveUp := time.Now().Add(releaseTime)
	for {
		err := d.freeLeases(ctx, last)
		if err == nil {
			d.rec.Releasing, d.freeAt = false, time.Time{}
			return
		}
		if time.Now().After(giveUp) || ctx.Err() != nil {
			d.lock = "the lease still names this node: " + err.Error()
			d.freeAt = time.Now().Add(freeGap)
			d.log.Warn("drain lease not freed yet: it is tried again", "error", err)
			return
		}
		_ = d.pause(ctx, time.Now().Add(leaseGap))
	}
}

// free goes on trying to free a lease.
func (d *Drainer) free(ctx context.Context) {
	if !d.rec.Releasing || time.Now().Before(d.freeAt) {
		return
	}
	if err := d.freeLeases(ctx, nil); err != nil {
		d.lock = "the lease still names this node: " + err.Error()
		d.freeAt = time.Now().Add(freeGap)
		return
	}
	d.log.Info("drain lease freed", "id", d.rec.Request.ID)
	d.rec.Releasing, d.freeAt, d.lock = false, time.Time{}, ""
	d.mustSave()
	if d.status != nil && d.status.Progress.Phase == routing.DrainEnded && d.status.Progress.Error == "" {
		d.status = nil
		d.opt.Engine.SetDrain(d.rec.order(), nil)
	}
}

// stillNamed shows, after a restart, that there is a lease to be freed.
func (d *Drainer) stillNamed() {
	d.lock = "lease " + list(d.rec.Leases) + " still names this node"
	d.status = &routing.DrainStatus{Request: d.rec.Request, Since: time.Now(), Lock: d.lock}
	d.status.Progress = routing.DrainProgress{Phase: routing.DrainEnded, Message: "the lease is freed once that can be done", At: time.Now()}
	d.opt.Engine.SetDrain(d.rec.order(), d.status)
}

// freeLeases frees every lease that was taken, and forgets those that are free.
func (d *Drainer) freeLeases(ctx context.Context, last *routing.DrainStatus) error {
	var left []string
	var errs []error
	for _, name := range d.rec.Leases {
		if err := d.freeLease(ctx, d.leaseOf(name), last); err != nil {
			left, errs = append(left, name), append(errs, err)
		}
	}
	d.rec.Leases = left
	return errors.Join(errs...)
}

// freeLease frees a lease, unless it has another holder.
func (d *Drainer) freeLease(ctx context.Context, l Lease, last *routing.DrainStatus) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	lease, err := d.read(ctx, l)
	if err != nil {
		return err
	}
	if !d.ours(lease) {
		return nil
	}
	next := *lease
	next.Holder = ""
	if last != nil {
		next.Status = last
	}
	if _, err := l.WriteDrain(ctx, &next); err != nil {
		return fmt.Errorf("free the drain lease %s: %w", l, err)
	}
	return nil
}
