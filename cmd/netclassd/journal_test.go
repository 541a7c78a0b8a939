package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"netclass.dev/routing"
)

// recorder takes what is for the journal.
type recorder struct{ lines []string }

func (*recorder) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler         { return r }
func (r *recorder) WithGroup(string) slog.Handler              { return r }

func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	line := []string{"MESSAGE=" + rec.Message}
	rec.Attrs(func(a slog.Attr) bool {
		line = append(line, a.Key+"="+a.Value.String())
		return true
	})
	r.lines = append(r.lines, strings.Join(line, "|"))
	return nil
}

// someone logs as a group, as callers do.
type someone struct{}

func (someone) LogValue() slog.Value { return slog.GroupValue(slog.Int("uid", 7)) }

func TestJournalFields(t *testing.T) {
	var r recorder
	j := &journal{queue: newJournalQueue(&r)}
	log := slog.New(j)
	log.Info("plain")
	log.Info("condition", "object", "class/a b", "message", "MESSAGE=x\nPRIORITY=0", "again_in", 2*time.Second)
	log.Warn("call", "caller", someone{}, "error", errors.New("no"))
	with := log.With("a", 1).WithGroup("g").With("b", 2)
	with.Info("grouped", slog.Group("h", "c-d.é", 3), slog.Group("", "e", 4), slog.Group("none"), slog.Attr{})
	with.Info("another", "f", 5)
	log.Debug("not enabled")
	log.Info("long", strings.Repeat("k", 100), 1)
	j.queue.flush()
	want := []string{
		"MESSAGE=plain",
		`MESSAGE=condition object="class/a b" message="MESSAGE=x\nPRIORITY=0" again_in=2s|NETCLASS_OBJECT=class/a b|NETCLASS_MESSAGE=MESSAGE=x` + "\nPRIORITY=0|NETCLASS_AGAIN_IN=2s",
		"MESSAGE=call caller.uid=7 error=no|NETCLASS_CALLER_UID=7|NETCLASS_ERROR=no",
		"MESSAGE=grouped a=1 g.b=2 g.h.c-d.é=3 g.e=4|NETCLASS_A=1|NETCLASS_G_B=2|NETCLASS_G_H_C_D__=3|NETCLASS_G_E=4",
		"MESSAGE=another a=1 g.b=2 g.f=5|NETCLASS_A=1|NETCLASS_G_B=2|NETCLASS_G_F=5",
		"MESSAGE=long " + strings.Repeat("k", 100) + "=1|NETCLASS_" + strings.Repeat("K", 55) + "=1",
	}
	if !slices.Equal(r.lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(r.lines, "\n"), strings.Join(want, "\n"))
	}
}

// stuck is a journald that does not read until it is let.
type stuck struct {
	recorder
	let chan struct{}
}

func (s *stuck) Handle(ctx context.Context, r slog.Record) error {
	<-s.let
	return s.recorder.Handle(ctx, r)
}

// TestStuckJournal: nobody waits for it, and what is lost is said.
func TestStuckJournal(t *testing.T) {
	s := &stuck{let: make(chan struct{})}
	j := &journal{queue: newJournalQueue(s)}
	log := slog.New(j)
	begin := time.Now()
	const lines = queuedLines + 100
	for range lines {
		log.Info("line")
	}
	j.queue.flush()
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("%d lines and a flush took %v", lines, took)
	}
	close(s.let)
	for deadline := time.Now().Add(10 * time.Second); len(j.queue.lines) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the lines are not written")
		}
	}
	j.queue.flush()
	written, lost := 0, 0
	for _, line := range s.lines {
		if line == "MESSAGE=line" {
			written++
		} else if _, err := fmt.Sscanf(line, "MESSAGE=log lines lost, as journald did not read lost=%d|", &lost); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if written+lost != lines || lost == 0 {
		t.Errorf("%d written, %d lost of %d", written, lost, lines)
	}
}

// TestLogFormat: auto is the journal only where the stream is the journal's, and a
// log is never lost for want of one.
func TestLogFormat(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	for stream, want := range map[string]bool{"": false, "1:2": false, fmt.Sprintf("%d:%d", st.Dev, st.Ino): true} {
		t.Setenv("JOURNAL_STREAM", stream)
		if got := leadsToJournal(f); got != want {
			t.Errorf("with JOURNAL_STREAM=%s: %v", stream, got)
		}
	}
	t.Setenv("JOURNAL_STREAM", "")
	if _, err := os.Stat(journalSocket); err != nil {
		newLog(f, routing.Log{Level: "info", Format: "journald"}).Info("line")
		if text, err := os.ReadFile(f.Name()); err != nil || !strings.Contains(string(text), "journal not used") || !strings.Contains(string(text), `"line"`) {
			t.Errorf("without a journal: %v: %s", err, text)
		}
	}
	for format, want := range map[string]string{"auto": `{"time"`, "json": `{"time"`, "text": "time="} {
		if err := errors.Join(f.Truncate(0), rewind(f)); err != nil {
			t.Fatal(err)
		}
		newLog(f, routing.Log{Level: "info", Format: format}).Info("line")
		text, err := os.ReadFile(f.Name())
		if err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("format %s: %v: %s", format, err, text)
		}
	}
}

func rewind(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}
