package speaker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	speakerv1 "netclass.dev/proto/netclass/speaker/v1"
)

// ackWait is how long a process may take over an order until it is taken to
// hang. Orders wait behind the UPDATEs of every peer.
const ackWait = 30 * time.Second

// child is one process.
type child struct {
	cmd  *exec.Cmd
	conn net.Conn

	mu     sync.Mutex
	next   *speakerv1.Order // newest order not yet written
	wake   chan struct{}
	watch  *time.Timer // ends it when an order is not acknowledged
	fault  error       // why we ended it
	renew  string      // why it asks for a successor
	log    tail
	exited chan struct{}
}

// exit is how a process ended.
type exit struct {
	err     error
	renewed string
	culprit string // address of the neighbour whose message crashed it
}

func (e exit) String() string {
	if e.err == nil {
		return "exit status 0"
	}
	return e.err.Error()
}

// life runs one process to its end, on the calling goroutine's thread.
func (s *Speaker) life(v *supervisor) exit {
	c, err := s.start()
	if err != nil {
		return exit{err: fmt.Errorf("start the speaker: %w", err)}
	}
	s.mu.Lock()
	select {
	case <-v.stop:
		c.kill(nil)
	default:
		s.child = c
		s.status.PID, s.status.Since = c.cmd.Process.Pid, time.Now()
		c.order(s.orderLocked())
	}
	s.mu.Unlock()
	s.cfg.Notify()

	var readers sync.WaitGroup
	readers.Go(func() { s.read(c) })
	readers.Go(c.write)
	go func() {
		select {
		case <-v.killed:
			c.kill(nil)
		case <-c.exited:
		}
	}()
	err = c.cmd.Wait() // and for all of its stderr
	close(c.exited)
	c.conn.Close()
	readers.Wait()
	s.gone(v, c)
	return c.exit(err)
}

// gone notes that a process has ended. When Close no longer waits for it, it may
// have a successor.
func (s *Speaker) gone(v *supervisor, c *child) {
	s.mu.Lock()
	if s.child == c {
		s.child = nil
	}
	late := s.super != v && s.status.PID == c.cmd.Process.Pid
	if late {
		s.status.PID = 0
	}
	s.mu.Unlock()
	if late {
		s.cfg.Notify()
	}
}

// exit says how the process ended, which Wait has returned with err.
func (c *child) exit(err error) exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch.Stop()
	if c.renew != "" {
		return exit{err: err, renewed: c.renew}
	}
	if c.fault != nil {
		return exit{err: c.fault}
	}
	if last := c.log.reason(); err != nil && last != "" {
		err = fmt.Errorf("%w: %s", err, last)
	}
	return exit{err: err, culprit: c.log.culprit()}
}

// start starts a process. Its end of the socket pair is its descriptor 3.
func (s *Speaker) start() (*child, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "speaker"), os.NewFile(uintptr(fds[1]), "daemon")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: s.cfg.Command(), conn: conn, wake: make(chan struct{}, 1), exited: make(chan struct{})}
	c.log.sink = s.cfg.Log
	c.cmd.ExtraFiles = append([]*os.File{theirs}, c.cmd.ExtraFiles...)
	c.cmd.Stderr = &c.log
	if c.cmd.Env == nil {
		c.cmd.Env = []string{}
	}
	c.cmd.Env = append(c.cmd.Env, userEnv+"="+userOf(s.cfg.User), "GODEBUG=tracebacklabels=1")
	if c.cmd.SysProcAttr == nil {
		c.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// A terminal's Ctrl-C is for the daemon, which decides how it ends.
	c.cmd.SysProcAttr.Setpgid = true
	c.watch = time.AfterFunc(ackWait, func() { c.kill(errors.New("an order was not acknowledged")) })
	c.watch.Stop()
	if err := c.cmd.Start(); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// kill ends the process; why is nil when that is wanted.
func (c *child) kill(why error) {
	c.mu.Lock()
	if c.fault == nil {
		c.fault = why
	}
	c.mu.Unlock()
	// It may have ended. Where it has become another user, and we have no CAP_KILL,
	// the end of its input must do; without its daemon it ends in any case.
	if errors.Is(c.cmd.Process.Kill(), syscall.EPERM) {
		c.conn.Close()
	}
}

// order gives the process an order. Only the newest counts.
func (c *child) order(o *speakerv1.Order) {
	c.mu.Lock()
	c.next = o
	c.watch.Reset(ackWait)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write writes orders until the process has ended.
func (c *child) write() {
	for {
		select {
		case <-c.exited:
			return
		case <-c.wake:
		}
		c.mu.Lock()
		o := c.next
		c.next = nil
		c.mu.Unlock()
		if o == nil {
			continue
		}
		if err := speakerv1.WriteOrder(c.conn, o); err != nil {
			return // it has ended, or will at the end of its input
		}
	}
}

// read takes in reports until the process has ended. What makes no sense ends
// it.
func (s *Speaker) read(c *child) {
	r := bufio.NewReaderSize(c.conn, 64<<10)
	var parts speakerv1.Assembler
	for {
		m, err := speakerv1.ReadReport(r)
		if err == nil {
			err = s.take(c, &parts, m)
		}
		if err != nil {
			if !closed(err) {
				c.kill(fmt.Errorf("the speaker sent garbage: %w", err))
			}
			return
		}
	}
}

func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET)
}

// take takes in one report.
func (s *Speaker) take(c *child, parts *speakerv1.Assembler, m *speakerv1.Report) error {
	switch m := m.GetReport().(type) {
	case *speakerv1.Report_Acknowledge:
		return s.acknowledged(c, m.Acknowledge)
	case *speakerv1.Report_Session:
		session, err := parts.Add(m.Session)
		if session == nil {
			return err
		}
		s.mu.Lock()
		news := s.child == c && s.state.report(session)
		s.mu.Unlock()
		if news {
			s.cfg.Notify()
		}
	case *speakerv1.Report_Unsent:
		counts, err := speakerv1.ToUnsent(m.Unsent)
		if err != nil {
			return err
		}
		s.mu.Lock()
		news := s.child == c && s.state.unsent(counts)
		s.mu.Unlock()
		if news {
			s.cfg.Notify()
		}
	case *speakerv1.Report_Condition:
		said, err := conditionFrom(m.Condition, s.port())
		if err != nil {
			return err
		}
		said.identify(c.cmd.Process.Pid)
		s.mu.Lock()
		if s.child == c {
			s.condition = &said
		}
		s.mu.Unlock()
		s.cfg.Notify()
		s.watchHolders(c, &said)
	case *speakerv1.Report_Renew:
		c.mu.Lock()
		c.renew = m.Renew.GetReason()
		c.mu.Unlock()
		c.kill(nil)
	}
	return nil
}

func (s *Speaker) acknowledged(c *child, m *speakerv1.Acknowledge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != c {
		return nil
	}
	if m.GetSequence() > s.seq || m.GetSequence() < s.acked {
		return fmt.Errorf("acknowledgement of order %d, the newest is %d", m.GetSequence(), s.seq)
	}
	s.acked, s.ackErrs = m.GetSequence(), m.GetErrors()
	if s.acked == s.seq {
		c.mu.Lock()
		c.watch.Stop()
		c.mu.Unlock()
	}
	s.wakeLocked()
	return nil
}

func (s *Speaker) port() uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint16(s.want.GetPort())
}
