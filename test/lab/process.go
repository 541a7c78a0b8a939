package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// stopPatience is how long Stop waits after SIGTERM. A daemon that needs more
// has hung.
const stopPatience = 5 * time.Second

// Process is a long-running program in a host's namespace.
type Process struct {
	Name string
	Host *Host
	Log  string // path of the file that takes its output

	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait, once done is closed
}

// Command says what to start.
type Command struct {
	Path string
	Args []string
	Env  []string // in addition to our own environment
	Name string   // names the log file; default: the last element of Path
	Dir  string   // working directory; default: the host's
	// Contain is for programs that change their user, which takes from them the
	// signal that ends them with us: a shell keeps it for them, as the first
	// process of a process-number namespace that ends when the shell does.
	Contain bool
}

// contain passes SIGTERM on. It comes first, because a first process without a
// handler ignores the signal.
const contain = `trap 'kill -TERM $!' TERM; "$@" & while kill -0 $! 2>/dev/null; do wait $!; done`

// Start starts a program in the namespace. Its output is appended to a log file
// in the host's directory. It ends with the lab at the latest.
func (h *Host) Start(c Command) (*Process, error) {
	name := c.Name
	if name == "" {
		name = baseName(c.Path)
	}
	log, err := os.OpenFile(h.File(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s on %s: %w", name, h.Name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own

	cmd := exec.Command(c.Path, c.Args...)
	if c.Contain {
		cmd = exec.Command("/bin/sh", append([]string{"-c", contain, "sh", c.Path}, c.Args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	}
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Dir = c.Dir
	if cmd.Dir == "" {
		cmd.Dir = h.Dir()
	}
	cmd.Stdout, cmd.Stderr = log, log
	p := &Process{Name: name, Host: h, Log: log.Name(), cmd: cmd, done: make(chan struct{})}

	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fmt.Errorf("start %s on %s: %w", name, h.Name, os.ErrClosed)
	}
	if err := h.lab.launcher.start(h.ns.Fd(), cmd); err != nil {
		return nil, fmt.Errorf("start %s on %s: %w", name, h.Name, err)
	}
	h.processes[p] = struct{}{}
	go func() {
		p.err = cmd.Wait()
		h.mu.Lock()
		delete(h.processes, p)
		h.mu.Unlock()
		close(p.done)
	}()
	return p, nil
}

// PID returns the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends a signal; to a process that has ended it is nothing.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s on %s: %w", p.Name, p.Host.Name, err)
	}
	return nil
}

// Stop sends SIGTERM and waits for the end. A process that does not end is
// killed, which is an error.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopPatience):
	}
	if err := p.Kill(); err != nil {
		return err
	}
	return fmt.Errorf("stop %s on %s: still running %v after SIGTERM; killed", p.Name, p.Host.Name, stopPatience)
}

// Kill sends SIGKILL and waits for the end.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Wait waits for the end and returns how it ended: nil for exit code 0.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("wait for %s on %s: %w", p.Name, p.Host.Name, ctx.Err())
	}
}

// LogTail returns the last lines of the process's output, for error messages.
func (p *Process) LogTail(lines int) string { return tail(p.Log, lines) }
