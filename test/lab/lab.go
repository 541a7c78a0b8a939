package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Options says how a lab is made. The zero value is the seed's cluster.
type Options struct {
	Nodes int // default 3, at most 200
	// NoCounters leaves out the nodes' packet counters, which cost time to
	// install on many nodes. The router counts all the same.
	NoCounters bool
}

// Lab is a running cluster network.
type Lab struct {
	Nodes  []*Node // Nodes[0] is k8s-1
	Router *Router
	Switch *Host

	opts     Options
	dir      string
	lock     *os.File
	launcher *launcher

	mu     sync.Mutex
	hosts  []*Host
	closed sync.Once
}

// dirPrefix marks the directories of labs.
const dirPrefix = "netclass-lab-"

// New makes a lab. It needs root and the program nft. The caller closes it.
func New(ctx context.Context, opts Options) (*Lab, error) {
	if opts.Nodes == 0 {
		opts.Nodes = 3
	}
	if opts.Nodes < 1 || opts.Nodes > maxNodes {
		return nil, fmt.Errorf("make lab: %d nodes: want 1 to %d", opts.Nodes, maxNodes)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("make lab: network namespaces need root")
	}
	sweep()
	l := &Lab{opts: opts, Nodes: make([]*Node, opts.Nodes)}
	if err := l.make(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("make lab: %w", err), l.Close())
	}
	return l, nil
}

func (l *Lab) make(ctx context.Context) error {
	var err error
	if l.dir, err = os.MkdirTemp("", dirPrefix); err != nil {
		return err
	}
	// FRR's daemons, with a user of their own, must reach their files in it.
	if err := os.Chmod(l.dir, 0o755); err != nil {
		return err
	}
	if l.lock, err = lockDir(l.dir); err != nil {
		return err
	}
	if l.launcher, err = newLauncher(); err != nil {
		return err
	}
	if err := l.makeSwitch(); err != nil {
		return err
	}
	// A few at a time: they wait for the kernel more than for a processor.
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	g.Go(l.makeRouter)
	for i := range l.Nodes {
		g.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			n, err := l.makeNode(i + 1)
			l.Nodes[i] = n
			return err
		})
	}
	return g.Wait()
}

// Dir returns the lab's directory, removed by Close.
func (l *Lab) Dir() string { return l.dir }

// Node returns the node of that number, from 1.
func (l *Lab) Node(n int) *Node { return l.Nodes[n-1] }

// Close ends every process and removes everything. It may be called twice.
func (l *Lab) Close() error {
	var err error
	l.closed.Do(func() {
		l.mu.Lock()
		hosts := l.hosts
		l.mu.Unlock()
		var g errgroup.Group
		for _, h := range hosts {
			g.Go(h.close)
		}
		err = g.Wait()
		if l.launcher != nil {
			l.launcher.close()
		}
		if l.dir != "" {
			err = errors.Join(err, os.RemoveAll(l.dir))
		}
		if l.lock != nil {
			_ = l.lock.Close()
		}
	})
	return err
}

// lockDir marks a lab's directory as in use for as long as this process lives.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

// sweep removes the directories of labs whose process was killed: files are the
// one thing that the kernel does not clean up for us. A lab that is just being
// made may have no lock yet, so young ones stay.
func sweep() {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !strings.HasPrefix(e.Name(), dirPrefix) || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		dir := filepath.Join(os.TempDir(), e.Name())
		f, err := os.Open(filepath.Join(dir, "lock"))
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = f.Close()
	}
}

// Eventually calls check every 20 ms until it returns nil or ctx ends, and then
// returns what it last said.
func Eventually(ctx context.Context, check func() error) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-ticker.C:
		}
	}
}
