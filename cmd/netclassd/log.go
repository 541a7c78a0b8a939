package main

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"

	"netclass.dev/routing"
)

// logger is the daemon's log, whose level a reload may change.
type logger struct {
	*slog.Logger
	level *slog.LevelVar
}

// newLog returns a log in the configured format: text for people, JSON for
// programs, by default whichever stderr is read by.
func newLog(w io.Writer, c routing.Log) *logger {
	l := &logger{level: new(slog.LevelVar)}
	l.set(c)
	opt := &slog.HandlerOptions{Level: l.level}
	text := c.Format == "text"
	if f, ok := w.(*os.File); ok && (c.Format == "auto" || c.Format == "") {
		text = term.IsTerminal(int(f.Fd()))
	}
	if text {
		l.Logger = slog.New(slog.NewTextHandler(w, opt))
	} else {
		l.Logger = slog.New(slog.NewJSONHandler(w, opt))
	}
	return l
}

// set takes the configured level; an unknown one has been refused before.
func (l *logger) set(c routing.Log) {
	var level slog.Level
	if level.UnmarshalText([]byte(c.Level)) == nil {
		l.level.Set(level)
	}
}
