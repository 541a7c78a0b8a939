package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error is the daemon's answer that a call failed.
type Error struct{ status *status.Status }

func (e *Error) Error() string { return e.status.Message() }

// GRPCStatus lets the status package look inside.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// UnreachableError is the error of a daemon that could not be asked.
type UnreachableError struct {
	Socket string
	Err    error
}

func (e *UnreachableError) Error() string {
	reason := e.Err.Error()
	var errno syscall.Errno
	if errors.As(e.Err, &errno) {
		reason = errno.Error()
	}
	return fmt.Sprintf("cannot reach netclassd at %s: %s", e.Socket, reason)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// explain gives the error of a call our shape: the daemon's answer, or that
// there was none.
func (c *Client) explain(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	if st.Code() == codes.Unavailable {
		if dial := c.dialError.Load(); dial != nil {
			return &UnreachableError{Socket: c.socket, Err: *dial}
		}
	}
	return &Error{st}
}

// IsNotFound reports whether the daemon does not know what was asked for.
func IsNotFound(err error) bool { return is(err, codes.NotFound) }

// IsTimeout reports whether the time was over before the answer came.
func IsTimeout(err error) bool {
	return is(err, codes.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// IsLost reports whether the daemon, or the connection to it, has gone away without
// a word.
func IsLost(err error) bool {
	var gone *UnreachableError
	return errors.As(err, &gone) || is(err, codes.Unavailable) && Reason(err) == ""
}

// IsPermission reports whether the caller may not do this: by the daemon's word,
// or because the socket is closed to them.
func IsPermission(err error) bool {
	return is(err, codes.PermissionDenied) || errors.Is(err, fs.ErrPermission)
}

// IsChanged reports whether what was listed changed meanwhile: list it again.
func IsChanged(err error) bool { return is(err, codes.Aborted) }

// IsInvalid reports whether the daemon refuses an argument or, at a reload, its
// configuration.
func IsInvalid(err error) bool { return is(err, codes.InvalidArgument) }

func is(err error, code codes.Code) bool {
	var e *Error
	return errors.As(err, &e) && e.status.Code() == code
}

// Violation is one fault that the daemon names: where (a request's field, or a
// file's line and column) and what.
type Violation struct{ Field, Description string }

// Violations lists the faults that an error names.
func Violations(err error) []Violation {
	var list []Violation
	each(err, func(d *errdetails.BadRequest) {
		for _, v := range d.GetFieldViolations() {
			list = append(list, Violation{v.GetField(), v.GetDescription()})
		}
	})
	return list
}

// Reason returns the error's google.rpc.ErrorInfo reason, for programs.
func Reason(err error) string {
	reason := ""
	each(err, func(d *errdetails.ErrorInfo) { reason = d.GetReason() })
	return reason
}

// each calls f for every detail of that type.
func each[D any](err error, f func(D)) {
	var e *Error
	if !errors.As(err, &e) {
		return
	}
	for _, detail := range e.status.Details() {
		if d, ok := detail.(D); ok {
			f(d)
		}
	}
}
