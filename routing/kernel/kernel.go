// Package kernel is the hand that reads and changes Linux's links, addresses,
// policy rules and routes over rtnetlink.
//
// It decides nothing. Dump tells the whole truth or fails; Apply carries out
// exactly the changes it is given and reports each one that failed; Watch says
// when it is time to look again; Probe asks whether a next hop is alive, Lookup
// where packets would go.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"netclass.dev/routing"
)

// Config says which kernel to work on.
type Config struct {
	// NetNS is the file descriptor of a network namespace; 0 is the one that
	// the process is in. It is needed as long as the Kernel is open.
	NetNS int
	// Log takes what no caller is told, such as a lost subscription. Nil: none.
	Log *slog.Logger
}

// Kernel is an open connection to the kernel's routing state. Its methods may
// be called from several goroutines.
type Kernel struct {
	netns int
	log   *slog.Logger

	// One connection for each job, so that none waits for another's answers.
	// Each mutex holds for one request with its answers.
	writeMu sync.Mutex
	write   *socket
	dumpMu  sync.Mutex
	dump    *socket
	routes  int // that the last dump found
	probeMu sync.Mutex
	probe   *socket

	lookupMu sync.Mutex
	lookup   *socket

	port        uint32 // of write: the kernel puts it on the events of our changes
	watched     atomic.Pointer[watchRange]
	watchBuffer int // receive buffer of a subscription in bytes
	meddler     meddler

	closed    chan struct{}
	closeOnce sync.Once
}

// Receive buffers in bytes. A failed request comes back as its own text plus
// the kernel's bookkeeping of about 1 KiB, so that a whole batch of failures
// fits several times. Subscriptions hold some thousand foreign events.
const (
	requestBuffer = 4 << 20
	watchBuffer   = 4 << 20
)

// Open connects to the kernel. Nothing is changed.
func Open(cfg Config) (*Kernel, error) {
	k := &Kernel{
		netns:       cfg.NetNS,
		log:         cfg.Log,
		watchBuffer: watchBuffer,
		closed:      make(chan struct{}),
	}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	k.watched.Store(&watchRange{})
	for _, s := range k.sockets() {
		var err error
		if *s.conn, err = dialDirect(k.netns, 0, requestBuffer, answerTimeout); err != nil {
			return nil, errors.Join(fmt.Errorf("open rtnetlink: %w", err), k.Close())
		}
	}
	k.port = k.write.port
	return k, nil
}

// guarded is a connection with the mutex that holds for its requests.
type guarded struct {
	mu   *sync.Mutex
	conn **socket
}

func (k *Kernel) sockets() []guarded {
	return []guarded{{&k.writeMu, &k.write}, {&k.dumpMu, &k.dump}, {&k.probeMu, &k.probe}, {&k.lookupMu, &k.lookup}}
}

// Close ends the connections. A Watch or Probe under way returns net.ErrClosed.
func (k *Kernel) Close() error {
	var err error
	k.closeOnce.Do(func() {
		close(k.closed)
		for _, s := range k.sockets() {
			s.mu.Lock()
			if *s.conn != nil {
				err = errors.Join(err, (*s.conn).close())
			}
			s.mu.Unlock()
		}
	})
	return err
}

// ready prepares a connection, whose mutex is held, for a new request: one that
// may still hold answers to an old one is replaced.
func (k *Kernel) ready(ctx context.Context, s **socket) error {
	if err := k.alive(ctx); err != nil || !(*s).broken {
		return err
	}
	// It keeps its port, by which Watch knows our own changes.
	_ = (*s).close()
	fresh, err := dialDirect(k.netns, (*s).port, requestBuffer, answerTimeout)
	if err != nil {
		return fmt.Errorf("open rtnetlink again: %w", err)
	}
	*s = fresh
	return nil
}

// alive reports why work cannot go on, if it cannot.
func (k *Kernel) alive(ctx context.Context) error {
	select {
	case <-k.closed:
		return net.ErrClosed
	default:
		return ctx.Err()
	}
}

// SetRange says which routes Watch looks at: those of the protocols, and those
// in the tables whatever their protocol. The main table is everybody's and
// changes all the time: of it only routes of a metric of ours count. Until the
// first call no route event counts.
func (k *Kernel) SetRange(protocols []routing.Protocol, tables []routing.TableID) {
	r := &watchRange{protocols: map[routing.Protocol]bool{}, tables: map[routing.TableID]bool{}}
	for _, p := range protocols {
		r.protocols[p] = true
	}
	for _, t := range tables {
		r.tables[t] = true
	}
	k.watched.Store(r)
}
