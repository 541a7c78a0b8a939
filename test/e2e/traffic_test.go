package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// pingRate is how often a second each pair of pods is pinged in each family, and
// so how finely a loss shows.
const pingRate = 1000

// traffic is what goes on between pods while things happen: pings and a TCP
// connection for each pair and family.
type traffic struct {
	*cluster
	pingers []*lab.Pinger
	streams []*stream
	before  []lab.Counts
}

// traffic starts it between the pods of the given pairs of nodes.
func (c *cluster) traffic(pairs ...[2]int) *traffic {
	c.t.Helper()
	tr := &traffic{cluster: c}
	for _, pair := range pairs {
		for _, f := range routing.Families {
			from, to := c.Node(pair[0]).Pod, c.Node(pair[1])
			if r, err := from.Ping(to.PodAddr(f), 1); err != nil || r.Lost > 0 {
				c.t.Fatalf("before anything happens: %v %v", r, err)
			}
			s, err := startStream(from, to.Pod, to.PodAddr(f))
			c.must(err)
			tr.streams = append(tr.streams, s)
		}
	}
	for _, n := range c.Nodes {
		counts, err := n.Counts()
		c.must(err)
		tr.before = append(tr.before, counts)
	}
	for _, pair := range pairs {
		for _, f := range routing.Families {
			p, err := c.Node(pair[0]).Pod.StartPing(c.Node(pair[1]).PodAddr(f), lab.PingOptions{Rate: pingRate})
			c.must(err)
			tr.pingers = append(tr.pingers, p)
		}
	}
	return tr
}

// stop ends the traffic. It wants all connections to have stood and carried
// everything in order, no more than the allowed number of pings to have been
// lost (anyNumber), and every packet from pod to pod to have left by one of the
// links.
func (tr *traffic) stop(allowed int, links ...string) {
	tr.t.Helper()
	sent, lost := 0, 0
	var gap time.Duration
	for _, p := range tr.pingers {
		r := p.Stop()
		sent, lost, gap = sent+r.Sent, lost+r.Lost, max(gap, r.LongestGap)
		if allowed != anyNumber && r.Lost > allowed {
			tr.t.Errorf("%v: want at most %d", r, allowed)
		}
	}
	var stall time.Duration
	for _, s := range tr.streams {
		longest, err := s.stop()
		stall = max(stall, longest)
		if err != nil {
			tr.t.Errorf("TCP %s: %v", s.name, err)
		}
	}
	for i, n := range tr.Nodes {
		counts, err := n.Counts()
		tr.must(err)
		for flow, packets := range counts.Since(tr.before[i]) {
			if flow.Out && flow.From == lab.ZonePod && flow.To == lab.ZonePod && flow.Link != lab.CNILink && !slices.Contains(links, flow.Link) {
				tr.t.Errorf("%d packets from pod to pod (%s) left %s by %s, want only %s", packets, flow.Family, n.Name, flow.Link, strings.Join(links, " and "))
			}
		}
	}
	tr.routerSawNothing()
	tr.t.Logf("%d pings, %d lost, the longest gap %v; %d TCP connections stood, the longest stall %v",
		sent, lost, gap.Round(time.Millisecond), len(tr.streams), stall.Round(time.Millisecond))
}

// stream is a TCP connection that carries a number every few milliseconds, which
// the other end sends back.
type stream struct {
	name    string
	conn    net.Conn
	ended   atomic.Bool
	tasks   sync.WaitGroup
	err     error // of the reader
	longest time.Duration
}

const (
	streamInterval = 10 * time.Millisecond
	// streamPatience is how long the last numbers may take to come back: TCP has
	// backed off by as long as an outage lasted.
	streamPatience = 10 * time.Second
)

// startStream connects two hosts. The echoing end serves one connection.
func startStream(from, to *lab.Host, addr netip.Addr) (*stream, error) {
	s := &stream{name: fmt.Sprintf("%s -> %s", from.Name, addr)}
	var listener *net.TCPListener
	err := to.Do(func() (err error) {
		listener, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", s.name, err)
	}
	defer func() { _ = listener.Close() }()
	port := listener.Addr().(*net.TCPAddr).AddrPort().Port()
	err = from.Do(func() (err error) {
		s.conn, err = net.DialTimeout("tcp", netip.AddrPortFrom(addr, port).String(), 5*time.Second)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", s.name, err)
	}
	echo, err := listener.AcceptTCP()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("accept %s: %w", s.name, err), s.conn.Close())
	}
	s.tasks.Go(func() {
		_, _ = io.Copy(echo, echo) // its failures show at the other end
		_ = echo.Close()
	})
	s.tasks.Go(s.write)
	s.tasks.Go(s.read)
	return s, nil
}

func (s *stream) write() {
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

func (s *stream) read() {
	last := time.Now()
	for n := uint64(0); ; n++ {
		var b [8]byte
		_, err := io.ReadFull(s.conn, b[:])
		if errors.Is(err, io.EOF) && s.ended.Load() {
			return
		}
		if err != nil {
			s.err = fmt.Errorf("after %d numbers: %w", n, err)
			return
		}
		if got := binary.BigEndian.Uint64(b[:]); got != n {
			s.err = fmt.Errorf("number %d came back in the place of %d", got, n)
			return
		}
		s.longest = max(s.longest, time.Since(last))
		last = time.Now()
	}
}

// stop ends the connection and returns the longest time in which nothing came
// back.
func (s *stream) stop() (longest time.Duration, err error) {
	_ = s.conn.SetReadDeadline(time.Now().Add(streamPatience))
	s.ended.Store(true)
	s.tasks.Wait()
	_ = s.conn.Close()
	if errors.Is(s.err, os.ErrDeadlineExceeded) {
		s.err = fmt.Errorf("what was sent has not come back %v later: %w", streamPatience, s.err)
	}
	return s.longest, s.err
}
