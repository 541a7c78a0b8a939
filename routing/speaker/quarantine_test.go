package speaker

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	speakerv1 "netclass.dev/proto/netclass/speaker/v1"
	"netclass.dev/routing"
)

// The first goroutine of a trace tells whose message it was; nothing that a
// peer can put into the text does.
func TestCulprit(t *testing.T) {
	for trace, want := range map[string]string{
		"panic: runtime error: index out of range [1] with length 1\n\ngoroutine 57 [running labels:{\"peer\": \"10.48.0.9\"}]:\nmain.f()\n": "10.48.0.9",
		"panic: boom [recovered]\ngoroutine 57 gp=0xc000102c40 m=4 mp=0xc000100808 [running labels:{\"peer\": \"fd00:48::9\"}]:\n":           "fd00:48::9",
		"panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\ngoroutine 7 [running labels:{\"peer\": \"10.48.0.9\"}]:\n":                    "",
		"WARN goroutine 57 [running labels:{\"peer\": \"10.48.0.9\"}]:\n":                                                                    "10.48.0.9",
		"DEBUG goroutine 57 [running labels:{\"peer\": \"10.48.0.9\"}]:\npanic: x\ngoroutine 1 [running]:\n":                                 "",
		"fatal error: all goroutines are asleep\n":                                                                                           "",
		"goroutine 57 [running labels:{\"peer\": \"10.48.0.9; rm -rf\"}]:\n":                                                                 "",
	} {
		tl := tail{sink: slog.New(slog.DiscardHandler)}
		for i := range len(trace) { // in the smallest of pieces
			_, _ = tl.Write([]byte(trace[i : i+1]))
		}
		if got := tl.culprit(); got != want {
			t.Errorf("%q: %q, want %q", trace, got, want)
		}
	}
}

func TestQuarantine(t *testing.T) {
	now := time.Unix(1000, 0)
	n := []routing.Neighbor{
		{Key: routing.SessionKey{Peer: "a", Family: routing.IPv4}, Remote: netip.MustParseAddr("10.0.0.1")},
		{Key: routing.SessionKey{Peer: "b", Family: routing.IPv4}, Remote: netip.MustParseAddr("10.0.0.2")},
	}
	m := speakerv1.FromSpeak(&routing.Speak{ASN: 1, Neighbors: n})
	q := make(quarantine)
	if q.filter(m, n, now) != m {
		t.Error("nobody is left out")
	}
	if d := q.put("10.0.0.2", "why", now); d != firstQuarantine {
		t.Error(d)
	}
	if f := q.filter(m, n, now); len(f.Neighbors) != 1 || f.Neighbors[0].Key.Peer != "a" || len(m.Neighbors) != 2 {
		t.Error(f)
	}
	now = now.Add(firstQuarantine)
	if q.filter(m, n, now) != m {
		t.Error("its time is over")
	}
	for want := 2 * firstQuarantine; want < maxQuarantine; want *= 2 {
		if d := q.put("10.0.0.2", "why", now); d != want {
			t.Errorf("%s, want %s", d, want)
		}
		now = now.Add(want + time.Second)
	}
	now = now.Add(maxQuarantine + goodConduct)
	if d := q.put("10.0.0.2", "why", now); d != firstQuarantine {
		t.Error(d)
	}
}

// What a peer or a crash writes to standard error is bounded.
func TestTailIsBounded(t *testing.T) {
	tl := tail{sink: slog.New(slog.DiscardHandler)}
	long := make([]byte, 1<<20)
	for i := range long {
		long[i] = 'x'
	}
	for range 3 {
		_, _ = tl.Write(long)
	}
	_, _ = tl.Write([]byte("\n"))
	for range 100 {
		_, _ = tl.Write([]byte("line\n"))
	}
	if len(tl.lines) > tailLines || len(tl.lines[0]) > tailWidth || cap(tl.rest) > 2*tailWidth {
		t.Errorf("%d lines, the first of %d bytes", len(tl.lines), len(tl.lines[0]))
	}
}
