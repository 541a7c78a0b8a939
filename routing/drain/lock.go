package drain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"netclass.dev/routing"
)

// Times of the lease.
const (
	callTime    = 5 * time.Second  // of one call of the API
	leaseTime   = 10 * time.Second // until a lease that cannot be had is given up
	releaseTime = 5 * time.Second  // until a lease that cannot be freed no longer holds up an undrain
	leaseGap    = 500 * time.Millisecond
	conflictGap = 20 * time.Millisecond
	freeGap     = 5 * time.Second  // between tries to free it after that
	rejoinGap   = 10 * time.Second // between looks at a lease that is not as it should be
)

// claim wins the lock, and sees that it is still safe then.
func (d *Drainer) claim(ctx context.Context) error {
	d.rec.Step = routing.DrainClaim
	if err := d.save(); err != nil {
		return err
	}
	d.say(stepText(d.opt.Engine.State(), &d.rec.Request, routing.DrainClaim), nil)
	var err error
	switch l := d.lease(); {
	case d.rec.Marker:
		err = d.winMarker(ctx)
	case l == nil:
		err = errors.New("the configuration no longer names a Kubernetes API, which keeps the lock")
	default:
		err = d.winLease(ctx, l)
	}
	if err != nil {
		return err
	}
	req := &d.rec.Request
	if reasons := unsafe(d.opt.Engine.State(), req, !d.rec.Marker, true); len(reasons) > 0 && !req.Force {
		return &routing.Refused{Reasons: reasons}
	}
	return nil
}

// winLease takes the lease, or says who has it.
func (d *Drainer) winLease(ctx context.Context, l Lease) error {
	giveUp := time.Now().Add(leaseTime)
	for {
		if d.hear() {
			return errTurned
		}
		err := d.takeLease(ctx, l)
		_, refused := errors.AsType[*routing.Refused](err)
		switch {
		case err == nil:
			d.lock, d.joined = d.leaseText(), l.String()
			return d.seeLease(ctx)
		case refused || ctx.Err() != nil:
			return err
		case time.Now().After(giveUp) && d.rec.Request.Force:
			d.lock = "nobody: " + err.Error()
			d.log.Warn("drain forced", "by", d.rec.Request.By, "id", d.rec.Request.ID, "although", "the lease cannot be taken: "+err.Error())
			return nil
		case time.Now().After(giveUp):
			return &routing.Refused{Reasons: []string{"the lease that keeps others from draining cannot be taken: " + err.Error()}}
		}
		gap := leaseGap
		if errors.Is(err, routing.ErrDrainConflict) {
			gap = conflictGap // somebody was quicker: see who
		}
		if err := d.pause(ctx, time.Now().Add(gap)); err != nil {
			return err
		}
	}
}

// seeLease waits until the lease that has been won is seen here: who held it before
// is not drained any more. What is said while it cannot be seen is judged as it is.
func (d *Drainer) seeLease(ctx context.Context) error {
	for giveUp := time.Now().Add(callTime); time.Now().Before(giveUp); {
		lease := d.opt.Engine.State().Inventory.Drain
		if lease == nil || lease.Unusable != "" {
			return nil
		}
		if _, id := holderOf(lease); id == d.rec.Request.ID {
			return nil
		}
		if d.hear() {
			return errTurned
		}
		if err := d.pause(ctx, giveUp); err != nil {
			return err
		}
	}
	return nil
}

// takeLease takes the lease if it is free, ours, of a Node that is gone, or to be
// taken by force.
func (d *Drainer) takeLease(ctx context.Context, l Lease) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	s := d.opt.Engine.State()
	self := s.Inventory.Node(s.Node)
	if self == nil || self.UID == "" {
		return errors.New("the UID of this Node is not known")
	}
	lease, err := readLease(ctx, l)
	if err != nil {
		return err
	}
	if reason := d.heldBy(s, lease); reason != "" {
		return &routing.Refused{Reasons: []string{reason}}
	}
	if err := d.note(l); err != nil {
		return err
	}
	next := *lease
	next.Holder, next.Status = self.UID+"/"+d.rec.Request.ID, d.status
	if lease.Holder != "" && lease.Holder != next.Holder {
		d.log.Warn("drain lease taken over", "from", lease.Holder, "by", d.rec.Request.By, "id", d.rec.Request.ID)
	}
	if _, err = l.WriteDrain(ctx, &next); err != nil {
		return fmt.Errorf("take the drain lease: %w", err)
	}
	return nil
}

