package kubeapi

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Relay is another way to the API server: from the network namespace that its
// listener was made in, say. It can be cut without anyone else noticing.
type Relay struct {
	s *Server
	l net.Listener

	frozen atomic.Bool

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

// Relay serves a listener on the loopback, until the test ends.
func (s *Server) Relay(t testing.TB, l net.Listener) *Relay {
	r := &Relay{s: s, l: l, conns: make(map[net.Conn]bool)}
	t.Cleanup(func() {
		_ = l.Close()
		r.Thaw()
		r.Cut()
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r
}

// Kubeconfig is like the server's, by way of the relay.
func (r *Relay) Kubeconfig(folder, token string) string {
	r.s.t.Helper()
	return r.s.writeKubeconfig("https://"+r.l.Addr().String(), folder, "token: "+token)
}

// Cut ends all connections and refuses new ones, until Mend.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = true
	for conn := range r.conns {
		_ = conn.Close()
	}
}

// Mend lets connections through again.
func (r *Relay) Mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = false
}

// Freeze has the relay pass nothing on, while its connections stay, as where a
// network drops all packets; Thaw ends that.
func (r *Relay) Freeze() { r.frozen.Store(true) }

// Thaw ends Freeze. What was held back is passed on.
func (r *Relay) Thaw() { r.frozen.Store(false) }

// Write holds back what goes through a frozen relay.
func (w *valve) Write(b []byte) (int, error) {
	for w.relay.frozen.Load() {
		time.Sleep(20 * time.Millisecond)
	}
	return w.Conn.Write(b)
}

// valve is the far end of one direction.
type valve struct {
	net.Conn
	relay *Relay
}

// keep takes a connection into care, unless the relay is cut.
func (r *Relay) keep(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut {
		return false
	}
	r.conns[conn] = true
	return true
}

func (r *Relay) drop(conn net.Conn) {
	_ = conn.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, conn)
}

func (r *Relay) serve(near net.Conn) {
	defer r.drop(near)
	if !r.keep(near) {
		return
	}
	far, err := net.Dial("tcp", r.s.address())
	if err != nil {
		return
	}
	defer r.drop(far)
	if !r.keep(far) {
		return
	}
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(&valve{to, r}, from) // either end may end it
		_, _ = to.Close(), from.Close()
	}
	both.Go(func() { pass(far, near) })
	both.Go(func() { pass(near, far) })
	both.Wait()
}
