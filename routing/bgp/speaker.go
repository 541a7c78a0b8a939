package bgp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"time"

	"github.com/osrg/gobgp/v3/pkg/server"

	speakerv1 "netclass.dev/proto/netclass/speaker/v1"
	"netclass.dev/routing"
)

const (
	// coalesce is how long news are collected before we look.
	coalesce = 10 * time.Millisecond
	// settle is how long nothing may happen until memory is given back.
	settle = 5 * time.Second
)

var errStopped = errors.New("ordered to stop")

// speaker is the one goroutine that owns GoBGP. Calls to GoBGP wait for their
// turn behind its processing of UPDATEs, however long that takes.
type speaker struct {
	conn  net.Conn
	watch *watcher
	bgp   *server.BgpServer // nil until the first order

	begun     time.Time
	lines     lines
	dialer    *dialer
	want      *routing.Speak
	door      *door // nil until the first order
	loc       originated
	sessions  map[string]*session // by the neighbour's address, as GoBGP prints it
	renewing  bool
	relisten  bool                 // a session has changed: its link may be another by now
	unsentAt  time.Time            // when what may not have left is looked at; zero: all has
	condition *speakerv1.Condition // as last told
}

func newSpeaker(conn net.Conn) *speaker {
	s := &speaker{conn: conn, watch: newWatcher(), begun: time.Now(), sessions: make(map[string]*session)}
	s.dialer = newDialer(&s.lines, func(addr string, err error) {
		s.watch.put(happening{addr: addr, kind: dialFailed, text: err.Error()})
	})
	return s
}

func (s *speaker) run(orders <-chan *speakerv1.Order, failed <-chan error) error {
	look := time.NewTimer(time.Hour)
	look.Stop()
	due := time.NewTimer(time.Hour)
	quiet := time.NewTimer(settle)
	pause := coalesce
	pending := false
	for {
		select {
		case err := <-failed:
			return err
		case o := <-orders:
			if err := s.carryOut(o); err != nil {
				if errors.Is(err, errStopped) {
					return nil
				}
				return err
			}
			quiet.Reset(settle)
		case <-s.watch.wake:
			if !pending {
				pending = true
				look.Reset(pause)
			}
			continue
		case <-look.C:
			pending = false
			begun := time.Now()
			s.digest(begun)
			// Never spend more than a quarter of the time on looking.
			pause = min(max(coalesce, 3*time.Since(begun)), time.Second)
			quiet.Reset(settle)
		case <-due.C:
		case <-quiet.C:
			debug.FreeOSMemory()
			continue
		}
		next, err := s.tend(time.Now())
		if err != nil {
			return err
		}
		due.Reset(time.Until(next))
	}
}

// carryOut does what an order says and acknowledges it.
func (s *speaker) carryOut(o *speakerv1.Order) error {
	if o.GetStop() != nil {
		if s.bgp != nil {
			s.bgp.Stop() // with CEASE
		}
		return errStopped
	}
	want, err := speakerv1.ToSpeak(o.GetSpeak())
	if err != nil {
		return fmt.Errorf("order %d: %w", o.GetSequence(), err)
	}
	if s.renewing {
		return nil // the next process gets the order
	}
	var errs []string
	if s.bgp == nil {
		errs, err = s.start(want)
		if err != nil {
			return err
		}
	} else if reason := s.renewReason(want); reason != "" {
		return s.renew(reason)
	} else {
		errs = s.reconcile(want)
	}
	if err := s.watchUnsent(time.Now()); err != nil {
		return err
	}
	return s.tell(&speakerv1.Report{Report: &speakerv1.Report_Acknowledge{
		Acknowledge: &speakerv1.Acknowledge{Sequence: o.GetSequence(), Errors: errs},
	}})
}

// renew asks the daemon for a new process in this one's place.
func (s *speaker) renew(reason string) error {
	s.renewing = true
	return s.tell(&speakerv1.Report{Report: &speakerv1.Report_Renew{Renew: &speakerv1.Renew{Reason: reason}}})
}

// renewReason says what in the new order GoBGP cannot change while it runs.
func (s *speaker) renewReason(want *routing.Speak) string {
	switch {
	case want.ASN != s.want.ASN:
		return "AS number changed"
	case want.RouterID != s.want.RouterID:
		return "router ID changed"
	case want.Port != s.want.Port:
		return "port changed"
	}
	return ""
}

// tend does what time has brought due, tells the daemon what has changed, and
// returns when to come back at the latest.
func (s *speaker) tend(now time.Time) (time.Time, error) {
	next := now.Add(time.Hour)
	soonest := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	if s.bgp == nil || s.renewing {
		return next, nil
	}
	for _, p := range s.sessions {
		soonest(s.tendSession(p, now))
	}
	if r := s.door.retryAt; s.relisten || !r.IsZero() && !now.Before(r) {
		s.relisten = false
		s.door.listen(s.want.Listen, s.want.Port, now)
	}
	soonest(s.door.retryAt)
	if err := s.watchUnsent(now); err != nil {
		return next, err
	}
	soonest(s.unsentAt)
	for _, p := range s.sessions {
		if !p.report {
			continue
		}
		p.report = false
		for _, r := range speakerv1.FromSession(&p.Session) {
			if err := s.tell(r); err != nil {
				return next, err
			}
		}
	}
	return next, s.tellCondition()
}

// tellCondition tells the daemon what is not as it should be, when that has
// changed.
func (s *speaker) tellCondition() error {
	c := &speakerv1.Condition{}
	for _, u := range s.door.unbound {
		if u.busy {
			c.Busy = append(c.Busy, &speakerv1.Listen{Address: u.Addr.AsSlice(), Link: u.Link})
		} else {
			c.Errors = append(c.Errors, u.text)
		}
	}
	for _, p := range s.sessions {
		if p.failed != "" {
			c.Errors = append(c.Errors, fmt.Sprintf("peer %s: %s", p.Key, p.failed))
		}
	}
	slices.Sort(c.Errors)
	if sameCondition(c, s.condition) {
		return nil
	}
	s.condition = c
	return s.tell(&speakerv1.Report{Report: &speakerv1.Report_Condition{Condition: c}})
}

func sameCondition(a, b *speakerv1.Condition) bool {
	return slices.Equal(a.GetErrors(), b.GetErrors()) &&
		slices.EqualFunc(a.GetBusy(), b.GetBusy(), func(x, y *speakerv1.Listen) bool {
			return string(x.GetAddress()) == string(y.GetAddress()) && x.GetLink() == y.GetLink()
		})
}

func (s *speaker) tell(r *speakerv1.Report) error {
	if err := speakerv1.WriteReport(s.conn, r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// background is what GoBGP's calls take and ignore.
var background = context.Background()
