package drain

import (
	"context"
	"strings"
	"time"

	"netclass.dev/routing"
)

// Times of following a cordon.
const (
	cordonRetry = 10 * time.Second // between tries of a drain that is refused
	cordonRest  = 5 * time.Minute  // after one that failed half-way
)

// followsCordon reports whether the node is to be drained while its Node is cordoned.
func followsCordon(s *routing.State) bool {
	c := s.Config.Config
	return c != nil && c.Drain.FollowCordon && c.Cluster != nil && c.Cluster.Kubernetes != nil
}

// uncordoned reports whether the own Node is known not to be cordoned.
func uncordoned(s *routing.State) bool {
	n := s.Inventory.Node(s.Node)
	return s.Inventory.Synced && s.Inventory.Stale == "" && n != nil && !n.Cordoned
}

// followCordon drains a node whose Node is cordoned, as soon as that is safe.
func (d *Drainer) followCordon(ctx context.Context, s *routing.State) {
	n := s.Inventory.Node(s.Node)
	if n == nil || !s.Inventory.Synced || !followsCordon(s) {
		d.stopWaiting()
		d.cordonAt = time.Time{}
		return
	}
	if !n.Cordoned {
		d.stopWaiting()
		d.cordonAt = time.Time{}
		if d.rec.Overridden {
			d.rec.Overridden = false
			d.mustSave()
			d.opt.Engine.SetDrain(d.rec.order(), d.status)
		}
		return
	}
	if d.rec.Overridden {
		return
	}
	req := routing.DrainRequest{Node: s.Node, Reason: "cordoned", By: "its Node, which is cordoned", Cordon: true}
	if len(drainable(s, &req)) == 0 {
		d.stopWaiting()
		return
	}
	if reasons := unsafe(s, &req, true, false); len(reasons) > 0 {
		d.waitFor(&req, reasons)
		d.cordonAt = time.Now().Add(cordonRetry)
		return
	}
	if time.Now().Before(d.cordonAt) {
		return
	}
	d.cordonAt = time.Now().Add(cordonRetry) // where it cannot be begun
	req.ID, req.At = newID(), time.Now()
	d.begin(ctx, newCaller(req))
}

// waitFor shows why a cordoned node is not drained yet.
func (d *Drainer) waitFor(req *routing.DrainRequest, reasons []string) {
	message := "it is not drained yet: " + strings.Join(reasons, "; ")
	if d.waiting != nil && d.status != nil && d.status.Progress.Message == message {
		return
	}
	since := time.Now()
	if d.waiting != nil && d.status != nil {
		since = d.status.Since
	}
	d.waiting = req
	d.status = &routing.DrainStatus{Request: *req, Since: since}
	d.status.Progress = routing.DrainProgress{Phase: routing.DrainWaiting, Message: message, At: time.Now()}
	d.opt.Engine.SetDrain(d.rec.order(), d.status)
	d.logOnce(progress{phase: routing.DrainWaiting, error: message}, d.status)
}

// stopWaiting ends that.
func (d *Drainer) stopWaiting() {
	if d.waiting == nil {
		return
	}
	d.waiting, d.status, d.said = nil, nil, progress{}
	d.opt.Engine.SetDrain(d.rec.order(), nil)
	d.log.Info("drain no longer waited for")
}
