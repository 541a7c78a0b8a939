package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	streamInterval = 10 * time.Millisecond
	// streamPatience is how long the last numbers may take to come back: TCP has
	// backed off by as long as an outage lasted.
	streamPatience = 10 * time.Second
)

// Stream is a TCP connection that carries a number every 10 ms, which the other
// end sends back.
type Stream struct {
	Name   string
	Source netip.AddrPort // as the other end sees it

	conn  net.Conn
	echo  net.Conn // the other end
	ended atomic.Bool
	tasks sync.WaitGroup

	mu    sync.Mutex
	last  time.Time     // something came back
	stall time.Duration // the longest until then
	err   error         // why it does not stand any more
}

// StartStream connects the host to an address of another, which serves this one
// connection.
func (h *Host) StartStream(to *Host, addr netip.Addr) (*Stream, error) {
	s := &Stream{Name: fmt.Sprintf("%s -> %s", h.Name, addr), last: time.Now()}
	var listener *net.TCPListener
	err := to.Do(func() (err error) {
		listener, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", s.Name, err)
	}
	defer func() { _ = listener.Close() }()
	port := listener.Addr().(*net.TCPAddr).AddrPort().Port()
	err = h.Do(func() (err error) {
		s.conn, err = net.DialTimeout("tcp", netip.AddrPortFrom(addr, port).String(), 5*time.Second)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", s.Name, err)
	}
	if err := listener.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, errors.Join(fmt.Errorf("accept %s: %w", s.Name, err), s.conn.Close())
	}
	if s.echo, err = listener.AcceptTCP(); err != nil {
		return nil, errors.Join(fmt.Errorf("accept %s: %w", s.Name, err), s.conn.Close())
	}
	s.Source = s.echo.RemoteAddr().(*net.TCPAddr).AddrPort()
	go s.serve()
	s.tasks.Go(s.write)
	s.tasks.Go(s.read)
	return s, nil
}

// serve is the other end. Its failures show at ours.
func (s *Stream) serve() {
	_, _ = io.Copy(s.echo, s.echo)
	_ = s.echo.Close()
}

func (s *Stream) write() {
	tick := time.NewTicker(streamInterval)
	defer tick.Stop()
	for n := uint64(0); !s.ended.Load(); n++ {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], n)
		if _, err := s.conn.Write(b[:]); err != nil {
			return // the reader says why
		}
		<-tick.C
	}
	_ = s.conn.(*net.TCPConn).CloseWrite()
}

func (s *Stream) read() {
	for n := uint64(0); ; n++ {
		var b [8]byte
		_, err := io.ReadFull(s.conn, b[:])
		if errors.Is(err, io.EOF) && s.ended.Load() {
			return
		}
		if err != nil {
			s.fail(fmt.Errorf("after %d numbers: %w", n, err))
			return
		}
		if got := binary.BigEndian.Uint64(b[:]); got != n {
			s.fail(fmt.Errorf("number %d came back in the place of %d", got, n))
			return
		}
		s.mu.Lock()
		s.stall = max(s.stall, time.Since(s.last))
		s.last = time.Now()
		s.mu.Unlock()
	}
}

func (s *Stream) fail(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("what was sent has not come back %v later: %w", streamPatience, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Stall returns the longest time in which nothing came back, and begins anew.
func (s *Stream) Stall() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := max(s.stall, time.Since(s.last))
	s.stall = 0
	return longest
}

// Err returns why the connection does not stand any more; nil while it does.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return fmt.Errorf("TCP %s: %w", s.Name, s.err)
	}
	return nil
}

// Stop ends the connection and returns an error unless it stood until now and
// carried everything in order.
func (s *Stream) Stop() error {
	_ = s.conn.SetReadDeadline(time.Now().Add(streamPatience))
	s.ended.Store(true)
	s.tasks.Wait()
	// Where the path has changed the ends may not hear of each other's any more.
	_, _ = s.conn.Close(), s.echo.Close()
	return s.Err()
}
