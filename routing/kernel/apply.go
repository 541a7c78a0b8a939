package kernel

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// batchSize is how many messages go to the kernel in one send. Larger ones gain
// nothing measurable, and their failures would need a larger receive buffer.
const batchSize = 256

// Apply carries out ops, which must not depend on each other's success: the
// kernel goes on after a failed one. It returns nil when all succeeded, else one
// error or nil for each op: the cause, as the caller knows the op. Deleting what is
// gone already is a success.
func (k *Kernel) Apply(ctx context.Context, ops []routing.Op) []error {
	k.writeMu.Lock()
	defer k.writeMu.Unlock()
	a := applying{k: k, ctx: ctx, ops: ops, links: map[string]linkIndex{}}
	for i := range ops {
		if ops[i].IsRule() && ops[i].Verb == routing.Delete {
			a.flush()
			a.fail(i, a.deleteRule(ops[i].Rule))
			continue
		}
		a.add(i)
		if len(a.batch) == batchSize {
			a.flush()
		}
	}
	a.flush()
	return a.errs
}

// applying is one Apply under way.
type applying struct {
	k    *Kernel
	ctx  context.Context
	ops  []routing.Op
	errs []error // nil until the first failure

	// The batch: its encoded messages, the op of each, the place of the last.
	out   []byte
	batch []int
	last  int

	links map[string]linkIndex
	rules map[routing.Family][]routing.Rule // as the kernel has them, once needed
	exist []int                             // rule adds of the batch that the kernel takes for doubles
}

type linkIndex struct {
	index int
	err   error
}

func (a *applying) fail(op int, err error) {
	if err == nil {
		return
	}
	if a.errs == nil {
		a.errs = make([]error, len(a.ops))
	}
	a.errs[op] = err
}

// add encodes an op behind the others of the batch. Nothing that is known to be
// wrong is sent.
func (a *applying) add(i int) {
	if len(a.batch) == 0 {
		if err := a.k.ready(a.ctx, &a.k.write); err != nil {
			a.fail(i, err)
			return
		}
	}
	start, seq := len(a.out), a.k.write.seq
	b, err := a.encode(a.out, a.ops[i])
	if err != nil {
		a.k.write.seq = seq // answers are told apart by their place in the batch
		a.fail(i, err)
		return
	}
	a.out, a.last = finish(b, start), start
	a.batch = append(a.batch, i)
}

func (a *applying) encode(b []byte, op routing.Op) ([]byte, error) {
	if op.IsRule() {
		kind, flags, err := ruleRequest(op.Verb)
		if err != nil {
			return b, err
		}
		return appendRule(a.k.write.request(b, kind, flags), op.Rule)
	}
	index, err := a.index(op.Route)
	if err != nil && op.Verb != routing.Delete {
		return b, err
	}
	kind, flags := routeRequest(op.Verb)
	return appendRoute(a.k.write.request(b, kind, flags), op.Verb, op.Route, index)
}

// index looks up the link of a route. It asks the kernel once for each Apply
// and link, and remembers nothing beyond: an index that is stale by a moment
// could be another link's.
func (a *applying) index(r routing.Route) (int, error) {
	if r.Type.Reject() || r.Link == "" {
		return 0, nil
	}
	known, ok := a.links[r.Link]
	if !ok {
		// By the dump connection: the write connection's sequence numbers are
		// those of the batch.
		a.k.dumpMu.Lock()
		defer a.k.dumpMu.Unlock()
		if known.err = a.k.ready(a.ctx, &a.k.dump); known.err == nil {
			l, _, err := a.k.dump.link(r.Link)
			known = linkIndex{l.Index, err}
		}
		a.links[r.Link] = known
	}
	return known.index, known.err
}

// flush sends the batch and takes in the answers: an error for each failed
// message, in order, and an acknowledgement of the last one if that did not
// fail.
func (a *applying) flush() {
	defer func() { a.out, a.batch = a.out[:0], a.batch[:0] }()
	if len(a.batch) == 0 {
		return
	}
	flags := a.out[a.last+6:]
	native.PutUint16(flags, native.Uint16(flags)|unix.NLM_F_ACK)
	s := a.k.write
	first := native.Uint32(a.out[8:])
	answered := make(map[int]bool)
	err := s.send(a.out)
	for done := false; err == nil && !done; {
		done, err = a.receive(s, first, answered)
	}
	if err == nil {
		a.settleRules()
		return
	}
	// Whatever was not answered may have happened or not.
	s.broken = true
	for place, op := range a.batch {
		if !answered[place] {
			a.fail(op, err)
		}
	}
}

// receive takes in one datagram of answers and reports whether it held the
// last one.
func (a *applying) receive(s *socket, first uint32, answered map[int]bool) (done bool, err error) {
	datagram, err := s.receive()
	if err != nil {
		return false, err
	}
	for m, err := range messages(datagram) {
		if err != nil {
			return false, err
		}
		place := int(m.seq - first)
		if m.kind != unix.NLMSG_ERROR || place < 0 || place >= len(a.batch) {
			continue
		}
		answered[place] = true
		op := a.batch[place]
		switch err := m.err(); {
		case err == nil || gone(a.ops[op], err):
		case a.ops[op].IsRule() && errors.Is(err, unix.EEXIST):
			a.exist = append(a.exist, op)
		default:
			a.fail(op, err)
		}
		done = done || place == len(a.batch)-1
	}
	return done, nil
}

// gone reports whether err says that what a delete names does not exist.
func gone(op routing.Op, err error) bool {
	return op.Verb == routing.Delete &&
		(errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV))
}
