package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"netclass.dev/routing"
)

// applyTime bounds one stage. A stage is never cut short by a signal: half a
// stage is worse than a late end.
const applyTime = 30 * time.Second

// loggedOps bounds the lines of one pass; the first start on a large cluster
// makes tens of thousands of changes.
const loggedOps = 100

// scope is what a failed stage stops: the later stages of its table and family.
type scope struct {
	table  routing.TableID
	family routing.Family
}

func scopeOf(op routing.Op) scope {
	if op.IsRule() && (op.Stage == routing.StageGuard || op.Stage == routing.StageGuardLookup ||
		op.Stage == routing.StageDropGuard || op.Stage == routing.StageDropGuardLookup) {
		return scope{routing.MainID, op.Family()}
	}
	return scope{op.Table(), op.Family()}
}

// stops reports whether an earlier failure keeps an op from being carried out. A
// throw also waits for main's guard: what the fence stopped until then would
// go on to main's default. So would what a rule leads to its table until then: it
// stays while anything of its family has failed, be it the guard or what is to
// take its packets.
func stops(stopped map[scope]bool, op routing.Op) bool {
	if op.IsRule() && op.Verb == routing.Delete && op.Rule.Action == routing.ActionLookup {
		for s := range stopped {
			if s.family == op.Family() {
				stopped[scopeOf(op)] = true // nor does what it leads to go
				return true
			}
		}
	}
	return stopped[scopeOf(op)] || op.Throws() && stopped[scope{routing.MainID, op.Family()}]
}

// apply makes the changes stage by stage, each acknowledged before the next,
// and keeps the picture in step with what was acknowledged. It ends between two
// stages when ctx does.
func (e *Engine) apply(ctx context.Context, ops []routing.Op) (failed bool) {
	stopped := make(map[scope]bool)
	var all []routing.Op
	var first error
	refused := 0
	for len(ops) > 0 && ctx.Err() == nil {
		stage := ops[0].Stage
		var batch []routing.Op
		for len(ops) > 0 && ops[0].Stage == stage {
			if !stops(stopped, ops[0]) {
				batch = append(batch, ops[0])
			}
			ops = ops[1:]
		}
		if len(batch) == 0 {
			continue
		}
		errs := e.stage(ctx, batch)
		done := batch
		if errs != nil {
			done = nil
			for i, op := range batch {
				if errs[i] == nil {
					done = append(done, op)
					continue
				}
				stopped[scopeOf(op)] = true
				refused++
				if first == nil {
					first = fmt.Errorf("%s: %w", op, errs[i])
				}
			}
		}
		all = append(all, done...)
		if stage == routing.StageFence && errs != nil {
			all = append(all, e.dropUnfenced(ctx, stopped)...)
		}
	}
	e.acknowledged(all)
	if first == nil {
		return false
	}
	e.stats.Failed += uint64(refused)
	e.stats.Error = first.Error()
	message := first.Error()
	if refused > 1 {
		message = fmt.Sprintf("%s (and %d more)", message, refused-1)
	}
	e.conditions.add("kernel", "ChangeRefused", message)
	return true
}

// stage carries out the ops of one stage.
func (e *Engine) stage(ctx context.Context, batch []routing.Op) []error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyTime)
	defer cancel()
	return e.opt.Kernel.Apply(ctx, batch)
}

// dropUnfenced deletes the defaults of ours whose fence could not be put in,
// and returns what was done: they must not stand alone while it is tried again.
func (e *Engine) dropUnfenced(ctx context.Context, stopped map[scope]bool) (done []routing.Op) {
	var ops []routing.Op
	for _, r := range e.kernel.Routes {
		if r.Dst.Bits() == 0 && !r.Type.Reject() && stopped[scope{r.Table, r.Family()}] &&
			r.Table != routing.MainID && slices.Contains(e.ledger.Protocols, r.Protocol) && slices.Contains(e.ledger.Tables, r.Table) {
			ops = append(ops, routing.Op{Stage: routing.StageDropDefault, Verb: routing.Delete, Route: r.Wanted()})
		}
	}
	if len(ops) == 0 {
		return nil
	}
	errs := e.stage(ctx, ops)
	for i, op := range ops {
		if errs == nil || errs[i] == nil {
			done = append(done, op)
		}
	}
	return done
}

// acknowledged logs what was done and brings the picture to it.
func (e *Engine) acknowledged(done []routing.Op) {
	for _, op := range done[:min(len(done), loggedOps)] {
		e.log.Info("kernel changed", "op", op.String())
	}
	if more := len(done) - loggedOps; more > 0 {
		e.log.Info("kernel changed further", "ops", more)
	}
	e.stats.Applied += uint64(len(done))
	e.kernel = e.kernel.After(done)
	// A route that takes over one of another protocol replaces it, or in IPv6
	// perhaps one beside it: only the kernel knows which.
	if (len(e.ledger.Protocols) > 1 || len(e.ledger.Adopted) > 0) && slices.ContainsFunc(done, func(op routing.Op) bool { return op.Verb == routing.Replace }) {
		e.LookAndDump()
	}
}
