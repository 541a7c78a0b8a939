package lab

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// launcher forks every child of a lab from one operating-system thread. The
// kernel sends a child its death signal when the *thread* that forked it ends,
// not the process, and Go ends idle threads as it likes; so this one is locked
// and lives as long as the lab.
type launcher struct {
	home int // the namespace the thread returns to, so that it holds no other
	mu   sync.RWMutex
	work chan func()
	shut bool
	done chan struct{}
}

func newLauncher() (*launcher, error) {
	home, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open own network namespace: %w", err)
	}
	l := &launcher{home: home, work: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for f := range l.work {
			f()
		}
	}()
	return l, nil
}

// start starts cmd in the namespace ns. The child leads a process group of its
// own, so that a Ctrl-C on the terminal reaches only us, and dies with us.
func (l *launcher) start(ns int, cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL

	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.shut {
		return os.ErrClosed
	}
	result := make(chan error, 1)
	l.work <- func() {
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("enter namespace: %w", err)
			return
		}
		err := cmd.Start()
		if back := unix.Setns(l.home, unix.CLONE_NEWNET); err == nil && back != nil {
			err = fmt.Errorf("leave namespace: %w", back)
		}
		result <- err
	}
	return <-result
}

// close ends the thread, and with it whatever child still runs.
func (l *launcher) close() {
	l.mu.Lock()
	shut := l.shut
	l.shut = true
	l.mu.Unlock()
	if shut {
		return
	}
	close(l.work)
	<-l.done
	_ = unix.Close(l.home)
}

// A thread that was moved to a namespace ends with its goroutine, and so lets go
// of it; the process's first thread cannot end. Locked to the main goroutine, it
// is never lent to others.
func init() { runtime.LockOSThread() }
