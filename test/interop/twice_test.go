package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// A second restart soon after the first: a peer drops at once what it has not
// heard anew since the first (RFC 4724 §4.2), so it is told as soon as the
// session is up.
func TestRestartTwice(t *testing.T) {
	for _, program := range []string{"BIRD", "FRR"} {
		for _, gap := range []time.Duration{30, 60, 100, 150, 250} {
			gap *= time.Millisecond
			t.Run(fmt.Sprintf("%s/%s", program, gap), func(t *testing.T) {
				l := newLAN(t)
				a, b := l.host(1), l.host(2)
				var has func(f routing.Family) func() string
				if program == "BIRD" {
					peer := b.bird(asn, birdPeer{to: a, asn: asn})
					has = func(f routing.Family) func() string { return peer.has(a.cidr(f), a.addr(f)) }
				} else {
					peer := b.frr(asn, frrPeer{to: a, asn: asn})
					has = func(f routing.Family) func() string { return peer.has(f, a.cidr(f), a.addr(f)) }
				}
				s := a.speaker()
				want := a.speak(b)
				set(t, s, want)
				eventually(t, 15*time.Second, up(s, 2))
				for _, f := range routing.Families {
					eventually(t, 3*time.Second, has(f))
				}
				time.Sleep(2 * restartPause)
				stop, lost := make(chan struct{}), make(chan string)
				go func() {
					var all []string
					for {
						select {
						case <-stop:
							lost <- strings.Join(all, "\n")
							return
						default:
						}
						for _, f := range routing.Families {
							if why := has(f)(); why != "" {
								all = append(all, why)
							}
						}
					}
				}()
				for range 2 {
					_ = s.Close(false)
					s = a.speaker()
					want.Restarting = true
					set(t, s, want)
					time.Sleep(gap)
				}
				eventually(t, 15*time.Second, up(s, 2))
				time.Sleep(2 * restartPause)
				close(stop)
				if all := <-lost; all != "" {
					t.Errorf("lost: %s", all[:min(len(all), 500)])
				}
			})
		}
	}
}

// restartPause is how long after a restart the End-of-RIB follows.
const restartPause = 150 * time.Millisecond
