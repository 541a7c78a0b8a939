package speaker

import (
	"runtime"
	"time"
)

const (
	// A process that dies is replaced at once this often in a minute; then
	// after a second, doubling.
	quickRestarts = 10
	quickWindow   = time.Minute
	firstDelay    = time.Second
	maxDelay      = 30 * time.Second
)

// backoff decides how long to wait before the next start.
type backoff struct {
	recent []time.Time // of deaths within the window
	delay  time.Duration
}

// next is called at each death, with how long the process had lived.
func (b *backoff) next(now time.Time, lived time.Duration) time.Duration {
	if lived >= quickWindow {
		b.recent, b.delay = nil, 0
	}
	for len(b.recent) > 0 && now.Sub(b.recent[0]) >= quickWindow {
		b.recent = b.recent[1:]
	}
	b.recent = append(b.recent, now)
	if b.delay == 0 && len(b.recent) <= quickRestarts {
		return 0
	}
	b.delay = min(max(2*b.delay, firstDelay), maxDelay)
	return b.delay
}

// supervisor keeps one process running.
type supervisor struct {
	s       *Speaker
	stop    chan struct{} // closed: no more
	killed  chan struct{} // closed: at once
	done    chan struct{} // closed: no process runs
	waiting bool          // for the next start; under s.mu
}

func (s *Speaker) supervise() *supervisor {
	v := &supervisor{s: s, stop: make(chan struct{}), killed: make(chan struct{}), done: make(chan struct{})}
	go v.run()
	return v
}

// kill ends the process without waiting for it. It is called once, after stop.
func (v *supervisor) kill() { close(v.killed) }

// run starts process after process. The thread that starts them stays until
// they have ended: their parent death signal comes when it exits.
func (v *supervisor) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(v.done)
	var crashes, renewals backoff
	for {
		begun := time.Now()
		exit := v.s.life(v)
		select {
		case <-v.stop:
			return
		default:
		}
		b := &crashes
		if exit.renewed != "" {
			b = &renewals // asked for, unless it asks again and again
		}
		delay := b.next(time.Now(), time.Since(begun))
		v.s.died(v, exit, delay)
		if delay == 0 {
			continue
		}
		t := time.NewTimer(delay)
		select {
		case <-v.stop:
			t.Stop()
			return
		case <-t.C:
		}
		v.s.mu.Lock()
		v.waiting = false
		v.s.mu.Unlock()
	}
}

// died notes the end of a process.
func (s *Speaker) died(v *supervisor, e exit, delay time.Duration) {
	s.mu.Lock()
	s.stale = true
	v.waiting = delay > 0
	s.state.lost(time.Now())
	s.condition = nil
	s.acked, s.ackErrs = 0, nil // the next has carried out nothing yet
	if e.culprit != "" {
		s.blameLocked(e.culprit, e.String(), time.Now())
	}
	s.status.PID, s.status.Since = 0, time.Now()
	if e.renewed == "" {
		s.status.Restarts++
		s.status.LastExit = e.String()
	}
	s.wakeLocked()
	s.mu.Unlock()
	if e.renewed != "" {
		s.cfg.Log.Info("speaker renewed", "reason", e.renewed)
	} else {
		s.cfg.Log.Warn("speaker died", "exit", e.String(), "again_in", delay)
	}
	s.cfg.Notify()
}
