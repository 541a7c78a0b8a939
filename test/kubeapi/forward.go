package kubeapi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"netclass.dev/test/netns"
)

// Forward makes the API server reachable inside a network namespace, at the
// address and port that it has outside, until the test ends: one kubeconfig is
// good for all. While the server is down, connections are closed at once.
func (s *Server) Forward(ns *netns.NS) {
	s.t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", s.port)
	var inside net.Listener
	err := ns.Do(func() (err error) {
		inside, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		s.t.Fatalf("forward to the API server: %v", err)
	}
	var f forwarder
	f.running.Go(func() { f.accept(inside, address) })
	s.t.Cleanup(func() {
		_ = inside.Close()
		f.close()
		f.running.Wait()
	})
}

// forwarder carries connections until it is closed.
type forwarder struct {
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

func (f *forwarder) accept(l net.Listener, to string) {
	for {
		in, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		f.running.Go(func() { f.carry(in, to) })
	}
}

// carry copies both ways until either side ends.
func (f *forwarder) carry(in net.Conn, to string) {
	defer in.Close()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	if !f.keep(in, out) {
		return
	}
	defer f.drop(in, out)
	var copying sync.WaitGroup
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		copying.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = in.Close()
			_ = out.Close()
		})
	}
	copying.Wait()
}

func (f *forwarder) keep(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = make(map[net.Conn]struct{})
	}
	for _, c := range conns {
		f.open[c] = struct{}{}
	}
	return !f.closed
}

func (f *forwarder) drop(conns ...net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		delete(f.open, c)
	}
}

func (f *forwarder) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for c := range f.open {
		_ = c.Close()
	}
}
