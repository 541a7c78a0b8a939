package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/netns"
)

// Peer is one passive peer: it announces one prefix of each family in a session
// of that family.
type Peer struct {
	Addr   routing.PerFamily[netip.Addr]
	Prefix routing.PerFamily[netip.Prefix]
}

const (
	asn  = 64512
	port = 179
	hold = 9 * time.Second
)

// Peers is a crowd of passive iBGP peers. They accept whoever dials one of their
// addresses, say what they have, end-of-RIB, and then only keepalives.
type Peers struct {
	byAddr    map[netip.Addr]*Peer
	listeners []net.Listener
	up        atomic.Int64
	tasks     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

// Listen starts the peers in a namespace whose links have their addresses.
func Listen(ns *netns.NS, peers []Peer) (*Peers, error) {
	p := &Peers{byAddr: make(map[netip.Addr]*Peer), conns: make(map[net.Conn]struct{})}
	for i := range peers {
		for _, f := range routing.Families {
			p.byAddr[peers[i].Addr.Of(f)] = &peers[i]
		}
	}
	for _, f := range routing.Families {
		var l net.Listener
		err := ns.Do(func() (err error) {
			any := netip.AddrPortFrom(f.Default().Addr(), port)
			l, err = new(net.ListenConfig).Listen(context.Background(), network(f), any.String())
			return err
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen for peers: %w", err), p.Close())
		}
		p.listeners = append(p.listeners, l)
		p.tasks.Go(func() { p.accept(l, f) })
	}
	return p, nil
}

func network(f routing.Family) string {
	if f == routing.IPv4 {
		return "tcp4"
	}
	return "tcp6"
}

// Up returns how many sessions are established.
func (p *Peers) Up() int { return int(p.up.Load()) }

// Close ends the sessions without a word, and the peers.
func (p *Peers) Close() error {
	var errs []error
	for _, l := range p.listeners {
		errs = append(errs, l.Close())
	}
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		errs = append(errs, c.Close())
	}
	p.mu.Unlock()
	p.tasks.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, net.ErrClosed) })
	return errors.Join(errs...)
}

func (p *Peers) accept(l net.Listener, f routing.Family) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			_ = c.Close()
			return
		}
		p.conns[c] = struct{}{}
		p.mu.Unlock()
		p.tasks.Go(func() {
			p.serve(c, f)
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
			_ = c.Close()
		})
	}
}

// serve is one session. It ends as the other side wants, and the other side says
// why: a session that should stand and does not is missed by Up.
func (p *Peers) serve(c net.Conn, f routing.Family) {
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return
	}
	peer := p.byAddr[local.Addr().Unmap()]
	if peer == nil {
		return
	}
	buf := make([]byte, maxMessage)
	_ = c.SetReadDeadline(time.Now().Add(hold))
	if expect(c, typeOpen, buf) != nil {
		return
	}
	alive := message(typeKeepalive, nil)
	if _, err := c.Write(append(openMessage(asn, hold, peer.Addr.IPv4, f), alive...)); err != nil {
		return
	}
	if expect(c, typeKeepalive, buf) != nil {
		return
	}
	if _, err := c.Write(append(updateMessage(peer.Prefix.Of(f), peer.Addr.Of(f)), endOfRIB(f)...)); err != nil {
		return
	}
	p.up.Add(1)
	defer p.up.Add(-1)

	// Each keepalive is answered by one: the other side's timer is timer enough.
	for {
		_ = c.SetReadDeadline(time.Now().Add(hold))
		kind, err := readMessage(c, buf)
		if err != nil || kind == typeNotification {
			return
		}
		if kind != typeKeepalive {
			continue
		}
		if _, err := c.Write(alive); err != nil {
			return
		}
	}
}
