package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"netclass.dev/routing"
)

// Times of requests to other nodes.
const (
	renewGap   = 3 * time.Second  // between sayings of a request that is not answered
	promptGap  = 15 * time.Second // until one of which nothing more is heard is said again
	deadTime   = 10 * time.Second // until one that nobody says again is nobody's wish any more
	lifeTime   = 15 * time.Second // until a node that says nothing does not answer
	silentTime = time.Minute      // the same once it has begun
)

func errAskThere(node string) error {
	return fmt.Errorf("there is no Kubernetes API that could carry it: run it on %s itself", node)
}

// far writes a request for another node into the lease, and reports what that node
// answers there.
func (d *Drainer) far(ctx context.Context, req routing.DrainRequest, report func(routing.DrainStatus) error) error {
	l, s := d.lease(), d.opt.Engine.State()
	if l == nil {
		return errAskThere(req.Node)
	}
	if s.Inventory.Known() && s.Inventory.Node(req.Node) == nil {
		return &routing.BadQuestion{Field: "node", Problem: fmt.Sprintf("there is no node %q", req.Node), Missing: req.Node}
	}
	id, err := d.send(ctx, l, &req)
	if err != nil {
		return err
	}
	d.log.Info("drain asked of another node", "node", req.Node, "undrain", req.Undrain, "dryRun", req.DryRun, "id", id, "by", req.By)
	return d.heed(ctx, l, id, &req, report)
}

// errUndecided is of a request whose place in the lease another has, of which it is
// not known yet whether anybody still wants it.
var errUndecided = errors.New("the drain lease has a request of another")

// noError is an error that trying again does not change.
type noError struct{ error }

// send writes a request and returns its ID: that of one under way for the same node,
// which it then joins.
func (d *Drainer) send(ctx context.Context, l Lease, req *routing.DrainRequest) (string, error) {
	var other lying
	read := time.Now() // when the lease could last be read
	for {
		id, err := sendOnce(ctx, l, req, &other)
		if no, is := errors.AsType[noError](err); is {
			return "", no.error
		}
		gap := leaseGap
		switch {
		case err == nil, ctx.Err() != nil:
			return id, err
		case errors.Is(err, errUndecided):
			read = time.Now()
		case time.Since(read) >= leaseTime:
			return "", fmt.Errorf("ask %s: %w", req.Node, err)
		case errors.Is(err, routing.ErrDrainConflict):
			gap = conflictGap
		}
		if !rest(ctx, gap) {
			return "", ctx.Err()
		}
	}
}

// lying is a request of another as it was first seen. Whoever asked for it says it
// again and again until it is answered: what stays as it is is nobody's wish any more.
// How old it is by the clock of another machine says nothing.
type lying struct {
	id    string
	at    time.Time
	since time.Time // of our clock
}

// judge reports whether a request that is not answered is alive, and whether it is
// dead; neither: that is not known yet.
func (y *lying) judge(req *routing.DrainRequest) (alive, dead bool) {
	switch {
	case y.id == "":
		*y = lying{req.ID, req.At, time.Now()}
	case y.id != req.ID || !y.at.Equal(req.At):
		return true, false
	}
	return false, time.Since(y.since) >= deadTime
}

func sendOnce(ctx context.Context, l Lease, req *routing.DrainRequest, other *lying) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	lease, err := readLease(ctx, l)
	if err != nil {
		return "", err
	}
	if old := lease.Request; old != nil {
		id, err := beside(lease, old, req, other)
		if id != "" || err != nil {
			return id, err
		}
	}
	next := *lease
	next.Request = req
	if _, err := l.WriteDrain(ctx, &next); err != nil {
		return "", err
	}
	return req.ID, nil
}

// beside says what becomes of a request where the lease has another: it joins that
// one, whose ID is returned, is refused, or has to wait. Neither: it takes its place.
func beside(lease *routing.DrainLease, old, req *routing.DrainRequest, other *lying) (id string, err error) {
	st := lease.Status
	answered := st != nil && st.Request.ID == old.ID
	same := old.Node == req.Node && old.Undrain == req.Undrain && old.DryRun == req.DryRun
	alive, dead := false, false
	if !answered {
		alive, dead = other.judge(old)
	}
	switch {
	case answered && st.Final(), dead:
		return "", nil
	case req.DryRun && old.Node == req.Node && !old.DryRun && !old.Undrain:
		return "", noError{joins{old}}
	case same && (req.Undrain || sameWish(old, req)):
		return old.ID, nil
	case req.Undrain:
		return "", nil
	case !answered && !alive:
		return "", errUndecided
	case same && !req.DryRun && covers(old, req):
		return old.ID, nil
	case same && !req.DryRun:
		return "", noError{inTheWay(routing.DrainGoing, old, req)}
	}
	return "", noError{&routing.Refused{Reasons: []string{fmt.Sprintf("%s is just being asked for %s (%s): wait until that is done", what(old), old.Node, old.By)}}}
}

