package engine

import (
	"context"
	"fmt"
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

// apply makes the changes stage by stage, each acknowledged before the next,
// and keeps the picture in step with what was acknowledged.
func (e *Engine) apply(ops []routing.Op) (failed bool) {
	stopped := make(map[scope]bool)
	logged := 0
	var first error
	refused := 0
	for len(ops) > 0 {
		stage := ops[0].Stage
		var batch []routing.Op
		for len(ops) > 0 && ops[0].Stage == stage {
			if !stopped[scopeOf(ops[0])] {
				batch = append(batch, ops[0])
			}
			ops = ops[1:]
		}
		if len(batch) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), applyTime)
		errs := e.opt.Kernel.Apply(ctx, batch)
		cancel()
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
		for _, op := range done {
			if logged < loggedOps {
				e.log.Info("kernel changed", "op", op.String())
			}
			logged++
		}
		e.stats.Applied += uint64(len(done))
		e.kernel = e.kernel.After(done)
	}
	if logged > loggedOps {
		e.log.Info("kernel changed further", "ops", logged-loggedOps)
	}
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
