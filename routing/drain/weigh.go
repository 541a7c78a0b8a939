package drain

import (
	"context"
	"errors"
	"time"

	"netclass.dev/routing"
)

// drainFar has another node drained. What that costs, and why it would be refused, the
// node is asked first: once it has begun it does not stop for who does not like that.
func (d *Drainer) drainFar(ctx context.Context, req routing.DrainRequest, validateOnly bool, report func(routing.DrainStatus) error) error {
	ask := req
	ask.ID, ask.DryRun = newID(), true
	var costs *routing.DrainStatus
	err := d.far(ctx, ask, func(st routing.DrainStatus) error { costs = &st; return nil })
	if other, is := errors.AsType[joins](err); is {
		costs, err = other.weigh(&req)
	}
	if costs != nil && (validateOnly || err == nil && !active(costs.Progress.Phase)) {
		costs.Request.DryRun, costs.Progress.Phase, costs.Progress.Step = false, "", routing.DrainNone
		if !validateOnly {
			costs.Progress.Phase, costs.Progress.Message = routing.DrainGoing, ""
		}
		costs.Progress.Error, costs.Progress.Failure = "", routing.DrainFailure{} // which is told as what it is
		if told := report(*costs); told != nil {
			return told
		}
	}
	if err != nil || validateOnly {
		return err
	}
	return d.far(ctx, req, report)
}

// joins is of a dry run where a drain of that node has been asked for, which a drain
// would join.
type joins struct{ old *routing.DrainRequest }

func (joins) Error() string { return "a drain of it has been asked for already" }

// weigh says what it costs to join.
func (j joins) weigh(req *routing.DrainRequest) (*routing.DrainStatus, error) {
	if err := inTheWay(routing.DrainGoing, j.old, req); err != nil {
		return nil, err
	}
	st := &routing.DrainStatus{Request: *req, Since: time.Now()}
	st.Progress = routing.DrainProgress{Phase: routing.DrainGoing, Costs: nothing(routing.DrainGoing), Message: "nothing has been changed", At: time.Now()}
	return st, nil
}

// weigh answers what a drain of this node, which is not drained, would cost, and
// whether it is safe.
func (d *Drainer) weigh(ctx context.Context, c *caller, s *routing.State) {
	req := c.request
	if err := askable(s, &req); err != nil {
		d.dismissOne(c, err, nil)
		return
	}
	st := &routing.DrainStatus{Request: req, Since: time.Now()}
	st.Progress = routing.DrainProgress{Phase: routing.DrainEnded, Costs: costs(s, &req), Message: "nothing has been changed", At: time.Now()}
	var err error
	if reasons := d.unsafeNow(ctx, s, &req); len(reasons) > 0 && !req.Force {
		err = &routing.Refused{Reasons: reasons}
	}
	d.dismissOne(c, err, st)
}

// weighBeside answers the same while this node is drained, or on its way there or back.
func (d *Drainer) weighBeside(c *caller) {
	if err := inTheWay(d.rec.Phase, &d.rec.Request, &c.request); err != nil {
		d.dismissOne(c, err, nil)
		return
	}
	st := *d.status
	st.Request.DryRun = true
	st.Progress.Costs, st.Progress.Rates, st.Progress.At = nothing(d.rec.Phase), nil, time.Now()
	d.dismissOne(c, nil, &st)
}

// nothing is what a drain costs that joins another.
func nothing(phase routing.DrainPhase) []string {
	return []string{"nothing: a drain of all that is " + underWay(phase) + " already"}
}
