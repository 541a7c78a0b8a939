package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// Bounds on what waits for a journald that does not read: lines, and how long the
// daemon's end waits for them.
const (
	queuedLines = 4096
	flushWait   = 300 * time.Millisecond
)

// journalQueue keeps whoever logs from waiting for journald: a link that fails is
// not to be left because nobody writes it down. What finds no room is counted.
type journalQueue struct {
	to    slog.Handler
	lines chan queuedLine
	lost  atomic.Uint64
}

// queuedLine is a line, or the question whether all before it are written.
type queuedLine struct {
	record slog.Record
	asked  chan<- struct{}
}

func newJournalQueue(to slog.Handler) *journalQueue {
	q := &journalQueue{to: to, lines: make(chan queuedLine, queuedLines)}
	go q.write()
	return q
}

func (q *journalQueue) add(r slog.Record) {
	select {
	case q.lines <- queuedLine{record: r}:
	default:
		q.lost.Add(1)
	}
}

// write writes line after line, for as long as the process lives. One that journald
// does not take has nowhere else to go.
func (q *journalQueue) write() {
	ctx := context.Background()
	for l := range q.lines {
		if l.asked != nil {
			close(l.asked)
			continue
		}
		_ = q.to.Handle(ctx, l.record)
		if n := q.lost.Swap(0); n > 0 {
			text := messageText("log lines lost, as journald did not read", []slog.Attr{slog.Uint64("lost", n)})
			r := slog.NewRecord(time.Now(), slog.LevelWarn, text, 0)
			r.AddAttrs(slog.Uint64(fieldPrefix+"LOST", n))
			_ = q.to.Handle(ctx, r)
		}
	}
}

// flush waits until all is written that has been logged, but not for long.
func (q *journalQueue) flush() {
	asked, late := make(chan struct{}), time.After(flushWait)
	select {
	case q.lines <- queuedLine{asked: asked}:
	case <-late:
		return
	}
	select {
	case <-asked:
	case <-late:
	}
}
