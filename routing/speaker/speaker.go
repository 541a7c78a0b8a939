package speaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	speakerv1 "netclass.dev/proto/netclass/speaker/v1"
	"netclass.dev/routing"
)

// Config says how the speaker is run.
type Config struct {
	// Command makes the command of a new process; by default this executable
	// with the argument "speaker".
	Command func() *exec.Cmd
	// User is whom the process becomes where it may; by default the first of
	// netclassd and nobody that there is.
	User string
	// Notify is called, on any goroutine, when Sessions or Status may say
	// something new. It must not block.
	Notify func()
	Log    *slog.Logger
}

// ErrDown says that there is no speaker process at the moment. What was wanted
// is kept and given to the next one.
var ErrDown = errors.New("the speaker is down")

// Speaker is a speaker process and its successors.
type Speaker struct {
	cfg Config

	mu   sync.Mutex
	want *speakerv1.Speak // nil: no process
	// neighbors are those of want, in its order.
	neighbors  []routing.Neighbor
	quarantine quarantine
	seq        uint64        // of want
	acked      uint64        // newest order carried out
	ackErrs    []string      // by it
	acks       chan struct{} // closed and replaced at each acknowledgement, death and stop
	child      *child        // nil: none runs
	super      *supervisor   // nil: none is to run
	state      sessions
	condition  *condition // as the process last said; nil: nothing yet
	status     routing.SpeakerStatus
	// stale is set once a process has run: the kernel has kept our routes, so
	// its successor is a restarting speaker.
	stale bool
}

// New returns a speaker. No process runs until Set wants one.
func New(cfg Config) *Speaker {
	if cfg.Command == nil {
		cfg.Command = func() *exec.Cmd { return exec.Command("/proc/self/exe", "speaker") }
	}
	if cfg.Notify == nil {
		cfg.Notify = func() {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Speaker{cfg: cfg, acks: make(chan struct{}), state: newSessions(), quarantine: make(quarantine)}
}

// Set makes want what the speaker does; nil ends it, with CEASE to its peers.
// It returns once the process has carried it out, with what could not be done,
// or when there is no process (ErrDown) or ctx ends; the wanted state is kept
// all the same. A state that is wanted and carried out already sends nothing.
func (s *Speaker) Set(ctx context.Context, want *routing.Speak) error {
	if want == nil {
		return s.Close(true)
	}
	m := speakerv1.FromSpeak(want)
	s.mu.Lock()
	if s.want != nil {
		m.Restarting = s.want.GetRestarting() // a speaker's first order only
	}
	if s.want == nil || !proto.Equal(s.want, m) {
		s.seq++
		s.want, s.neighbors = m, slices.Clone(want.Neighbors)
		s.state.want(want.Neighbors)
		if s.super == nil {
			s.status = routing.SpeakerStatus{Wanted: true, Restarts: s.status.Restarts, LastExit: s.status.LastExit}
			s.super = s.supervise()
		} else if s.child != nil {
			s.child.order(s.orderLocked())
		}
	}
	seq := s.seq
	s.mu.Unlock()
	return s.await(ctx, seq)
}

// orderLocked is the newest order.
func (s *Speaker) orderLocked() *speakerv1.Order {
	m := s.quarantine.filter(s.want, s.neighbors, time.Now())
	if s.stale && !m.GetRestarting() {
		m = proto.CloneOf(m)
		m.Restarting = true
	}
	return &speakerv1.Order{Sequence: s.seq, Order: &speakerv1.Order_Speak{Speak: m}}
}

// await waits until order seq or a later one has been carried out.
func (s *Speaker) await(ctx context.Context, seq uint64) error {
	for {
		s.mu.Lock()
		acked, errs, wait := s.acked, s.ackErrs, s.acks
		down := s.super == nil || s.super.waiting
		exit := s.status.LastExit
		s.mu.Unlock()
		switch {
		case acked >= seq && len(errs) > 0:
			return fmt.Errorf("speaker: %s", joinErrors(errs))
		case acked >= seq:
			return nil
		case down && exit != "":
			return fmt.Errorf("%w: %s", ErrDown, exit)
		case down:
			return ErrDown
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the speaker: %w", ctx.Err())
		case <-wait:
		}
	}
}

// wakeLocked wakes whoever waits in await.
func (s *Speaker) wakeLocked() {
	close(s.acks)
	s.acks = make(chan struct{})
}

// Sessions returns the wanted sessions as last reported. When the process has
// died none is Established and none has paths.
func (s *Speaker) Sessions() []routing.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.list()
}

// Status returns how the process stands.
func (s *Speaker) Status() routing.SpeakerStatus {
	s.mu.Lock()
	st := s.status
	if s.condition != nil {
		st.Errors = s.condition.texts()
	}
	st.Confirmed = s.child != nil && s.acked >= s.seq
	s.mu.Unlock()
	return st
}

// ceaseWait bounds how long the process may take to send its CEASE, endWait how
// long to end once it is killed or, where it may not be, its input has ended.
const (
	ceaseWait = time.Second
	endWait   = 2 * time.Second
)

// Close ends the process: with a CEASE to every peer, or without a word, so
// that peers which know graceful restart keep our routes until the next one. A
// process that does not end, as the kernel is busy with it, is an error; Status
// goes on naming it until it has.
func (s *Speaker) Close(cease bool) error {
	s.mu.Lock()
	super, child := s.super, s.child
	s.super, s.want = nil, nil
	s.seq++
	if super != nil {
		close(super.stop)
	}
	if child != nil && cease {
		child.order(&speakerv1.Order{Sequence: s.seq, Order: &speakerv1.Order_Stop{Stop: &speakerv1.Stop{}}})
	}
	s.stale = false
	s.condition = nil
	s.wakeLocked()
	s.mu.Unlock()
	if super == nil {
		return nil
	}
	if cease {
		select {
		case <-super.done:
		case <-time.After(ceaseWait):
		}
	}
	super.kill()
	var err error
	select {
	case <-super.done:
	case <-time.After(endWait):
		err = fmt.Errorf("end the speaker: the process is still there after %s", endWait)
	}
	s.mu.Lock()
	s.state = newSessions()
	s.status = routing.SpeakerStatus{Restarts: s.status.Restarts, LastExit: s.status.LastExit}
	if err != nil && s.child != nil {
		s.status.PID = s.child.cmd.Process.Pid
	}
	s.mu.Unlock()
	s.cfg.Notify()
	return err
}
