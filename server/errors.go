package server

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"netclass.dev/routing"
)

// errorDomain is the domain of every google.rpc.ErrorInfo.
const errorDomain = "netclass.dev"

// withInfo adds ErrorInfo and more details to a status.
func withInfo(st *status.Status, reason string, metadata map[string]string, more ...protoadapt.MessageV1) error {
	details := append([]protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason, Domain: errorDomain, Metadata: metadata}}, more...)
	detailed, err := st.WithDetails(details...)
	if err != nil {
		return st.Err()
	}
	return detailed.Err()
}

// badField is the error of an argument that cannot be used.
func badField(field, format string, args ...any) error {
	problem := fmt.Sprintf(format, args...)
	return withInfo(status.Newf(codes.InvalidArgument, "%s: %s", field, problem), "BAD_ARGUMENT", map[string]string{"field": field},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: problem}}})
}

// notFound is the error of an object that does not exist.
func notFound(kind, name string) error {
	name = clip(name, 100)
	return withInfo(status.Newf(codes.NotFound, "there is no %s %q", kind, name), "NOT_FOUND", map[string]string{"kind": kind, "name": name},
		&errdetails.ResourceInfo{ResourceType: errorDomain + "/" + kind, ResourceName: name, Description: "not known to this daemon"})
}

// maxViolations bounds the details of one answer: gRPC clients accept only a few
// KiB of them.
const maxViolations = 20

// reloadError gives a failed reload its status.
func reloadError(err error) error {
	if code := contextCode(err); code != codes.OK {
		return status.Error(code, "reload the configuration: "+plainly(err.Error()))
	}
	var invalid *routing.Invalid
	if !errors.As(err, &invalid) {
		return withInfo(status.New(codes.FailedPrecondition, "reload the configuration: "+plainly(err.Error())), "CONFIG_NOT_READ", nil)
	}
	bad := &errdetails.BadRequest{}
	for _, p := range invalid.Problems[:min(len(invalid.Problems), maxViolations)] {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field:       place(p),
			Description: clip(p.Message, 200),
		})
	}
	message := fmt.Sprintf("the configuration has %d faults", len(invalid.Problems))
	if len(invalid.Problems) == 1 {
		message = "the configuration has a fault"
	}
	return withInfo(status.New(codes.InvalidArgument, message), "CONFIG_INVALID", nil, bad)
}

// place is where a problem is: "file:line:column".
func place(p routing.Problem) string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// clip shortens a text that comes from elsewhere, at a rune.
func clip(s string, most int) string {
	s = plainly(text(s))
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most] + "…"
}

// contextCode returns the code of a call that was given up, else OK.
func contextCode(err error) codes.Code {
	switch {
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	}
	return codes.OK
}
