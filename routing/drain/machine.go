package drain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"netclass.dev/routing"
)

// errTurned ends a wait of a drain that is to be undone.
var errTurned = errors.New("it is to be undone")

// say orders what the record says, and tells everybody who wants to know.
func (d *Drainer) say(message string, rates []routing.LinkRate) {
	st := &routing.DrainStatus{
		Request: d.rec.Request, Since: d.rec.Since, Lock: d.lock,
		Progress: routing.DrainProgress{
			Phase: d.rec.Phase, Step: d.rec.Step, Message: message, Rates: rates, Costs: d.costs, At: time.Now(),
		},
	}
	if d.rec.Phase == routing.DrainBack {
		st.Progress.Error = d.rec.Cause
	}
	d.status = st
	d.opt.Engine.SetDrain(d.rec.order(), st)
	d.tell(st)
}

// sayOn says how it goes on with a step that has been ordered. While the engine has
// still to take that up, it is not ordered anew: a pass may take longer than the time
// between two words, and would never be that of the newest.
func (d *Drainer) sayOn(message string, rates []routing.LinkRate) {
	if d.opt.Engine.State().Drain == d.status {
		d.say(message, rates)
		return
	}
	st := *d.status
	st.Progress.Message, st.Progress.Rates, st.Progress.At = message, rates, time.Now()
	d.tell(&st)
}

// tell gives a status to the callers, the lease and the log.
func (d *Drainer) tell(st *routing.DrainStatus) {
	d.toldAt = time.Now()
	far := false
	d.callers = slices.DeleteFunc(d.callers, func(c *caller) bool { return c.left.Load() })
	for _, c := range d.callers {
		if c.far {
			far = true
			d.scribe.answer(st, &c.request, d.rec.Leases)
		} else {
			c.tell(st)
		}
	}
	now := progress{st.Progress.Phase, st.Progress.Step, st.Progress.Error}
	if now != d.said && !far && d.rec.Locked && len(d.rec.Leases) > 0 {
		d.scribe.answer(st, nil, d.rec.Leases)
	}
	d.logOnce(now, st)
}

// shown waits until whoever asks is shown the newest status: who is told that it is
// done asks next. That takes one pass; where it does not come, nobody waits for it.
func (d *Drainer) shown(ctx context.Context) {
	for until := time.Now().Add(time.Second); d.opt.Engine.State().Drain != d.status && time.Now().Before(until); {
		if d.pause(ctx, until) != nil {
			return
		}
	}
}

// logOnce logs each phase and step, and what is not so any more.
func (d *Drainer) logOnce(now progress, st *routing.DrainStatus) {
	if now == d.said {
		return
	}
	d.said = now
	level := slog.LevelInfo
	if st.Request.Force || st.Progress.Error != "" {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("phase", string(now.phase)), slog.String("step", now.step.String()), slog.String("id", st.Request.ID),
		slog.String("by", st.Request.By), slog.String("message", st.Progress.Message),
	}
	if d.rec.Undoer != "" {
		attrs = append(attrs, slog.String("undrained_by", d.rec.Undoer))
	}
	if st.Request.Force {
		attrs = append(attrs, slog.Bool("forced", true))
	}
	if st.Progress.Error != "" {
		attrs = append(attrs, slog.String("error", st.Progress.Error))
	}
	d.log.LogAttrs(context.Background(), level, "drain", attrs...)
}

// hear deals with what has been asked while something is under way or done. It
// reports whether that is to be undone.
func (d *Drainer) hear() (turn bool) {
	s := d.opt.Engine.State()
	d.hearFar(s)
	for _, c := range d.asked() {
		undoing := d.rec.Phase == routing.DrainUndoing || d.rec.Phase == routing.DrainBack
		switch {
		case c.request.DryRun:
			d.weighBeside(c)
		case c.request.Undrain && undoing, !c.request.Undrain && inTheWay(d.rec.Phase, &d.rec.Request, &c.request) == nil:
			d.callers = append(d.callers, c)
			d.greet(c)
		case c.request.Undrain && d.turned == nil:
			d.turned = c
		case c.request.Undrain:
			d.callers = append(d.callers, c)
		default:
			d.dismissOne(c, inTheWay(d.rec.Phase, &d.rec.Request, &c.request), nil)
		}
	}
	if d.turned == nil && d.rec.Request.Cordon && uncordoned(s) && (d.rec.Phase == routing.DrainGoing || d.rec.Phase == routing.DrainDone) {
		d.turned = newCaller(routing.DrainRequest{ID: newID(), Node: s.Node, Undrain: true, Cordon: true, By: "its Node, which is no longer cordoned", At: time.Now()})
	}
	return d.turned != nil
}

