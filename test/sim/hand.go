package sim

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// hand is the kernel as one daemon has it. Every change goes through it one by
// one, and is judged before and after.
type hand struct {
	w      *world
	dead   bool
	stale  bool // the kernel has changed since it was read
	adopts bool // its first look at the kernel found class paths of ours

	picture *routing.Kernel // what the daemon was told and has had acknowledged
	pass    passSoFar
	synced  bool           // the inventory had been read at the newest look at it
	seen    bool           // this daemon has seen its own node in the inventory
	flush   bool           // everything is to go
	lost    []netip.Prefix // guards that were missing when that began
}

// Dump reads the kernel, or fails as the world wants.
func (h *hand) Dump(ctx context.Context) (*routing.Kernel, error) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if h.dead {
		return nil, errDead
	}
	if h.w.dumpsFail > 0 {
		h.w.dumpsFail--
		return nil, unix.EINTR
	}
	k, err := h.w.kernel.Dump(ctx)
	if err != nil {
		return nil, err
	}
	if h.picture == nil {
		h.adopts = slices.ContainsFunc(k.Routes, h.w.classPath)
	}
	h.picture, h.stale = k, false
	h.w.remember(k)
	if h.flush {
		for _, f := range routing.Families {
			guard, _ := h.w.demands(k, f)
			for _, g := range guard {
				if !h.w.guarded(k, g) {
					h.lost = append(h.lost, g)
				}
			}
		}
	}
	return k, nil
}

// Apply makes the changes one by one. As in the kernel, those after a failed one
// are made too.
func (h *hand) Apply(ctx context.Context, ops []routing.Op) []error {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	errs := make([]error, len(ops))
	failed := false
	for i, op := range ops {
		errs[i] = h.one(ctx, op)
		failed = failed || errs[i] != nil
	}
	if !failed {
		return nil
	}
	return errs
}

func (h *hand) one(ctx context.Context, op routing.Op) error {
	w := h.w
	if h.dead {
		return errDead
	}
	if w.trap != nil {
		if w.trapIn--; w.trapIn < 0 {
			trap := w.trap
			w.trap = nil
			w.inPass, h.pass.disturb = true, true
			err := trap(op)
			w.inPass = false
			if err != nil {
				h.refuse(op)
				return err
			}
			if h.dead {
				return errDead
			}
		}
	}
	w.opCount++
	if w.refuseAll != nil && w.refused(op) {
		h.refuse(op)
		return w.refuseAll
	}
	if w.trace {
		w.note("    %s: %s", op.Stage, op)
	}
	h.before(op)
	before := w.seeBoth()
	if h.pass.ways[way0(op)] == nil {
		h.follow(op, fib.New(w.kernel.Picture()))
	}
	errs := w.kernel.Apply(context.WithoutCancel(ctx), []routing.Op{op})
	if errs != nil {
		if w.trace {
			w.note("      refused: %v", errs[0])
		}
		h.refuse(op)
		return errs[0]
	}
	h.picture = h.picture.After([]routing.Op{op})
	h.after(op, before)
	return nil
}

func (h *hand) refuse(op routing.Op) {
	if op.IsRule() {
		h.pass.refused[op.Rule] = true
	} else {
		h.pass.refused[op.Route.Key()] = true
	}
}

// Watch passes the kernel's events on until they overrun.
func (h *hand) Watch(ctx context.Context, notify func(dump bool)) error {
	h.w.mu.Lock()
	over, blind := h.w.overrun, h.w.unwatched
	if !blind && !h.dead {
		h.w.watched = true
		h.w.changed()
	}
	h.w.mu.Unlock()
	if blind {
		return unix.EMFILE
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-over:
			cancel()
		case <-inner.Done():
		}
	}()
	err := h.w.kernel.Watch(inner, notify)
	if ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return unix.ENOBUFS
	}
	return err
}

// SetRange says what Watch looks at.
func (h *hand) SetRange(p []routing.Protocol, t []routing.TableID) { h.w.kernel.SetRange(p, t) }

// Probe asks a next hop: one that lives answers soon, the kernel gives up a dead
// one after three seconds.
func (h *hand) Probe(ctx context.Context, link string, hop netip.Addr) (bool, error) {
	h.w.mu.Lock()
	alive := !h.dead && slices.ContainsFunc(h.w.nodes, func(n *node) bool {
		return n.powered && podAddr(n.n, routing.FamilyOf(hop)) == hop
	}) && h.w.kernel.Link(link).Usable()
	h.w.mu.Unlock()
	took := 3100 * time.Millisecond
	if alive {
		took = 200 * time.Millisecond
	}
	last := hop.As16() // no two answers at the same instant
	took += time.Duration(last[15])*2*time.Millisecond + time.Duration(hop.BitLen())*11*time.Microsecond
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(took):
		return alive, nil
	}
}
