package drain

import (
	"context"
	"fmt"
	"slices"
	"time"

	"netclass.dev/routing"
)

// Times of an undrain.
const (
	stuckTime = 5 * time.Second  // between sayings of what it waits for
	leaveTime = 5 * time.Second  // until what a peer does not take no longer holds it up
	comesTime = 15 * time.Second // until a session that does not come up no longer does
)

// back are the steps of going back: routes, then mesh, then routers. One that does
// nothing to the links of a drain is passed over.
var back = []routing.DrainStep{routing.DrainMesh, routing.DrainUpstream, routing.DrainClaim}

// undo goes down the steps, each confirmed before the next, and frees the lock.
// Nothing ends it but its end: what cannot be done now is waited for.
func (d *Drainer) undo(ctx context.Context) {
	if slices.Contains(back, d.rec.Step) && d.status != nil && d.status.Progress.Phase == d.rec.Phase {
		// After a restart: the step may not have been carried out.
		if d.restored(ctx) != nil {
			return
		}
	}
	changed, giveUp := d.rec.Step > routing.DrainClaim, time.Now().Add(comesTime)
	for _, step := range back {
		text := backText(d.opt.Engine.State(), &d.rec.Request, step)
		if d.rec.Step <= step || text == "" {
			continue
		}
		d.rec.Step = step
		d.mustSave()
		d.say(text, nil)
		if d.restored(ctx) != nil {
			return
		}
		if step == routing.DrainUpstream { // peers are told before routers are
			d.arrived(ctx, true, giveUp)
		}
	}
	if d.rec.Marker && d.rec.Step > routing.DrainNone {
		d.rec.Step = routing.DrainNone
		d.mustSave()
		d.say("the others are told that it is over", nil)
		if d.restored(ctx) != nil {
			return
		}
	}
	if !changed {
		giveUp = time.Now() // there is nothing that a session would be told
	}
	rest := d.arrived(ctx, false, giveUp)
	if ctx.Err() != nil {
		return
	}
	d.over(ctx, rest)
}

// arrived waits until all that was said has reached every peer, of the mesh or also the
// routers, and returns what has not: whoever is told that it is over may drain another
// node at once. A peer that does not take it is waited for for a while, and so is, until
// a time, one that had a session before the drain and has none: its link may have come
// back just now. The sessions that a pass shows are as they were before it gave its
// orders, and so it takes one more.
func (d *Drainer) arrived(ctx context.Context, mesh bool, giveUp time.Time) (rest string) {
	message := ""
	if d.status != nil {
		message = d.status.Progress.Message
	}
	d.say(message, nil)
	for told := time.Now(); ; {
		d.hear()
		_ = d.joinLock(ctx)
		s := d.opt.Engine.State()
		until := told.Add(leaveTime)
		absent, pointless := d.absent(s, mesh)
		switch unsaid := unsent(s); {
		case s.Drain != d.status:
			rest = "whether all that was said has reached its peers is not known"
		case unsaid != "":
			rest = "what was said " + unsaid
		case len(absent) > 0:
			rest = "there is no session with " + list(absent) + " yet: they are told once there is"
			if until = giveUp; pointless {
				return rest
			}
		default:
			return ""
		}
		if !time.Now().Before(until) {
			return rest
		}
		if !time.Now().Before(d.toldAt.Add(stuckTime)) {
			d.sayOn("still waiting: "+rest, nil)
		}
		if d.pause(ctx, soonest(until, d.toldAt.Add(stuckTime))) != nil {
			return rest
		}
	}
}

// absent names the sessions that were up when this node began to be drained and are
// not, routers' first. Where all of them are over links that are down, it is pointless to wait.
func (d *Drainer) absent(s *routing.State, mesh bool) (names []string, pointless bool) {
	pointless = true
	for i := range s.Peers {
		p := &s.Peers[i]
		if mesh && p.Neighbor.Upstream || p.Session.State == routing.Established || !slices.Contains(d.rec.Sessions, p.Neighbor.Key.String()) {
			continue
		}
		if name := p.Neighbor.Key.String(); p.Neighbor.Upstream {
			names = slices.Insert(names, 0, name)
		} else {
			names = append(names, name)
		}
		pointless = pointless && !s.Kernel.Link(p.Neighbor.Link).Usable()
	}
	return names, pointless
}

// established names the sessions over links that are up.
func established(s *routing.State, links []string) (names []string) {
	for i := range s.Peers {
		if p := &s.Peers[i]; p.Session.State == routing.Established && slices.Contains(links, p.Neighbor.Link) {
			names = append(names, p.Neighbor.Key.String())
		}
	}
	return names
}

// restored waits until the engine has put back what it was told to.
func (d *Drainer) restored(ctx context.Context) error {
	told := time.Now()
	for {
		d.hear()
		_ = d.joinLock(ctx) // nobody else is to begin before this is over
		missing := d.missing(d.opt.Engine.State(), false)
		if missing == "" {
			return nil
		}
		if time.Since(told) >= stuckTime {
			told = time.Now()
			d.sayOn("still waiting: "+missing, nil)
		}
		if err := d.pause(ctx, told.Add(stuckTime)); err != nil {
			return err
		}
	}
}

// over is the end of an undrain or a roll back; rest is what peers have not been told.
func (d *Drainer) over(ctx context.Context, rest string) {
	st := &routing.DrainStatus{Request: d.rec.Request, Since: time.Now()}
	st.Progress = routing.DrainProgress{Phase: routing.DrainEnded, Message: "everything is as before", At: time.Now()}
	if rest != "" {
		st.Progress.Message = "everything is put back, but " + rest
	}
	err, refused := d.failure()
	if err != nil {
		st.Progress.Error, st.Progress.Failure = err.Error(), failureOf(err)
	}
	d.ended[d.rec.Request.ID] = true
	d.lock = ""
	if len(d.rec.Leases) > 0 {
		// Also where it was not won: a write that failed may have been carried out.
		d.rec.Releasing = true
		if d.release(ctx, st); d.rec.Releasing {
			st.Progress.Message += "; the lease is freed once that can be done"
			st.Lock = d.lock
		}
	}
	if d.rec.Request.Cordon && err != nil {
		d.cordonAt = time.Now().Add(cordonRest)
		if refused {
			d.cordonAt = time.Now().Add(cordonRetry)
		}
	}
	// What has failed is shown until something else is done, and what is still to be
	// freed until it is.
	d.status = nil
	if err != nil && !refused || d.rec.Releasing {
		d.status = st
	}
	d.rec = record{Request: d.rec.Request, Phase: routing.DrainEnded, Releasing: d.rec.Releasing, Leases: d.rec.Leases, Overridden: d.rec.Overridden}
	if failed := d.save(); failed != nil {
		d.log.Error("drain not forgotten", "error", failed)
		st.Progress.Message += fmt.Sprintf("; but not on disk (%v): a restart would take it out again, put that right first", failed)
	}
	d.opt.Engine.SetDrain(d.rec.order(), d.status)
	d.shown(ctx)
	d.logOnce(progress{st.Progress.Phase, st.Progress.Step, st.Progress.Error}, st)
	d.finish(err, st)
}

// failure is why a drain was rolled back, for its callers; nil: it was not.
func (d *Drainer) failure() (err error, refused bool) {
	err = errorOf(d.rec.Cause, &d.rec.Failure)
	if refused = isRefused(err); err != nil && !refused {
		err = fmt.Errorf("it failed and everything has been put back: %w", err)
	}
	return err, refused
}
