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
	requestAge = time.Minute      // from which on a request is not taken up any more
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
	d.log.Info("drain asked of another node", "node", req.Node, "undrain", req.Undrain, "id", id, "by", req.By)
	return d.heed(ctx, l, id, &req, report)
}

// send writes a request and returns its ID: that of one under way for the same node,
// which it then joins.
func (d *Drainer) send(ctx context.Context, l Lease, req *routing.DrainRequest) (string, error) {
	giveUp := time.Now().Add(leaseTime)
	for {
		id, err := sendOnce(ctx, l, req)
		if err == nil || isRefused(err) || ctx.Err() != nil {
			return id, err
		}
		if time.Now().After(giveUp) {
			return "", fmt.Errorf("ask %s: %w", req.Node, err)
		}
		gap := leaseGap
		if errors.Is(err, routing.ErrDrainConflict) {
			gap = conflictGap
		}
		if !rest(ctx, gap) {
			return "", ctx.Err()
		}
	}
}

func sendOnce(ctx context.Context, l Lease, req *routing.DrainRequest) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	lease, err := readLease(ctx, l)
	if err != nil {
		return "", err
	}
	if old := lease.Request; old != nil && underway(lease, time.Now()) {
		switch {
		case old.Node == req.Node && old.Undrain == req.Undrain:
			return old.ID, nil
		case !req.Undrain:
			return "", &routing.Refused{Reasons: []string{fmt.Sprintf("%s is just being asked for %s (%s): wait until that is done", what(old), old.Node, old.By)}}
		}
	}
	next := *lease
	next.Request = req
	if _, err := l.WriteDrain(ctx, &next); err != nil {
		return "", err
	}
	return req.ID, nil
}

func what(req *routing.DrainRequest) string {
	if req.Undrain {
		return "an undrain"
	}
	return "a drain"
}

// underway reports whether the request in a lease is still being carried out, or may
// yet be taken up.
func underway(lease *routing.DrainLease, now time.Time) bool {
	if st := lease.Status; st != nil && st.Request.ID == lease.Request.ID {
		return !st.Progress.Final()
	}
	return now.Sub(lease.Request.At).Abs() < requestAge
}

// heed reports what is answered to a request until the last answer.
func (d *Drainer) heed(ctx context.Context, l Lease, id string, req *routing.DrainRequest, report func(routing.DrainStatus) error) error {
	heard, alive := time.Time{}, time.Now()
	limit := lifeTime
	for {
		s := d.opt.Engine.State()
		if st := answerTo(&s.Inventory, id); st != nil && st.Progress.At != heard {
			heard, alive, limit = st.Progress.At, time.Now(), silentTime
			if p := &st.Progress; !p.Failure.Unreported {
				if err := report(*st); err != nil {
					return err
				}
			}
			if st.Progress.Final() {
				return errorOf(st.Progress.Error, &st.Progress.Failure)
			}
		}
		if time.Since(alive) >= limit {
			if limit == silentTime {
				return fmt.Errorf("%s says nothing any more: what it began goes on once its netclassd runs and reaches the API", req.Node)
			}
			taken, err := takeBack(ctx, l, id)
			if err != nil {
				return fmt.Errorf("the netclassd of %s does not answer, and the request cannot be taken back: %w", req.Node, err)
			}
			if !taken {
				return fmt.Errorf("the netclassd of %s does not answer: is it running, and does it reach the API? The request has been taken back", req.Node)
			}
			alive, limit = time.Now(), silentTime
		}
		if err := d.newer(ctx, s.Sequence, alive.Add(limit)); err != nil {
			return err
		}
	}
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

// takeBack takes a request out of the lease, unless it has been taken up.
func takeBack(ctx context.Context, l Lease, id string) (taken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*callTime)
	defer cancel()
	for {
		lease, err := readLease(ctx, l)
		if err != nil {
			return false, err
		}
		if st := lease.Status; st != nil && st.Request.ID == id {
			return true, nil
		}
		if lease.Request == nil || lease.Request.ID != id {
			return false, nil
		}
		next := *lease
		next.Request = nil
		if _, err = l.WriteDrain(ctx, &next); !errors.Is(err, routing.ErrDrainConflict) {
			return false, err
		}
		if !rest(ctx, conflictGap) {
			return false, ctx.Err()
		}
	}
}

// hearFar takes up what has been asked of this node over the lease. One that is old
// when it is first seen is nobody's wish any more.
func (d *Drainer) hearFar(s *routing.State) {
	lease := s.Inventory.Drain
	if lease == nil || lease.Request == nil || lease.Request.Node != s.Node || d.lease() == nil {
		return
	}
	req := lease.Request
	if _, done := d.handled[req.ID]; done {
		return
	}
	for id, at := range d.handled {
		if time.Since(at) > 2*requestAge && len(d.handled) > maxQueue {
			delete(d.handled, id)
		}
	}
	d.handled[req.ID] = time.Now()
	if st := lease.Status; st != nil && st.Request.ID == req.ID && st.Progress.Final() {
		return
	}
	if age := time.Since(req.At).Abs(); age >= requestAge {
		d.log.Warn("request over the drain lease ignored: it is too old", "id", req.ID, "by", req.By, "age", age.Round(time.Second))
		return
	}
	d.log.Info("request over the drain lease taken up", "id", req.ID, "undrain", req.Undrain, "by", req.By, "forced", req.Force)
	c := newCaller(*req)
	c.far = true
	c.request.Cordon = false // which only a Node itself can be
	d.putBack(c)
}

// answering notes in the record whose request over the lease is being answered.
func (d *Drainer) answering(c *caller) {
	d.rec.Answering = nil
	if c.far {
		req := c.request
		d.rec.Answering = &req
	}
}
