package drain

import (
	"log/slog"
	"time"

	"netclass.dev/routing"
)

// handledTime is how long a request that has been taken up is remembered at least.
const handledTime = 2 * time.Minute

// lastHeard is what the request in the lease was when it was last looked at. The zero
// value: nothing is known of that.
type lastHeard struct {
	lease string // which one it was
	id    string // empty: there was none
	at    time.Time
}

// hearFar takes up what has been asked of this node over the lease. What was written
// while we were not looking may be nobody's wish any more: it is taken up once whoever
// asks says it again. How old it is cannot be told, as it was dated by another clock.
func (d *Drainer) hearFar(s *routing.State) {
	l, lease := d.lease(), s.Inventory.Drain
	was := d.heard
	d.heard = lastHeard{}
	if l == nil || lease == nil || lease.Unusable != "" {
		return
	}
	d.heard.lease = l.String()
	if s.Config.Config != nil { // the two may change one after the other
		d.heard.lease += " " + configured(s.Config.Config)
	}
	req := lease.Request
	if req == nil {
		return
	}
	d.heard.id, d.heard.at = req.ID, req.At
	if _, done := d.handled[req.ID]; done || req.Node != s.Node {
		return
	}
	switch st := lease.Status; {
	case st != nil && st.Request.ID == req.ID && st.Final():
	case was.lease != d.heard.lease:
		d.log.Info("request over the drain lease not taken up before it is said again", "id", req.ID, "by", req.By)
	case was.id != req.ID || !was.at.Equal(req.At):
		d.takeUp(req)
	}
}

// takeUp has a request over the lease dealt with as if it had been made here.
func (d *Drainer) takeUp(req *routing.DrainRequest) {
	for id, at := range d.handled {
		if time.Since(at) > handledTime && len(d.handled) > maxQueue {
			delete(d.handled, id)
		}
	}
	d.handled[req.ID] = time.Now()
	d.log.Info("request over the drain lease taken up", slog.String("id", req.ID), slog.Bool("undrain", req.Undrain), slog.Bool("dryRun", req.DryRun),
		slog.String("by", req.By), slog.Bool("forced", req.Force))
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