// readLease reads a lease that can be used. One that does not exist yet is free, and
// made by the first who writes it.
func readLease(ctx context.Context, l Lease) (*routing.DrainLease, error) {
	lease, err := l.ReadDrain(ctx)
	switch {
	case err != nil:
		return nil, unreadError{err}
	case lease == nil:
		return nil, unreadError{errors.New("read drain lease: there is none")}
	case lease.Unusable != "" && lease.Version != "":
		return nil, errors.New("the drain lease cannot be used: " + lease.Unusable)
	}
	return lease, nil
}

// unreadError is of a lease that may be as it was.
type unreadError struct{ error }

func (e unreadError) Unwrap() error { return e.error }

// heldBy says which other node has the lease; empty: it can be taken.
func (d *Drainer) heldBy(s *routing.State, lease *routing.DrainLease) string {
	return heldByOther(s, lease, &d.rec.Request)
}

// heldByOther is the same for a request that has not begun. A Node that is gone
// frees its lock; but who is gone, only nodes that have been read can say.
func heldByOther(s *routing.State, lease *routing.DrainLease, req *routing.DrainRequest) string {
	uid, id := holderOf(lease)
	if uid == "" || id == req.ID {
		return ""
	}
	holder := nodeOf(s, uid)
	switch {
	case holder == s.Node:
		return ""
	case holder == "" && s.Inventory.Synced && s.Inventory.Stale == "":
		return ""
	case holder == "":
		return fmt.Sprintf("the drain lease is held by the Node with UID %s, which is not known: wait until the nodes have been read", uid)
	case req.Force && req.Holder == holder:
		return ""
	}
	text := holder + " holds the drain lease"
	if st := lease.Status; st != nil && st.Request.Node == holder {
		text = fmt.Sprintf("%s is %s since %s%s", holder, st.Progress.Phase.Doing(), st.Since.UTC().Format(time.RFC3339), because(&st.Request))
	}
	return fmt.Sprintf("%s: undrain it first, or take the lock from it by --force --holder %s", text, holder)
}

// because says who wanted a drain, and why.
func because(req *routing.DrainRequest) string {
	text := " by " + req.By
	if req.Reason != "" {
		text += ", " + fmt.Sprintf("%q", req.Reason)
	}
	return " (" + strings.TrimPrefix(text, " ") + ")"
}

func nodeOf(s *routing.State, uid string) string {
	for i := range s.Inventory.Nodes {
		if s.Inventory.Nodes[i].UID == uid {
			return s.Inventory.Nodes[i].Name
		}
	}
	return ""
}

// holderOf returns the UID of the Node that holds a lease and the ID of its drain;
// both empty: it is free.
func holderOf(lease *routing.DrainLease) (uid, id string) {
	uid, id, _ = strings.Cut(lease.Holder, "/")
	return uid, id
}

// stillOurs sees after a restart that nobody has taken the lock meanwhile. While
// that cannot be seen it is: nobody takes it but by force.
func (d *Drainer) stillOurs(ctx context.Context) error {
	d.lock = d.lockText()
	now := d.lease()
	if now == nil {
		return nil
	}
	for _, name := range append(d.oldLeases(now.String()), now.String()) {
		if err := d.hold(ctx, d.leaseOf(name)); err != nil {
			return err
		}
	}
	d.lock = d.lockText()
	return nil
}

// hold sees that a lease is ours, and fails when another node has it.
func (d *Drainer) hold(ctx context.Context, l Lease) error {
	lease, err := d.read(ctx, l)
	if err == nil {
		if _, id := holderOf(lease); id == d.rec.Request.ID {
			return nil
		}
		err = d.takeLease(ctx, l)
	}
	if refused, is := errors.AsType[*routing.Refused](err); is && d.opt.Engine.State().Inventory.Synced {
		return fmt.Errorf("the lock has been taken from it meanwhile: %s", strings.Join(refused.Reasons, "; "))
	}
	if err != nil {
		d.log.Warn("drain goes on without a look at its lease", "error", err)
	}
	return nil
}
