package server

import (
	"testing"
	"time"
)

func TestClockSet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ wall, elapsed, want time.Duration }{
		{time.Hour, time.Hour, 0},
		{time.Hour + 300*time.Millisecond, time.Hour, 0}, // hastened by NTP
		{time.Hour - 300*time.Millisecond, time.Hour, 0},
		{20000 * 24 * time.Hour, time.Minute, 20000*24*time.Hour - time.Minute}, // it had no battery
		{-time.Hour, time.Minute, -time.Hour - time.Minute},                     // set back
		{90 * time.Minute, 30*time.Minute + 400*time.Millisecond, time.Hour},    // whole seconds, whatever NTP does later
	} {
		if got := clockSet(c.wall, c.elapsed); got != c.want {
			t.Errorf("clockSet(%v, %v) is %v, want %v", c.wall, c.elapsed, got, c.want)
		}
	}
}
