package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"time"
)

// Limits of a pinger: it must not fill the machine when a test forgets it.
const (
	maxPingRate = 10_000
	maxPings    = 2_000_000
	replyWait   = time.Second // how long Stop waits for the last replies
)

// PingOptions says how to ping.
type PingOptions struct {
	Rate   int        // per second; default 500, at most 10,000
	Source netip.Addr // default: the kernel's choice
}

// Pinger sends ICMP echo requests at a steady rate until it is stopped.
type Pinger struct {
	Host *Host
	To   netip.Addr

	interval time.Duration
	socket   *echoSocket
	stop     chan struct{}
	sent     sync.WaitGroup
	read     sync.WaitGroup

	mu         sync.Mutex
	probes     []probe
	missing    int
	duplicates int
	errors     int
	lastError  error
}

type probe struct {
	at       time.Time
	answered bool
}

// StartPing starts pinging from the host.
func (h *Host) StartPing(to netip.Addr, opts PingOptions) (*Pinger, error) {
	if opts.Rate == 0 {
		opts.Rate = 500
	}
	if opts.Rate < 1 || opts.Rate > maxPingRate {
		return nil, fmt.Errorf("ping %s from %s: %d per second: want 1 to %d", to, h.Name, opts.Rate, maxPingRate)
	}
	p, err := h.newPinger(to, opts.Source, time.Second/time.Duration(opts.Rate))
	if err != nil {
		return nil, err
	}
	p.sent.Go(p.send)
	return p, nil
}

// newPinger opens a pinger's socket in the host's namespace and starts to read
// from it.
func (h *Host) newPinger(to, from netip.Addr, interval time.Duration) (*Pinger, error) {
	p := &Pinger{Host: h, To: to, interval: interval, stop: make(chan struct{})}
	err := h.Do(func() (err error) {
		p.socket, err = openEcho(from, to, rand.Uint64())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ping %s from %s: %w", to, h.Name, err)
	}
	p.read.Go(p.receive)
	return p, nil
}

// send keeps to the clock: what a busy machine delayed is sent at once, so that
// the number of requests always tells the time.
func (p *Pinger) send() {
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for seq := uint64(0); seq < maxPings; seq++ {
		due := start.Add(time.Duration(seq) * p.interval)
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-p.stop:
				return
			case <-timer.C:
			}
		} else {
			select {
			case <-p.stop:
				return
			default:
			}
		}
		p.one(seq)
	}
}

// one sends the request with the next sequence number.
func (p *Pinger) one(seq uint64) {
	p.mu.Lock()
	p.probes = append(p.probes, probe{at: time.Now()})
	p.missing++
	p.mu.Unlock()
	if err := p.socket.send(seq); err != nil {
		p.fail(err)
	}
}

func (p *Pinger) receive() {
	buf := make([]byte, 2048)
	for {
		seq, err := p.socket.receive(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil { // such as EHOSTUNREACH, from an ICMP error
			p.fail(err)
			continue
		}
		p.mu.Lock()
		switch {
		case seq >= uint64(len(p.probes)):
		case p.probes[seq].answered:
			p.duplicates++
		default:
			p.probes[seq].answered = true
			p.missing--
		}
		p.mu.Unlock()
	}
}

func (p *Pinger) fail(err error) {
	p.mu.Lock()
	p.errors++
	p.lastError = err
	p.mu.Unlock()
}

// Stop ends the sending, waits up to a second for the last replies and reports.
func (p *Pinger) Stop() PingReport {
	select {
	case <-p.stop: // stopped before
	default:
		close(p.stop)
		p.sent.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), replyWait)
		defer cancel()
		_ = Eventually(ctx, func() error {
			if _, lost := p.Between(time.Now().Add(-replyWait), time.Now()); lost > 0 {
				return errors.New("replies are missing")
			}
			return nil
		})
		if err := p.socket.deadline(time.Now()); err != nil {
			p.fail(err)
		}
		_ = p.socket.close() // ends the reader, if the deadline has not
		p.read.Wait()
	}
	return p.Report()
}

// Outage is a run of requests in a row that had no reply.
type Outage struct {
	First, Last uint64        // sequence numbers
	At          time.Time     // when First was sent
	Length      time.Duration // until the next answered request was sent, or the end
}

// PingReport is what became of the requests.
type PingReport struct {
	From       string
	To         netip.Addr
	Sent       int
	Received   int
	Lost       int
	Duplicates int
	Errors     int   // of the socket: refused by a route, or an ICMP error came
	LastError  error // the newest of them
	Outages    []Outage
	LongestGap time.Duration // the longest outage
}

// Report returns the state so far; requests still under way count as lost.
func (p *Pinger) Report() PingReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := PingReport{
		From: p.Host.Name, To: p.To, Sent: len(p.probes), Lost: p.missing, Received: len(p.probes) - p.missing,
		Duplicates: p.duplicates, Errors: p.errors, LastError: p.lastError,
	}
	if p.missing == 0 {
		return r
	}
	for i := 0; i < len(p.probes); i++ {
		if p.probes[i].answered {
			continue
		}
		first := i
		for i+1 < len(p.probes) && !p.probes[i+1].answered {
			i++
		}
		end := p.probes[i].at.Add(p.interval)
		if i+1 < len(p.probes) {
			end = p.probes[i+1].at
		}
		o := Outage{First: uint64(first), Last: uint64(i), At: p.probes[first].at, Length: end.Sub(p.probes[first].at)}
		r.Outages = append(r.Outages, o)
		r.LongestGap = max(r.LongestGap, o.Length)
	}
	return r
}

// Between counts the requests that were sent from one time until another, and
// those of them that had no reply. Stop the pinger first, or what is still under
// way counts as lost.
func (p *Pinger) Between(from, to time.Time) (sent, lost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, probe := range p.probes {
		if probe.at.Before(from) || !probe.at.Before(to) {
			continue
		}
		sent++
		if !probe.answered {
			lost++
		}
	}
	return sent, lost
}

func (r PingReport) String() string {
	s := fmt.Sprintf("%s -> %s: %d sent, %d lost", r.From, r.To, r.Sent, r.Lost)
	if r.Lost > 0 {
		s += fmt.Sprintf(" in %d outages, the longest %v", len(r.Outages), r.LongestGap.Round(time.Millisecond))
	}
	if r.LastError != nil {
		s += fmt.Sprintf(" (%v)", r.LastError)
	}
	return s
}

// Ping sends count requests, 10 ms apart, and reports. It does not wait longer
// than a second for replies.
func (h *Host) Ping(to netip.Addr, count int) (PingReport, error) {
	p, err := h.newPinger(to, netip.Addr{}, 10*time.Millisecond)
	if err != nil {
		return PingReport{}, err
	}
	for seq := range count {
		p.one(uint64(seq))
		time.Sleep(p.interval)
	}
	return p.Stop(), nil
}
