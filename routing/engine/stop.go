package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/plan"
)

// stopTime bounds what Stop waits for.
const stopTime = 500 * time.Millisecond

// Stop ends what Run left, by the exit policy. It is called after Run has
// returned. Keep leaves the kernel as it is and says nothing to the mesh, so
// that peers hold their routes to us through a restart; routers are told.
func (e *Engine) Stop(policy routing.ExitPolicy) error {
	if policy == routing.ExitFlush {
		err := e.opt.Speaker.Close(true)
		ctx, cancel := context.WithTimeout(context.Background(), applyTime)
		defer cancel()
		own := ownership(e.ledger.Ledger)
		if c := e.config.Load().config; c != nil {
			own = c.Owns(own)
		}
		_, flushed := Flush(ctx, e.opt.Kernel, own)
		return errors.Join(err, flushed)
	}
	if e.speaking != nil {
		mesh := *e.speaking
		mesh.Neighbors, mesh.Announce = nil, nil
		for _, n := range e.speaking.Neighbors {
			if !n.Upstream {
				mesh.Neighbors = append(mesh.Neighbors, n)
			}
		}
		for _, a := range e.speaking.Announce {
			if a.To == "" {
				mesh.Announce = append(mesh.Announce, a)
			}
		}
		if len(mesh.Neighbors) < len(e.speaking.Neighbors) {
			ctx, cancel := context.WithTimeout(context.Background(), stopTime)
			defer cancel()
			if err := e.opt.Speaker.Set(ctx, &mesh); err != nil {
				e.log.Warn("routers not told", "error", err)
			}
		}
	}
	return e.opt.Speaker.Close(false)
}

func ownership(l routing.Ledger) routing.Ownership {
	return routing.Ownership{Protocols: l.Protocols, Tables: l.Tables, Priorities: l.Priorities}
}

// Flush takes everything that an ownership names out of the kernel, in safe
// order, and returns how many objects it was.
func Flush(ctx context.Context, k Kernel, own routing.Ownership) (int, error) {
	picture, err := k.Dump(ctx)
	if err != nil {
		return 0, fmt.Errorf("flush: %w", err)
	}
	ops := plan.Flush(own, picture)
	done := 0
	for len(ops) > 0 {
		end := 1
		for end < len(ops) && ops[end].Stage == ops[0].Stage {
			end++
		}
		batch := ops[:end]
		ops = ops[end:]
		errs := k.Apply(ctx, batch)
		for i, err := range errs {
			if err != nil {
				return done, fmt.Errorf("flush: %s: %w", batch[i], err)
			}
		}
		done += len(batch)
	}
	return done, nil
}
