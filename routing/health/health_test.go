package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// rig is a Health whose seconds pass when the test says so.
type rig struct {
	*Health
	t        *testing.T
	ring     chan func()
	asked    chan string
	answers  sync.Map // URL -> error
	notified atomic.Int32
	running  atomic.Int32
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, ring: make(chan func(), 1), asked: make(chan string, 100)}
	r.Health = New(func() { r.notified.Add(1) })
	r.ask = func(_ context.Context, url string) error {
		defer func() { r.asked <- url }()
		if err, ok := r.answers.Load(url); ok && err != nil {
			return err.(error)
		}
		return nil
	}
	r.every = func(ring func()) func() {
		r.running.Add(1)
		r.ring <- ring
		return func() { r.running.Add(-1) }
	}
	t.Cleanup(r.Close)
	return r
}

// wait waits for n answers to be taken in.
func (r *rig) wait(n int) {
	r.t.Helper()
	for range n {
		select {
		case <-r.asked:
		case <-time.After(10 * time.Second):
			r.t.Fatal("nothing is asked")
		}
	}
}

// want waits until the URL is as it should be.
func (r *rig) want(url, reason string) {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if got, ok := r.Unready()[url]; ok && got == reason {
			return
		} else if time.Now().After(end) {
			r.t.Fatalf("%s: %q (asked: %t), want %q", url, got, ok, reason)
		}
	}
}

func (r *rig) fails(url, why string) {
	if why == "" {
		r.answers.Delete(url)
	} else {
		r.answers.Store(url, errors.New(why))
	}
}

// Down after two failures in a row, up after one success; told only of changes.
func TestPatience(t *testing.T) {
	r := newRig(t)
	const u = "http://127.0.0.1:1/healthz"
	if _, asked := r.Unready()[u]; asked {
		t.Error("it is known before it is asked")
	}
	r.fails(u, "refused")
	r.Watch([]string{u, u})
	ring := <-r.ring
	r.want(u, "refused") // what never was well is not waited for
	r.wait(1)
	told := r.notified.Load()
	for i, step := range []struct{ answer, want string }{
		{"refused", "refused"}, {"", ""}, {"", ""}, {"busy", ""}, {"", ""}, {"busy", ""}, {"late", "late"}, {"late", "late"}, {"other", "other"}, {"", ""},
	} {
		before := r.Unready()[u]
		r.fails(u, step.answer)
		ring()
		r.wait(1)
		r.want(u, step.want)
		if step.want != before {
			told++
		}
		// The notice comes just after the answer is to be seen.
		for end := time.Now().Add(10 * time.Second); r.notified.Load() < told && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
		if got := r.notified.Load(); got != told {
			t.Fatalf("step %d: notified %d times, want %d", i, got, told)
		}
	}
}

// Without URLs nothing runs; those that stay keep what is known of them.
func TestWatch(t *testing.T) {
	r := newRig(t)
	r.Watch(nil)
	if r.running.Load() != 0 {
		t.Error("something runs for nothing")
	}
	const a, b = "http://a/", "http://b/"
	r.fails(b, "refused")
	r.Watch([]string{b, a})
	<-r.ring
	r.want(a, "")
	r.want(b, "refused")
	r.Watch([]string{a})
	ring := <-r.ring
	if got := r.Unready(); len(got) != 1 || r.running.Load() != 1 {
		t.Errorf("known: %v, running %d", got, r.running.Load())
	}
	r.wait(3)
	r.Watch([]string{a})
	select {
	case <-r.ring:
		t.Error("the same URLs begin anew")
	default:
	}
	ring()
	r.wait(1)
	r.Watch(nil)
	if got := r.Unready(); len(got) != 0 || r.running.Load() != 0 {
		t.Errorf("known: %v, running %d", got, r.running.Load())
	}
}

func TestAsk(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		switch req.URL.Path {
		case "/ok":
		case "/nothing":
			w.WriteHeader(http.StatusNoContent)
		case "/away":
			http.Redirect(w, req, "/ok", http.StatusFound)
		case "/long":
			fmt.Fprint(w, strings.Repeat("x", 4*maxBody))
		case "/late":
			<-req.Context().Done()
		case "/drip": // well, but its end never comes
			w.(http.Flusher).Flush()
			<-req.Context().Done()
		case "/head":
			w.Header().Set("X", strings.Repeat("x", 2*maxHeader))
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	// A proxy that swallows all: it must not be asked.
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	c := newClient()
	for url, want := range map[string]string{
		server.URL + "/ok":               "",
		server.URL + "/nothing":          "",
		server.URL + "/long":             "",
		server.URL + "/away":             "status 302 Found",
		server.URL + "/ill":              "status 503 Service Unavailable",
		server.URL + "/late":             "no answer within 1s",
		server.URL + "/drip":             "no answer within 1s",
		server.URL + "/head":             "net/http: HTTP/1.x transport connection broken: net/http: server response headers exceeded 16384 bytes; aborted",
		secure.URL:                       "tls: failed to verify certificate: x509: certificate signed by unknown authority",
		"http://" + gone.Addr().String(): "dial: connect: connection refused",
	} {
		if got := because(c.ask(context.Background(), url)); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
	if asked.Load() != 8 {
		t.Errorf("the server was asked %d times, want 8", asked.Load())
	}
}

// A real second passes, and one connection serves all questions.
func TestEverySecond(t *testing.T) {
	var asked, connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	changed := make(chan struct{}, 10)
	h := New(func() { changed <- struct{}{} })
	defer h.Close()
	h.Watch([]string{server.URL})
	<-changed
	time.Sleep(2500 * time.Millisecond)
	if n := asked.Load(); n < 2 || n > 5 || connections.Load() != 1 || len(changed) != 0 {
		t.Errorf("asked %d times on %d connections, changed %d times more", n, connections.Load(), len(changed))
	}
}