// greet tells a caller who joins how it stands.
func (d *Drainer) greet(c *caller) {
	if c.far {
		d.scribe.answer(d.status, &c.request, d.rec.Leases)
	} else {
		c.tell(d.status)
	}
}

// inTheWay says why a drain cannot join the one of this node that is under way or
// done; nil: it can. Force does not help there.
func inTheWay(phase routing.DrainPhase, have, req *routing.DrainRequest) error {
	switch {
	case phase == routing.DrainUndoing, phase == routing.DrainBack:
		return errors.New("it is just being put back: drain it once that is done")
	case !covers(have, req):
		return fmt.Errorf("a drain of less of it is %s already (%s): undrain it first", underWay(phase), whatOf(have))
	}
	return nil
}

// covers reports whether what is drained is all that a request asks for.
func covers(have, req *routing.DrainRequest) bool {
	if have.KeepEgress && !req.KeepEgress {
		return false
	}
	if len(have.Classes) == 0 {
		return true
	}
	return len(req.Classes) > 0 && !slices.ContainsFunc(req.Classes, func(c string) bool { return !slices.Contains(have.Classes, c) })
}

func underWay(p routing.DrainPhase) string {
	if p == routing.DrainDone {
		return "done"
	}
	return "under way"
}

// refuse ends a caller's request without any change.
func (d *Drainer) refuse(c *caller, reasons ...string) {
	d.dismissOne(c, &routing.Refused{Reasons: reasons}, nil)
}

// dismissOne is the end of one caller; last may be nil.
func (d *Drainer) dismissOne(c *caller, err error, last *routing.DrainStatus) {
	if c.far {
		st := routing.DrainStatus{Request: c.request, Since: time.Now()}
		st.Progress = routing.DrainProgress{Phase: routing.DrainEnded, At: time.Now()}
		switch {
		case last != nil:
			st = *last
		case d.rec.active() && d.status != nil:
			// Others read there how far this node is taken out.
			st = *d.status
			st.Progress.At, st.Progress.Costs, st.Progress.Rates = time.Now(), nil, nil
			if st.Progress.Phase == routing.DrainBack {
				st.Progress.Phase = routing.DrainUndoing // an error of that is not the last word
			}
		}
		if err != nil {
			st.Progress.Error, st.Progress.Failure = err.Error(), failureOf(err)
			st.Progress.Failure.Unreported = last == nil
		}
		d.scribe.answer(&st, &c.request, d.rec.Leases)
	} else if last != nil {
		c.tell(last)
	}
	c.end(err)
}

// finish is the end of what was under way, for all its callers.
func (d *Drainer) finish(err error, last *routing.DrainStatus) {
	for _, c := range d.callers {
		if c.request.Undrain {
			d.dismissOne(c, nil, last) // also where a drain had failed
		} else {
			d.dismissOne(c, err, last)
		}
	}
	d.callers = nil
}

// dismiss is the end of the process. Nothing is changed.
func (d *Drainer) dismiss() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	for _, c := range append(d.callers, d.asked()...) {
		c.end(ErrStopping)
	}
	if d.turned != nil {
		d.turned.end(ErrStopping)
	}
}

// turn has what is drained, or is being drained, put back.
func (d *Drainer) turn() {
	c := d.turned
	d.turned = nil
	stay := []*caller{c}
	for _, other := range d.callers {
		if other.request.Undrain {
			stay = append(stay, other)
		} else {
			d.dismissOne(other, fmt.Errorf("the drain was ended half-way: undrained by %s", c.request.By), nil)
		}
	}
	d.callers = stay
	d.answering(c)
	s := d.opt.Engine.State()
	d.rec.Phase, d.rec.Since, d.rec.Undoer = routing.DrainUndoing, time.Now(), c.request.By
	d.rec.Overridden = !c.request.Cordon && !uncordoned(s) && followsCordon(s)
	d.costs = nil
	d.mustSave()
}

// mustSave saves where there is nothing better to do about a failure than to say
// so: going back is not stopped by a full disk.
func (d *Drainer) mustSave() {
	if err := d.save(); err != nil {
		d.log.Error("drain not saved", "error", err)
	}
}

// stay keeps a node drained until that is to be undone.
func (d *Drainer) stay(ctx context.Context) {
	for {
		if d.hear() {
			d.turn()
			return
		}
		d.answered()
		_ = d.joinLock(ctx) // of which keepLock tells
		d.keepLock(ctx)
		d.lookBack(ctx)
		if d.pause(ctx, d.keepUntil()) != nil {
			return
		}
	}
}

// answered tells those who have asked for a drain that it is done.
func (d *Drainer) answered() {
	for _, c := range d.callers {
		d.dismissOne(c, nil, d.status)
	}
	d.callers = nil
	if d.rec.Answering != nil {
		d.rec.Answering = nil
		d.mustSave()
	}
}
