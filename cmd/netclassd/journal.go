package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	slogjournal "github.com/systemd/slog-journal"
)

// journalSocket is where journald listens. Without it lines would be lost in
// silence.
const journalSocket = "/run/systemd/journal/socket"

// fieldPrefix begins the names of our fields, which else could take the place of
// the journal's own, such as MESSAGE.
const fieldPrefix = "NETCLASS_"

// journal writes to the systemd journal. People read MESSAGE, so that it has the
// attributes too; programs have each attribute in a field of its own, such as
// NETCLASS_OBJECT, NETCLASS_CALLER_UID.
type journal struct {
	queue *journalQueue
	group string      // with a dot after it; names attributes to come
	attrs []slog.Attr // without groups: their names are before the attributes'
}

func newJournal(level slog.Leveler) (*journal, error) {
	conn, err := net.Dial("unixgram", journalSocket)
	if err != nil {
		return nil, fmt.Errorf("write to the journal: %w", err)
	}
	_ = conn.Close()
	fields, err := slogjournal.NewHandler(&slogjournal.Options{Level: level})
	if err != nil {
		return nil, fmt.Errorf("write to the journal: %w", err)
	}
	return &journal{queue: newJournalQueue(fields)}, nil
}

func (j *journal) Enabled(ctx context.Context, level slog.Level) bool {
	return j.queue.to.Enabled(ctx, level)
}

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	attrs := j.attrs[:len(j.attrs):len(j.attrs)]
	r.Attrs(func(a slog.Attr) bool {
		attrs = flatten(attrs, j.group, a)
		return true
	})
	out := slog.NewRecord(r.Time, r.Level, messageText(r.Message, attrs), r.PC)
	for _, a := range attrs {
		out.AddAttrs(slog.String(fieldName(a.Key), a.Value.String())) // as it is now
	}
	j.queue.add(out)
	return nil
}

func (j *journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	all := j.attrs[:len(j.attrs):len(j.attrs)]
	for _, a := range attrs {
		all = flatten(all, j.group, a)
	}
	return &journal{queue: j.queue, group: j.group, attrs: all}
}

func (j *journal) WithGroup(name string) slog.Handler {
	if name == "" {
		return j
	}
	return &journal{queue: j.queue, group: j.group + name + ".", attrs: j.attrs}
}

// flatten appends an attribute, or those of a group, by their whole names.
func flatten(to []slog.Attr, group string, a slog.Attr) []slog.Attr {
	a.Value = a.Value.Resolve()
	if a.Equal(slog.Attr{}) {
		return to
	}
	if a.Value.Kind() != slog.KindGroup {
		return append(to, slog.Attr{Key: group + a.Key, Value: a.Value})
	}
	if a.Key != "" {
		group += a.Key + "."
	}
	for _, member := range a.Value.Group() {
		to = flatten(to, group, member)
	}
	return to
}

// messageText is a message with its attributes as text logs have them.
func messageText(message string, attrs []slog.Attr) string {
	if len(attrs) == 0 {
		return message
	}
	var b bytes.Buffer
	text := slog.NewTextHandler(&b, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.LevelKey || a.Key == slog.MessageKey && a.Value.String() == "" {
				return slog.Attr{}
			}
			return a
		},
	})
	var none slog.Record
	none.AddAttrs(attrs...)
	if err := text.Handle(context.Background(), none); err != nil {
		return message
	}
	return message + " " + strings.TrimSuffix(b.String(), "\n")
}

// fieldName is an attribute's name as the journal takes it: [A-Z0-9_], not longer
// than 64.
func fieldName(key string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, key)
	return (fieldPrefix + name)[:min(len(fieldPrefix)+len(name), 64)]
}
