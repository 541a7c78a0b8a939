package engine_test

import (
	"net/netip"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestGatewayGone: a gateway that does not answer is told of, whether a session with it
// has ended or the kernel has asked it in vain. Its default stays.
func TestGatewayGone(t *testing.T) {
	gateway := netip.MustParseAddr("10.47.0.254")
	const lost = "gateway 10.47.0.254 does not answer on ingress0: what leaves by the default is lost"
	for name, test := range map[string]struct {
		replace []string
		notice  func(r *rig)
		within  time.Duration
	}{
		"by its session": {notice: func(r *rig) { r.down("udm", v4, routing.CauseHoldTimer) }, within: 12 * time.Second},
		"by the kernel":  {notice: func(*rig) {}, within: 45 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.converge()
				r.kernel.taken()
				_, before := r.kernel.count()
				r.wait(time.Minute)
				if _, probes := r.kernel.count(); probes > before {
					t.Errorf("%d probes while nothing speaks against it", probes-before)
				}
				r.kernel.die(gateway, true)
				test.notice(r)
				r.wait(test.within)
				if c := r.condition("table/pods", "GatewaySilent"); c == nil || c.Message != lost {
					t.Errorf("condition %v", c)
				}
				r.wantClass("world-pod", routing.Waiting, lost)
				r.wantClass("pod-pod", routing.Ready, "")
				if got := opsOf(r.kernel.taken()); len(got) > 0 {
					t.Errorf("changed:\n%s", textOf(got))
				}
				r.kernel.die(gateway, false)
				r.wait(8 * time.Second)
				if c := r.condition("table/pods", "GatewaySilent"); c != nil {
					t.Errorf("it is back: %v", c)
				}
			})
		})
	}
}

// TestGatewayAlone: of a router whose session is down and who answers nothing is said
// of the way, and it is asked seldom.
func TestGatewayAlone(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		_, before := r.kernel.count()
		r.down("udm", v4, routing.CauseConnection)
		r.wait(5 * time.Minute)
		if c := r.condition("table/pods", "GatewaySilent"); c != nil {
			t.Error(c)
		}
		if _, probes := r.kernel.count(); probes == before || probes > before+20 {
			t.Errorf("%d probes in 5 minutes", probes-before)
		}
		r.engine.Configure(&routing.Config{}, routing.ConfigStatus{}, nil)
		r.wait(time.Second)
	})
}
