package server

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// Drainer takes nodes out, and puts them back. Each call lasts until that is done,
// and is told of by reports, the newest last; report never blocks. When ctx is done
// the call returns soon with its error and what it began goes on. Of a node that a
// drain is under way for, or done, it tells like of one it began itself.
//
// A *routing.Refused names why it is not safe, a *routing.BadQuestion a "node" or
// "classes" that cannot be drained; a drain that took too long wraps
// context.DeadlineExceeded.
type Drainer interface {
	// Drain takes a node out, or with validateOnly says what that would cost and
	// whether it is safe.
	Drain(ctx context.Context, req routing.DrainRequest, validateOnly bool, report func(routing.DrainStatus) error) error
	// Undrain takes that back.
	Undrain(ctx context.Context, req routing.DrainRequest, report func(routing.DrainStatus) error) error
}

// DrainNode implements the service.
func (s *Server) DrainNode(req *pb.DrainNodeRequest, stream grpc.ServerStreamingServer[pb.DrainNodeResponse]) error {
	ask, err := s.drainRequest(stream.Context(), req)
	if err != nil {
		return err
	}
	told := false
	return s.carryOut(stream.Context(), ask, func(ctx context.Context, report func(routing.DrainStatus) error) error {
		return s.drains.Drain(ctx, ask, req.GetValidateOnly(), report)
	}, func(st *routing.DrainStatus, done bool) error {
		resp := &pb.DrainNodeResponse{Drain: s.view().drain(st), Done: done && !req.GetValidateOnly(), ValidateOnly: req.GetValidateOnly()}
		if !told { // it is said once
			resp.Costs = some(st.Progress.Costs)
			told = len(resp.Costs) > 0
		}
		return stream.Send(resp)
	}, slog.Bool("force", ask.Force), slog.String("holder", ask.Holder), slog.Bool("keepEgress", ask.KeepEgress),
		slog.Any("classes", ask.Classes), slog.String("reason", ask.Reason), slog.Bool("validateOnly", req.GetValidateOnly()))
}

// UndrainNode implements the service.
func (s *Server) UndrainNode(req *pb.UndrainNodeRequest, stream grpc.ServerStreamingServer[pb.UndrainNodeResponse]) error {
	ask, err := s.undrainRequest(stream.Context(), req)
	if err != nil {
		return err
	}
	return s.carryOut(stream.Context(), ask, func(ctx context.Context, report func(routing.DrainStatus) error) error {
		return s.drains.Undrain(ctx, ask, report)
	}, func(st *routing.DrainStatus, done bool) error {
		return stream.Send(&pb.UndrainNodeResponse{Drain: s.view().drain(st), Done: done})
	})
}

// carryOut has a drain or an undrain done, and its reports sent meanwhile. The end
// of the caller, or of the server, ends only the telling.
func (s *Server) carryOut(ctx context.Context, ask routing.DrainRequest, do func(context.Context, func(routing.DrainStatus) error) error,
	send func(st *routing.DrainStatus, done bool) error, asked ...slog.Attr) error {
	what := "drain"
	if ask.Undrain {
		what = "undrain"
	}
	if s.drains == nil {
		return withInfo(status.Newf(codes.FailedPrecondition, "%s %s: this netclassd cannot drain", what, ask.Node), "NO_DRAINS", nil)
	}
	select {
	case s.draining <- struct{}{}:
		defer func() { <-s.draining }()
	default:
		return withInfo(status.Newf(codes.ResourceExhausted, "%d callers drain already", maxDrains), "TOO_MANY_DRAINS", nil)
	}
	level := slog.LevelInfo
	if ask.Force {
		level = slog.LevelWarn
	}
	s.log.LogAttrs(ctx, level, what+" asked for", append([]slog.Attr{slog.String("node", ask.Node), slog.String("by", ask.By)}, asked...)...)

	box := newReports(ask.Undrain)
	err := s.follow(ctx, box, ask, do, send)
	return s.drainError(ctx, err, what, ask.Node, box.newest())
}

// follow sends what is reported while it is done.
func (s *Server) follow(ctx context.Context, box *reports, ask routing.DrainRequest, do func(context.Context, func(routing.DrainStatus) error) error,
	send func(st *routing.DrainStatus, done bool) error) error {
	ctx, cancel := s.untilStop(ctx)
	defer cancel()
	sent := make(chan error, 1)
	go func() {
		defer cancel() // nobody is told any more
		defer func() {
			if r := recover(); r != nil {
				sent <- s.panicked("send a report", r)
			}
		}()
		sent <- box.deliver(ctx, send)
	}()
	err := do(ctx, func(st routing.DrainStatus) error {
		box.put(st)
		return ctx.Err()
	})
	box.end(err == nil, ask)
	if failed := <-sent; failed != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return failed
	}
	return err
}

// untilStop returns a context that ends with the server too.
func (s *Server) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

var drainPhases = map[routing.DrainPhase]pb.DrainPhase{
	routing.DrainWaiting: pb.DrainPhase_DRAIN_PHASE_WAITING, routing.DrainGoing: pb.DrainPhase_DRAIN_PHASE_DRAINING,
	routing.DrainDone: pb.DrainPhase_DRAIN_PHASE_DRAINED, routing.DrainUndoing: pb.DrainPhase_DRAIN_PHASE_UNDRAINING,
	routing.DrainBack: pb.DrainPhase_DRAIN_PHASE_ROLLING_BACK, routing.DrainEnded: pb.DrainPhase_DRAIN_PHASE_UNDRAINED,
}

// drain is nil where there is none.
func (v *view) drain(st *routing.DrainStatus) *pb.Drain {
	if st == nil {
		return nil
	}
	req, now := &st.Request, &st.Progress
	m := &pb.Drain{
		Node: text(req.Node), Id: text(req.ID), Phase: drainPhases[now.Phase], Step: pb.DrainStep(now.Step),
		Reason: clip(req.Reason, maxText), By: clip(req.By, maxText), Classes: some(req.Classes), KeepEgress: req.KeepEgress,
		Forced: req.Force, ByCordon: req.Cordon, Since: v.since(st.Since), Message: clip(now.Message, maxText), Lock: clip(st.Lock, maxText), Error: clip(now.Error, maxText),
	}
	for _, r := range now.Rates[:min(len(now.Rates), maxTexts)] {
		m.Rates = append(m.Rates, &pb.LinkRate{Link: text(r.Link), ReceivedPacketsPerSecond: r.Received, SentPacketsPerSecond: r.Sent})
	}
	return m
}

// drainOf is how the drain of a node stands, as far as this one can know; nil: it
// is not drained. A lease says more than the lock or marker by themselves.
func (v *view) drainOf(node string) *pb.Drain {
	st := v.Drain
	if node != v.Node {
		st = nil
		if l := v.Inventory.Drain; l != nil && l.Status != nil && l.Status.Request.Node == node {
			st = l.Status
		}
	}
	switch {
	case st != nil && st.Progress.Phase == routing.DrainEnded:
		return nil
	case st == nil && v.drained[node]:
		return &pb.Drain{Node: text(node), Phase: drainPhases[v.plan.DrainPhase(node)]}
	}
	return v.drain(st)
}

// sameStep reports whether b only has newer figures than a.
func sameStep(a, b *routing.DrainStatus) bool {
	return a.Progress.Phase == b.Progress.Phase && a.Progress.Step == b.Progress.Step &&
		len(a.Progress.Rates) > 0 && len(b.Progress.Rates) > 0
}
