package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// readyWithin bounds how long a start or a reload waits for what may never come,
// such as a link that this node lacks: the node must boot. It is longer than a
// mesh session's restart time, after which a peer that is down is no longer
// waited for.
const readyWithin = 15 * time.Second

// tellAgain is how soon systemd is told again what it has not taken.
const tellAgain = 5 * time.Second

// due is what systemd waits for.
type due int

const (
	nothingDue due = iota
	startDue       // that we are ready
	readingDue     // that a configuration has been read
	reloadDue      // that it is in force
)

// notifier tells systemd how the daemon stands (sd_notify(3)). It is driven by the
// engine's passes alone, so that a loop that hangs is not called alive.
type notifier struct {
	log      *slog.Logger
	send     func(string) error // one datagram, at once or not; nil: nobody is to be told
	state    func() *routing.State
	watchdog time.Duration // systemd's patience; 0: none

	mu     sync.Mutex
	due    due
	since  time.Time // of due; a pass that began earlier does not count
	status string    // as last told
	fedAt  time.Time
	untold bool // the last datagram has not been taken
}

// init has the notifier speak to the systemd that has started us, if one has.
func (n *notifier) init(log *slog.Logger, state func() *routing.State) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	n.log, n.state, n.due, n.since = log, state, startDue, time.Now()
	n.send = func(text string) error { return sendTo(socket, text) }
	var err error
	if n.watchdog, err = sd.SdWatchdogEnabled(false); err != nil {
		log.Warn("watchdog not used", "error", err)
	}
}

// sendTo sends a datagram to systemd's socket. It never waits: routes do not wait
// for a systemd that hangs, and a writer that waits for a full queue may never be
// told that there is room again.
func sendTo(socket, text string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	// A name that begins with @ is an abstract one.
	return unix.Sendto(fd, []byte(text), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: socket})
}

// say sends assignments to systemd, and reports whether it has taken them. That it
// takes none is logged once.
func (n *notifier) say(assignments ...string) (taken bool) {
	if n.send == nil || len(assignments) == 0 {
		return true
	}
	err := n.send(strings.Join(assignments, "\n"))
	if err != nil && !n.untold {
		n.log.Warn("systemd not told", "error", err)
	}
	n.untold = err != nil
	return err == nil
}

// passed is called after every pass. It returns how long the next may be away, so
// that the watchdog is fed in time even if one takes long; 0: any time.
func (n *notifier) passed() time.Duration {
	if n.send == nil {
		return 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	s := n.state()
	waits := waitsFor(s)
	feed, ready, status := n.watchdog > 0 && now.Sub(n.fedAt) >= n.watchdog/6, n.done(s, waits), "STATUS="+statusText(s, waits)
	var say []string
	if feed {
		say = append(say, sd.SdNotifyWatchdog)
	}
	if ready {
		say = append(say, sd.SdNotifyReady)
	}
	if status != n.status {
		say = append(say, status)
	}
	if !n.say(say...) {
		return tellAgain // all of it, after the next pass
	}
	n.status = status
	if feed {
		n.fedAt = now
	}
	if ready {
		n.due = nothingDue
	}
	within := n.watchdog / 3
	if n.due != nothingDue {
		left := max(readyWithin-time.Since(n.since), time.Millisecond)
		if within == 0 || left < within {
			within = left
		}
	}
	return within
}

// done reports whether what is due has come: a start that we are ready, a reload
// that the kernel is as the new configuration wants it.
func (n *notifier) done(s *routing.State, waits string) bool {
	switch {
	case n.due == nothingDue, n.due == readingDue, !s.Pass.At.After(n.since):
		return false
	case time.Since(n.since) >= readyWithin:
		return true
	case n.due == reloadDue:
		return s.Pass.Error == "" && len(s.Pending) == 0
	}
	return waits == ""
}

// reloading says that the configuration is being read. It is followed by
// reloaded.
func (n *notifier) reloading() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.due == startDue {
		return // READY is yet to come anyway
	}
	n.due = readingDue
	var now unix.Timespec
	// systemd takes a READY that was sent before the reload for none of its.
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return
	}
	n.say(sd.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
}

// reloaded says that it has been read: the pass that begins next is its first.
func (n *notifier) reloaded() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.due == readingDue {
		n.due, n.since = reloadDue, time.Now()
	}
}

// stopping says that we end by ourselves or as told.
func (n *notifier) stopping(why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.status = "STATUS=" + why
	n.say(sd.SdNotifyStopping, n.status)
}

// waitsFor says what a state has yet to come to before the daemon is ready; empty:
// nothing. Ready is: the configuration's every input has been read, the kernel is
// as planned, and no class waits. A daemon without configuration is.
func waitsFor(s *routing.State) string {
	if s.Config.Config == nil || s.Config.Config.Idle() {
		return ""
	}
	if s.Pass.Error != "" {
		return s.Pass.Error
	}
	if s.Plan.Hold != "" {
		return s.Plan.Hold
	}
	for i := range s.Plan.Classes {
		if c := &s.Plan.Classes[i]; c.Health == routing.Waiting || c.Health == routing.Degraded {
			return withReason("class "+c.Class.Name, c.Reason)
		}
	}
	for i := range s.Plan.Tables {
		if t := &s.Plan.Tables[i]; t.Health == routing.Waiting {
			return withReason("table "+t.Name, t.Reason)
		}
	}
	if n := len(s.Pending); n > 0 {
		return "the kernel lacks " + count(n, "change")
	}
	if !s.Pass.Synced {
		return "what peers have to say"
	}
	return ""
}

func withReason(what, reason string) string {
	if reason == "" {
		return what
	}
	return what + ": " + reason
}

// statusText is what `systemctl status` shows, in one line.
func statusText(s *routing.State, waits string) string {
	var text string
	switch c := s.Config.Config; {
	case s.Config.Error != "":
		text = "the newest configuration is refused: " + s.Config.Error
	case c == nil || c.Idle():
		text = "idle until there is a configuration"
	case waits != "":
		text = "waiting for " + waits
	default:
		up := 0
		for i := range s.Peers {
			if s.Peers[i].Session.State == routing.Established {
				up++
			}
		}
		text = fmt.Sprintf("%s: %s, %d of %s up", s.Health, count(len(s.Plan.Classes), "class"), up, count(len(s.Peers), "session"))
	}
	const most = 200
	text = strings.Join(strings.Fields(text), " ") // a line break would begin another assignment
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
