package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"netclass.dev/routing"
)

// lateError is the error of a drain whose time is over.
type lateError string

func (e lateError) Error() string { return string(e) }
func (lateError) Unwrap() error   { return context.DeadlineExceeded }

func late(what string, patience time.Duration) error {
	return lateError(fmt.Sprintf("%s did not end within %v, the longest that this drain may take", what, patience))
}

// failureOf says of an error what is remembered beside its text, and told to other
// nodes.
func failureOf(err error) (f routing.DrainFailure) {
	if refused, ok := errors.AsType[*routing.Refused](err); ok {
		f.Refused = refused.Reasons
	}
	if bad, ok := errors.AsType[*routing.BadQuestion](err); ok {
		f.Question = bad
	}
	f.Late = errors.Is(err, context.DeadlineExceeded)
	return f
}

// errorOf makes the error again that a text and a failure were made of; nil: there is
// no text.
func errorOf(text string, f *routing.DrainFailure) error {
	switch {
	case text == "":
		return nil
	case len(f.Refused) > 0:
		return &routing.Refused{Reasons: f.Refused}
	case f.Question != nil:
		return f.Question
	case f.Late:
		return lateError(text)
	}
	return errors.New(text)
}

func isRefused(err error) bool {
	_, refused := errors.AsType[*routing.Refused](err)
	return refused
}
