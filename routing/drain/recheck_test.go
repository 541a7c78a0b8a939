package drain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestSafeOnceWon: what was safe when the drain began, and is not any more once the
// lock has been won, is not done: the lock is freed, and nothing has been taken out.
func TestSafeOnceWon(t *testing.T) {
	for kube, want := range map[bool]string{true: "k8s-2 is protected by drain.protect.selector, and not Ready", false: "no BGP session with k8s-2"} {
		for _, force := range []bool{false, true} {
			bubble(t, 2, kube, func(t *testing.T, w *world) {
				n := w.nodes[0]
				n.engine.hook(func(order routing.Draining) {
					if order.Step != routing.DrainClaim {
						return
					}
					n.engine.alter(func(s *routing.State) {
						if kube {
							s.Inventory.Node("k8s-2").NotReady = true
						} else {
							s.Peers[0].Session.State = routing.Active
						}
					})
				})
				err := n.drain(routing.DrainRequest{Force: force}).wait(t, limit)
				if force {
					if err != nil {
						t.Errorf("kube %v: by force: %v", kube, err)
					}
					return
				}
				var refused *routing.Refused
				if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
					t.Errorf("kube %v: it is told %v, want %q", kube, err, want)
				}
				time.Sleep(time.Second)
				for _, order := range n.engine.orders {
					if order.Step > routing.DrainClaim {
						t.Errorf("kube %v: it was taken out as far as %q", kube, order.Step)
					}
				}
				n.free()
			})
		}
	}
}

// TestAnnouncerJustBack: one that has only just told that it announces again is waited
// for for a moment, with either lock; one that does not announce is not, for longer.
func TestAnnouncerJustBack(t *testing.T) {
	for _, kube := range []bool{true, false} {
		for _, back := range []bool{true, false} {
			bubble(t, 2, kube, func(t *testing.T, w *world) {
				n := w.nodes[0]
				notes := func(text routing.Notes) {
					n.engine.alter(func(s *routing.State) { s.Peers[0].Notes = text })
				}
				notes("0")
				router := routing.NoteRouter(routing.SessionKey{Peer: "udm", Family: routing.IPv6})
				if back {
					time.AfterFunc(300*time.Millisecond, func() { notes(routing.Notes(fmt.Sprint("0 ", router))) })
				}
				begin := time.Now()
				err := n.drain(routing.DrainRequest{}).wait(t, limit)
				if back && err != nil {
					t.Errorf("kube %v: it is told %v", kube, err)
				}
				var refused *routing.Refused
				if !back && (!errors.As(err, &refused) || time.Since(begin) > 2*time.Second) {
					t.Errorf("kube %v: after %v it is told %v", kube, time.Since(begin), err)
				}
			})
		}
	}
}
