package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"netclass.dev/routing"
)

// logger is the daemon's log, whose level a reload may change.
type logger struct {
	*slog.Logger
	level *slog.LevelVar
	flush func() // to be called before the process ends
}

// newLog returns a log in the configured format. By default it is what w is read
// by: the journal's where w leads there, text for a terminal, else JSON.
func newLog(w io.Writer, c routing.Log) *logger {
	l := &logger{level: new(slog.LevelVar), flush: func() {}}
	l.set(c)
	h := handler(w, c.Format, l.level)
	if j, ok := h.(*journal); ok {
		l.flush = j.queue.flush
	}
	l.Logger = slog.New(h)
	return l
}

func handler(w io.Writer, format string, level slog.Leveler) slog.Handler {
	f, isFile := w.(*os.File)
	auto := isFile && (format == "auto" || format == "")
	opt := &slog.HandlerOptions{Level: level, ReplaceAttr: withUnit}
	if format == "journald" || auto && leadsToJournal(f) {
		j, err := newJournal(level)
		if err == nil {
			return j
		}
		h := slog.NewJSONHandler(w, opt)
		slog.New(h).Warn("journal not used", "error", err)
		return h
	}
	if format == "text" || auto && term.IsTerminal(int(f.Fd())) {
		return slog.NewTextHandler(w, opt)
	}
	return slog.NewJSONHandler(w, opt)
}

// withUnit writes a length of time as "846.63µs": in JSON it would be a number, of
// nobody knows what.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// leadsToJournal reports whether f is what systemd has connected to its journal:
// JOURNAL_STREAM has its device and inode numbers (systemd.exec(5)).
func leadsToJournal(f *os.File) bool {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return false
	}
	return os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// set takes the configured level; an unknown one has been refused before.
func (l *logger) set(c routing.Log) {
	var level slog.Level
	if level.UnmarshalText([]byte(c.Level)) == nil {
		l.level.Set(level)
	}
}
