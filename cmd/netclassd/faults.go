package main

import (
	"errors"
	"fmt"

	"netclass.dev/routing"
	"netclass.dev/routing/intent"
)

// brief is an error in one line for the log.
func brief(err error) string {
	if problems, ok := errors.AsType[intent.Problems](err); ok {
		return problems.Brief()
	}
	return err.Error()
}

// first is the first fault in one line, for where there is room for no more.
func first(err error) string {
	problems, ok := errors.AsType[intent.Problems](err)
	if !ok || len(problems) == 0 {
		return err.Error()
	}
	text := problems[0].Brief()
	if more := len(problems) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more (netclassctl reload --validate-only shows all)", more)
	}
	return text
}

// invalid turns the parser's problems into those of the API.
func invalid(err error) error {
	problems, ok := errors.AsType[intent.Problems](err)
	if !ok {
		return err
	}
	return &routing.Invalid{Problems: faults(problems)}
}

func faults(problems intent.Problems) []routing.Problem {
	var list []routing.Problem
	for _, p := range problems {
		list = append(list, routing.Problem{File: p.File, Line: p.Line, Column: p.Column, Message: p.Message, Source: p.Source})
	}
	return list
}
