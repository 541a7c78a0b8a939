package cli

import (
	"strings"
	"time"

	pb "netclass.dev/proto/netclass/v1"
)

// drainWord is how far a drain is, in one word.
func drainWord(d *pb.Drain) cell {
	tones := map[pb.DrainPhase]tone{
		pb.DrainPhase_DRAIN_PHASE_WAITING: fair, pb.DrainPhase_DRAIN_PHASE_DRAINING: fair, pb.DrainPhase_DRAIN_PHASE_DRAINED: fair,
		pb.DrainPhase_DRAIN_PHASE_UNDRAINING: fair, pb.DrainPhase_DRAIN_PHASE_ROLLING_BACK: bad,
	}
	return cell{camel(d.GetPhase(), "DRAIN_PHASE_"), tones[d.GetPhase()]}
}

// drainSince says since when a drain stands as it does. Of a node that is not this one
// that is said as its clock said it: ours may be another time.
func (a *app) drainSince(d *pb.Drain, here bool) string {
	if here || d.GetSince() == nil {
		return prefixed("for ", a.since(d.GetSince()))
	}
	return "since " + d.GetSince().AsTime().In(a.env.Now().Location()).Format(time.DateTime) + " (its clock)"
}

// drainLine says how a drain of this node or another stands, since when and by whom
// it was asked for.
func (a *app) drainLine(d *pb.Drain, here bool) cell {
	if d == nil {
		return cell{}
	}
	c := drainWord(d)
	switch d.GetPhase() {
	case pb.DrainPhase_DRAIN_PHASE_DRAINING, pb.DrainPhase_DRAIN_PHASE_UNDRAINING:
		if step := stepName(d.GetStep()); step != "" {
			c.text += " (" + step + ")"
		}
	}
	by := prefixed("by ", d.GetBy())
	if d.GetByCordon() {
		by = "as the Node is cordoned"
	}
	if d.GetForced() {
		by = join(", ", by, "forced")
	}
	c.text = join(": ", join(" ", c.text, a.drainSince(d, here), by), d.GetReason())
	return c
}

// drainDetail is what else there is to know of a drain.
func drainDetail(d *pb.Drain) string {
	rates, egress := "", ""
	if d.GetPhase() != pb.DrainPhase_DRAIN_PHASE_DRAINED { // else they are of then
		rates = ratesText(d.GetRates())
	}
	if d.GetKeepEgress() {
		egress = "egress kept"
	}
	return join("; ", d.GetError(), d.GetMessage(), prefixed("only ", strings.Join(d.GetClasses(), ", ")), egress, rates, prefixed("lock: ", d.GetLock()))
}