// sameWish reports whether two requests ask for the very same drain.
func sameWish(a, b *routing.DrainRequest) bool {
	return covers(a, b) && covers(b, a) && a.Force == b.Force && a.Holder == b.Holder && equal(a.Grace, b.Grace) && equal(a.Wait, b.Wait)
}

func equal(a, b *time.Duration) bool { return a == b || a != nil && b != nil && *a == *b }

func what(req *routing.DrainRequest) string {
	switch {
	case req.Undrain:
		return "an undrain"
	case req.DryRun:
		return "a dry run"
	}
	return "a drain"
}

// heed reports what is answered to a request until the last answer, and says it again
// until there is one. Whether anybody answers is judged by what changes, as our clock
// goes: that of the other node may be another time.
func (d *Drainer) heed(ctx context.Context, l Lease, id string, req *routing.DrainRequest, report func(routing.DrainStatus) error) error {
	heard, alive, limit := time.Time{}, time.Now(), lifeTime
	again := alive.Add(renewGap)
	for {
		s := d.opt.Engine.State()
		if st := answerTo(&s.Inventory, id); st != nil && st.Progress.At != heard {
			heard, alive, limit = st.Progress.At, time.Now(), silentTime
			again = alive.Add(promptGap)
			if !st.Progress.Failure.Unreported {
				if err := report(*st); err != nil {
					return err
				}
			}
			if st.Final() {
				return errorOf(st.Progress.Error, &st.Progress.Failure)
			}
		}
		if time.Since(alive) >= limit {
			if limit == silentTime {
				return fmt.Errorf("%s says nothing any more: what it began goes on once its netclassd runs and reaches the API", req.Node)
			}
			if err := takeBack(ctx, l, id, req.Node); err != nil {
				return err
			}
			alive, limit = time.Now(), silentTime
		}
		if !time.Now().Before(again) {
			renew(ctx, l, id)
			again = time.Now().Add(renewGap)
		}
		if err := d.newer(ctx, s.Sequence, soonest(alive.Add(limit), again)); err != nil {
			return err
		}
	}
}

// soonest is the earlier of two times, each of which may be none.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// renew says a request again: it is still wanted. It may have been taken up by a
// process that has ended before it could write how that came out; the next one then
// takes it up anew. Where it fails it is soon tried again.
func renew(ctx context.Context, l Lease, id string) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	lease, err := readLease(ctx, l)
	if err != nil || lease.Request == nil || lease.Request.ID != id {
		return
	}
	if st := lease.Status; st != nil && st.Request.ID == id && st.Final() {
		return
	}
	next, req := *lease, *lease.Request
	req.At = time.Now()
	next.Request = &req
	_, _ = l.WriteDrain(ctx, &next)
}

// newer waits for a state after a sequence number, or until a time.
func (d *Drainer) newer(ctx context.Context, after uint64, until time.Time) error {
	bounded, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	_, _ = d.opt.Engine.Wait(bounded, after) // the state is read afterwards
	return ctx.Err()
}

// answerTo returns what is answered to a request; nil: nothing yet.
func answerTo(inv *routing.Inventory, id string) *routing.DrainStatus {
	if inv.Drain == nil || inv.Drain.Status == nil || inv.Drain.Status.Request.ID != id {
		return nil
	}
	return inv.Drain.Status
}

// takeBack takes a request out of the lease, and returns the error that it is not
// answered; nil: it has just been taken up.
func takeBack(ctx context.Context, l Lease, id, node string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callTime)
	defer cancel()
	for {
		lease, err := readLease(ctx, l)
		if err != nil {
			return fmt.Errorf("the netclassd of %s does not answer, and the request cannot be taken back: %w", node, err)
		}
		if st := lease.Status; st != nil && st.Request.ID == id {
			return nil
		}
		if lease.Request == nil || lease.Request.ID != id {
			return fmt.Errorf("the netclassd of %s has not answered, and the request has been replaced by another: ask again", node)
		}
		next := *lease
		next.Request = nil
		if _, err = l.WriteDrain(ctx, &next); err == nil {
			return fmt.Errorf("the netclassd of %s does not answer: is it running, does it reach the API, and has it the same drain.lease? The request has been taken back", node)
		}
		if !errors.Is(err, routing.ErrDrainConflict) {
			return fmt.Errorf("the netclassd of %s does not answer, and the request cannot be taken back: %w", node, err)
		}
		if !rest(ctx, conflictGap) {
			return ctx.Err()
		}
	}
}
