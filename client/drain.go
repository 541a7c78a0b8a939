package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "netclass.dev/proto/netclass/v1"
)

// Drain takes a node out, or with validate_only says what that would cost and
// whether it is safe, and tells how far it has come until it is done. An error is
// the last that it gives: Refused, rolled back (HalfWay), or that nobody is told any
// more. When ctx is done, or the daemon ends, the drain itself goes on.
func (c *Client) Drain(ctx context.Context, req *pb.DrainNodeRequest) iter.Seq2[*pb.DrainNodeResponse, error] {
	return follow(ctx, c, func(ctx context.Context) (grpc.ServerStreamingClient[pb.DrainNodeResponse], error) {
		return c.api.DrainNode(ctx, req)
	})
}

// Undrain takes the drain of a node back, and tells of it likewise.
func (c *Client) Undrain(ctx context.Context, req *pb.UndrainNodeRequest) iter.Seq2[*pb.UndrainNodeResponse, error] {
	return follow(ctx, c, func(ctx context.Context) (grpc.ServerStreamingClient[pb.UndrainNodeResponse], error) {
		return c.api.UndrainNode(ctx, req)
	})
}

// follow gives what a stream says until it has said everything.
func follow[M any](ctx context.Context, c *Client, open func(context.Context) (grpc.ServerStreamingClient[M], error)) iter.Seq2[*M, error] {
	return func(yield func(*M, error) bool) {
		for m, err := range receive(ctx, c, open) {
			if errors.Is(err, io.EOF) || !yield(m, err) {
				return
			}
		}
	}
}

// receive gives what a stream says, and at last why it ended.
func receive[M any](ctx context.Context, c *Client, open func(context.Context) (grpc.ServerStreamingClient[M], error)) iter.Seq2[*M, error] {
	return func(yield func(*M, error) bool) {
		ctx, cancel := context.WithCancel(ctx) // ends the stream when the caller stops early
		defer cancel()
		stream, err := open(ctx)
		for err == nil {
			var m *M
			if m, err = stream.Recv(); err == nil && !yield(m, nil) {
				return
			}
		}
		yield(nil, c.explain(err))
	}
}

// Refused lists why it is not safe to drain a node, and names it; false: that is
// not what the error says.
func Refused(err error) (node string, reasons []string, refused bool) {
	each(err, func(d *errdetails.PreconditionFailure) {
		refused = true
		for _, v := range d.GetViolations() {
			node = v.GetSubject()[strings.LastIndex(v.GetSubject(), "/")+1:]
			reasons = append(reasons, v.GetDescription())
		}
	})
	return node, reasons, refused
}

// HalfWay reports whether a drain or undrain failed after it had changed something,
// and whether because it took longer than it may.
func HalfWay(err error) (failed, tooLong bool) {
	return is(err, codes.Aborted), Reason(err) == "TOOK_TOO_LONG"
}
