package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"netclass.dev/routing"
)

// failTime is how long the kernel may refuse a change until the drain has failed:
// the engine tries again meanwhile.
const failTime = 5 * time.Second

// drain goes up the steps, from where it was.
func (d *Drainer) drain(ctx context.Context) {
	deadline := time.Now().Add(d.patience())
	if d.rec.Locked {
		if err := d.stillOurs(ctx); err != nil {
			d.fail(err)
			return
		}
	} else {
		if err := d.claim(ctx); err != nil {
			d.abandon(ctx, err)
			return
		}
		d.rec.Locked = true
		if err := d.save(); err != nil {
			d.abandon(ctx, err)
			return
		}
	}
	err, proof := d.climb(ctx, deadline), ""
	if err == nil {
		proof, err = d.prove(ctx, deadline)
	}
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errTurned):
		d.turn()
	case err != nil:
		d.fail(err)
	default:
		d.rec.Phase, d.rec.Since = routing.DrainDone, time.Now()
		d.mustSave()
		d.say("drained: "+proof, d.seen)
		d.shown(ctx)
	}
}

// whatOf says what a request takes out.
func whatOf(req *routing.DrainRequest) string {
	what := "every class that can be"
	if len(req.Classes) > 0 {
		what = "classes " + list(req.Classes)
	}
	if req.KeepEgress {
		what += ", but for the pods' way out"
	}
	return what
}

// climb takes the steps that are left. One that does nothing to these links is
// passed over, but for the last: with it everything is out that can be.
func (d *Drainer) climb(ctx context.Context, deadline time.Time) error {
	for step := max(d.rec.Step, routing.DrainShutdown); step <= routing.DrainPaths; step++ {
		text := stepText(d.opt.Engine.State(), &d.rec.Request, step)
		switch {
		case text == "" && step < routing.DrainPaths:
			continue
		case text == "":
			text = "that was all there is to take out"
		}
		d.rec.Step = step
		if err := d.save(); err != nil {
			return err
		}
		d.say(text, nil)
		if err := d.applied(ctx, deadline); err != nil {
			return err
		}
		if step == routing.DrainShutdown {
			if err := d.grace(ctx, deadline); err != nil {
				return err
			}
		}
	}
	return nil
}

// patience is how long the whole drain may take. After a restart it begins anew.
func (d *Drainer) patience() time.Duration { return patience(d.opt.Engine.State(), &d.rec.Request) }

func patience(s *routing.State, req *routing.DrainRequest) time.Duration {
	if req.Wait != nil {
		return *req.Wait
	}
	if c := s.Config.Config; c != nil && c.Drain.Timeout > 0 {
		return c.Drain.Timeout
	}
	return 5 * time.Minute
}

// graceTime is how long routers have.
func graceTime(s *routing.State, req *routing.DrainRequest) time.Duration {
	if req.Grace != nil {
		return *req.Grace
	}
	if c := s.Config.Config; c != nil {
		return c.Drain.Grace
	}
	return 10 * time.Second
}

// grace gives routers time to move traffic away.
func (d *Drainer) grace(ctx context.Context, deadline time.Time) error {
	wait := graceTime(d.opt.Engine.State(), &d.rec.Request)
	until := time.Now().Add(wait)
	if until.After(deadline) {
		return late("the grace time for routers, "+wait.String()+",", d.patience())
	}
	d.say(fmt.Sprintf("routers have %v to move traffic away", wait), nil)
	for time.Now().Before(until) {
		if err := d.attend(ctx); err != nil {
			return err
		}
		if err := d.pauseAloud(ctx, until); err != nil {
			return err
		}
	}
	return nil
}

// attend deals with what has been asked meanwhile, and sees that the lock is the one
// that is configured. It fails when the drain is not to go on.
func (d *Drainer) attend(ctx context.Context) error {
	if d.hear() {
		return errTurned
	}
	if err := d.joinLock(ctx); err != nil && !d.rec.Request.Force {
		return err
	}
	return nil
}

// applied waits until the engine has carried out the newest order, or until that has
// failed.
func (d *Drainer) applied(ctx context.Context, deadline time.Time) error {
	var refusedAt time.Time
	for {
		if err := d.attend(ctx); err != nil {
			return err
		}
		s := d.opt.Engine.State()
		missing := d.missing(s, true)
		switch {
		case missing == "":
			return nil
		case s.Pass.Error == "":
			refusedAt = time.Time{}
		case refusedAt.IsZero():
			refusedAt = time.Now()
		case time.Since(refusedAt) >= failTime:
			return errors.New(s.Pass.Error)
		}
		until := deadline
		if !refusedAt.IsZero() && refusedAt.Add(failTime).Before(until) {
			until = refusedAt.Add(failTime)
		}
		if !time.Now().Before(deadline) {
			return late(fmt.Sprintf("the step %q (%s)", d.rec.Step, missing), d.patience())
		}
		if err := d.pauseAloud(ctx, until); err != nil {
			return err
		}
	}
}

// missing says what of the newest order has not been carried out; empty: nothing.
// Taking out also needs that anything may be deleted at all.
func (d *Drainer) missing(s *routing.State, out bool) string {
	switch {
	case s.Drain != d.status:
		return "it has not been taken up yet"
	case s.Config.Config == nil || s.Config.Config.Idle():
		return ""
	case s.Pass.Error != "":
		return s.Pass.Error
	case out && s.Plan.Hold != "":
		return "nothing may be taken out: " + s.Plan.Hold
	case len(s.Pending) > 0:
		return fmt.Sprintf("%d changes are still to be made in the kernel, the first is to %s", len(s.Pending), s.Pending[0])
	case s.Plan.Speak != nil && !s.Speaker.Confirmed:
		return "the speaker has not confirmed it"
	}
	return ""
}

// fail has a drain that failed half-way rolled back.
func (d *Drainer) fail(err error) {
	d.rec.Phase, d.rec.Since = routing.DrainBack, time.Now()
	d.rec.Cause, d.rec.Failure = err.Error(), failureOf(err)
	d.costs = nil
	d.mustSave()
}

// abandon ends a drain that has not won the lock.
func (d *Drainer) abandon(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, errTurned) {
		d.turn()
		return
	}
	d.fail(err)
}
