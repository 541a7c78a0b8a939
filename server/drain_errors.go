package server

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"netclass.dev/routing"
)

// maxReasons bounds the reasons of one refusal: gRPC clients accept only a few KiB
// of details.
const maxReasons = 12

// kinds are of what a request names, by the field that names it.
var kinds = map[string]string{"node": "node", "classes": "class"}

// drainError gives the end of a drain or undrain its status. Last is what was
// reported last; nil: nothing was.
func (s *Server) drainError(ctx context.Context, err error, what, node string, last *routing.DrainStatus) error {
	if err == nil {
		return nil
	}
	select {
	case <-s.stop:
		return withInfo(status.Newf(codes.Unavailable, "netclassd is stopping; the %s of %s goes on once it runs again", what, node), "STOPPING", map[string]string{"node": node})
	default:
	}
	if gone := ctx.Err(); gone != nil {
		return status.Errorf(contextCode(gone), "the %s of %s goes on", what, node)
	}
	if status.Code(err) == codes.Internal { // it has its status
		return err
	}
	if refused, ok := errors.AsType[*routing.Refused](err); ok {
		return refusal(what, node, refused)
	}
	if bad, ok := errors.AsType[*routing.BadQuestion](err); ok {
		if kind := kinds[bad.Field]; bad.Missing != "" && kind != "" {
			return notFound(kind, bad.Missing)
		}
		return badField(bad.Field, "%s", clip(bad.Problem, maxText))
	}
	st, reason := status.Newf(codes.FailedPrecondition, "%s %s: %s", what, node, clip(err.Error(), maxText)), "NOT_POSSIBLE"
	if begun(last) {
		st, reason = status.Newf(codes.Aborted, "%s %s: %s", what, node, clip(err.Error(), maxText)), "FAILED_HALF_WAY"
		if errors.Is(err, context.DeadlineExceeded) {
			reason = "TOOK_TOO_LONG"
		}
	}
	return withInfo(st, reason, map[string]string{"node": node})
}

// begun reports whether something had been changed when a drain failed.
func begun(last *routing.DrainStatus) bool {
	if last == nil {
		return false
	}
	p := &last.Progress
	return p.Step > routing.DrainNone || p.Phase == routing.DrainBack || p.Phase == routing.DrainEnded
}

// refusal names every reason why a node must not be drained now.
func refusal(what, node string, refused *routing.Refused) error {
	failure := &errdetails.PreconditionFailure{}
	for i, reason := range refused.Reasons {
		if i == maxReasons {
			reason = fmt.Sprintf("and %d more", len(refused.Reasons)-i)
		}
		failure.Violations = append(failure.Violations, &errdetails.PreconditionFailure_Violation{
			Type: "DRAIN", Subject: errorDomain + "/node/" + node, Description: clip(reason, 300),
		})
		if i == maxReasons {
			break
		}
	}
	return withInfo(status.Newf(codes.FailedPrecondition, "%s %s: %s", what, node, clip(refused.Error(), 500)), "NOT_SAFE",
		map[string]string{"node": node}, failure)
}
