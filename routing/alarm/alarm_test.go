package alarm_test

import (
	"testing"
	"time"

	"netclass.dev/routing/alarm"
)

func TestAlarm(t *testing.T) {
	rang := make(chan time.Time, 100)
	a, err := alarm.New(func() { rang <- time.Now() })
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for _, err := range []error{a.In(time.Hour), a.In(20 * time.Millisecond)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if at := <-rang; at.Sub(start) < 20*time.Millisecond {
		t.Errorf("it went off after %v", at.Sub(start))
	}
	if err := a.Every(10 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	first := <-rang
	<-rang
	if third := <-rang; third.Sub(first) < 10*time.Millisecond {
		t.Errorf("three in %v", third.Sub(first))
	}
	if err := a.In(0); err != nil {
		t.Fatal(err)
	}
	<-rang
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.In(time.Millisecond); err == nil {
		t.Error("a closed alarm can be set")
	}
}
