// Package alarm wakes an idle process at little cost. A timer of Go's runtime
// wakes it twice: one thread at the exact time, which then looks about every 20
// microseconds, and another when its wait for events ends, which the kernel lets
// be late by a thousandth of its length. For half a minute that makes dozens of
// wakes. An alarm is an event itself.
package alarm

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Alarm is a timer for long waits.
type Alarm struct{ file *os.File }

// New returns an alarm that calls fire, on a goroutine of its own, each time it
// goes off. It is not set.
func New(fire func()) (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make alarm: %w", err)
	}
	a := &Alarm{file: os.NewFile(uintptr(fd), "alarm")}
	go func() {
		var count [8]byte
		for {
			if _, err := a.file.Read(count[:]); err != nil {
				return // closed
			}
			fire()
		}
	}()
	return a, nil
}

// In sets the alarm to go off once, after d, in the place of what was set.
func (a *Alarm) In(d time.Duration) error {
	// A zero value would unset it.
	return a.set(0, unix.ItimerSpec{Value: unix.NsecToTimespec(max(d, 1).Nanoseconds())})
}

// Every sets the alarm to go off at every multiple of d, in the place of what
// was set: all that are set to the same time go off together.
func (a *Alarm) Every(d time.Duration) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("set alarm: %w", err)
	}
	next := (now.Nano()/d.Nanoseconds() + 1) * d.Nanoseconds()
	return a.set(unix.TFD_TIMER_ABSTIME, unix.ItimerSpec{
		Value: unix.NsecToTimespec(next), Interval: unix.NsecToTimespec(d.Nanoseconds()),
	})
}

func (a *Alarm) set(flags int, to unix.ItimerSpec) error {
	conn, err := a.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("set alarm: %w", err)
	}
	if e := conn.Control(func(fd uintptr) { err = unix.TimerfdSettime(int(fd), flags, &to, nil) }); e != nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("set alarm: %w", err)
	}
	return nil
}

// Close ends the alarm.
func (a *Alarm) Close() error { return a.file.Close() }
