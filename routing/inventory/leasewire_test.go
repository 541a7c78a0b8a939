package inventory

import (
	"strings"
	"testing"
	"unicode"

	"netclass.dev/routing"
)

// FuzzLease reads any text as annotations of the Lease. What is taken in is bounded
// and plain, and reads the same once it has been written again.
func FuzzLease(f *testing.F) {
	for _, text := range []string{
		`{"id":"d1","node":"a","reason":"x","classes":["c"],"grace":"10s","wait":"1m","at":"2026-11-30T12:00:00Z"}`,
		`{"request":{"id":"d1","node":"a"},"phase":"Draining","step":"Mesh","message":"m","costs":["c"],"rates":[{"link":"pod0","received":1e300,"sent":-0.5}],"error":"e"}`,
		`{"id":"d\u0000","node":"a"}`, `{"id":"d1","node":"a","reason":"\u001b]0;x\u0007\u202e\u2028\ud800"}`, `{"id":"d1","node":"a","grace":"9999999h"}`,
		`{"id":"d1","dryRunOf":"a"}`, `{"id":"d1","dryRunOf":"a","node":"b"}`, `null`, `[]`, `{"request":{"id":"d1","node":"a"},"phase":"Drained","step":"\ud800"}`, `{"id":"d1","node":"a","grace":1}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := decodeRequest(text); err == nil {
			for _, shown := range []string{r.ID, r.Node, r.Reason, r.By, r.Holder, strings.Join(r.Classes, "")} {
				wantPlain(t, shown)
			}
			if again, err := encodeRequest(r); err == nil {
				read, err := decodeRequest(again)
				if err != nil {
					t.Fatalf("%q, written again: %v", text, err)
				}
				if twice, err := encodeRequest(read); err != nil || twice != again {
					t.Errorf("%q: %s, %v, want %s", text, twice, err, again)
				}
			}
		}
		if s, err := decodeStatus(text); err == nil {
			_ = s.Progress.Step.String()
			for _, shown := range []string{s.Lock, s.Progress.Message, s.Progress.Error, strings.Join(s.Progress.Costs, "")} {
				wantPlain(t, shown)
			}
			if again, err := encodeStatus(s); err == nil {
				if _, err := decodeStatus(again); err != nil {
					t.Errorf("%q, written again: %v", text, err)
				}
			}
		}
	})
}

func wantPlain(t *testing.T, shown string) {
	t.Helper()
	if len(shown) > maxWire || strings.ContainsFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("shown: %q", shown)
	}
}

// TestDryRunForOthers: a release that knows no dry run finds a request without a node,
// which it leaves, and does not drain anything.
func TestDryRunForOthers(t *testing.T) {
	asked := &routing.DrainRequest{ID: "d1", Node: "a", DryRun: true, Classes: []string{"c"}}
	text, err := encodeRequest(asked)
	if err != nil || strings.Contains(text, `"node"`) {
		t.Fatalf("%s, %v", text, err)
	}
	if read, err := decodeRequest(text); err != nil || read.Node != "a" || !read.DryRun {
		t.Errorf("read: %+v, %v", read, err)
	}
	for _, bad := range []string{`{"id":"d1","dryRunOf":"a","node":"b"}`, `{"id":"d1","dryRunOf":"a","undrain":true}`, `{"id":"d1"}`} {
		if read, err := decodeRequest(bad); err == nil {
			t.Errorf("%s is read as %+v", bad, read)
		}
	}
}

// TestLongStatus: what is longer than an annotation may be loses what others can do
// without, and is written all the same.
func TestLongStatus(t *testing.T) {
	long := strings.Repeat("\"", 2*maxMessage)
	s := &routing.DrainStatus{Request: routing.DrainRequest{ID: "d1", Node: "k8s-1", Reason: long, By: long}, Lock: long}
	s.Progress = routing.DrainProgress{Phase: routing.DrainEnded, Message: long, Error: long}
	for range 2 * maxListed {
		s.Progress.Costs, s.Progress.Failure.Refused = append(s.Progress.Costs, long), append(s.Progress.Failure.Refused, long)
		s.Progress.Rates = append(s.Progress.Rates, routing.LinkRate{Link: strings.Repeat("x", maxName)})
	}
	for range maxListed {
		s.Request.Classes = append(s.Request.Classes, strings.Repeat("c", 63))
	}
	text, err := encodeStatus(s)
	if err != nil {
		t.Fatal(err)
	}
	read, err := decodeStatus(text)
	if err != nil || read.Progress.Error == "" || len(read.Progress.Failure.Refused) != 1 || len(read.Progress.Costs) != 0 {
		t.Errorf("%v, %+v", err, read)
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a b": "a b", "a\tb\r\n": "a b  ", "\x1b[31mred\x07": "[31mred", "a\u202eb": "ab", "\xff": "\ufffd",
		"0123456789": "0123456789", "0123456789a": "0123456…", "éééééé": "ééé…", "\x00\x00\x00a": "a",
	} {
		if got := plain(text, 10); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
