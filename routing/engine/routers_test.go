package engine_test

import (
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestRouterAway: a router that there is no session with is told of once it has had
// the time to come up, with the reason, and the class that it serves is not Ready
// while none of a family is there.
func TestRouterAway(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*routing.Session)
		reason string
		want   string
	}{
		"nothing answers": {nil, "NoSession", "nothing answers at 10.47.0.254 on ingress0"},
		"refused": {
			func(s *routing.Session) { s.Detail = "OPEN Message Error/Bad Peer AS received" },
			"NoSession", "OPEN Message Error/Bad Peer AS received",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.speaker.away = true
				r.start(seedConfig(t))
				r.establish("k8s-2", "k8s-3")
				r.session("udm", v6, func(s *routing.Session) { s.State, s.EndOfRIB = routing.Established, true })
				if test.change != nil {
					r.session("udm", v4, test.change)
				}
				r.wait(comesUp - time.Second)
				if c := r.condition("peer/udm/ipv4", ""); c != nil || r.state().Health != routing.Ready {
					t.Errorf("while it may be coming up: health %s, %v", r.state().Health, c)
				}
				r.wait(2 * time.Second)
				c := r.condition("peer/udm/ipv4", test.reason)
				if c == nil || !strings.Contains(c.Message, test.want) {
					t.Errorf("condition %v, want %q", c, test.want)
				}
				if c := r.condition("peer/udm/ipv6", ""); c != nil {
					t.Errorf("the other family: %v", c)
				}
				if why := r.peer("udm", v4).Reason; why != test.want {
					t.Errorf("peer says %q", why)
				}
				r.wantClass("world-pod", routing.Waiting, "no ipv4 session with a router over ingress0: udm: "+test.want)
				if r.state().Health != routing.Waiting {
					t.Errorf("health %s", r.state().Health)
				}
				passes := r.state().Pass.Passes
				r.wait(10 * time.Second)
				if more := r.state().Pass.Passes - passes; more > 1 {
					t.Errorf("%d passes while nothing happens", more)
				}
				r.session("udm", v4, func(s *routing.Session) {
					s.State, s.Since, s.EndOfRIB, s.Detail = routing.Established, time.Now(), true, ""
				})
				r.wait(time.Second)
				r.wantClass("world-pod", routing.Ready, "")
				if c := r.condition("peer/udm/ipv4", ""); c != nil || r.state().Health != routing.Ready {
					t.Errorf("it is back: health %s, %v", r.state().Health, c)
				}
			})
		})
	}
}

// TestRouterLost: a session that ends is told of likewise. A second router keeps the
// class Ready.
func TestRouterLost(t *testing.T) {
	second := `  upstreams:
    - {name: second, link: ingress0, peerASN: 64514, address: {ipv4: 10.47.0.253, ipv6: "fd00:47::fd"}}
`
	bubble(t, func(t *testing.T, r *rig) {
		r.start(seedConfig(t, "  upstreams:\n", second))
		r.establish("k8s-2", "k8s-3")
		r.wait(time.Minute)
		if r.state().Health != routing.Ready {
			t.Fatalf("health %s, %v", r.state().Health, r.state().Conditions)
		}
		for _, name := range []string{"udm", "second"} {
			r.session(name, v4, func(s *routing.Session) {
				s.State, s.Since, s.Cause, s.EndOfRIB = routing.Idle, time.Now(), routing.CauseHoldTimer, false
			})
			r.wait(comesUp - time.Second)
			if c := r.condition("peer/"+name+"/ipv4", ""); c != nil {
				t.Errorf("%s may come back: %v", name, c)
			}
			r.wait(2 * time.Second)
			if c := r.condition("peer/"+name+"/ipv4", "SessionDown"); c == nil || c.Message != "hold timer expired" {
				t.Errorf("%s: %v", name, c)
			}
			if name == "udm" {
				r.wantClass("world-pod", routing.Ready, "")
			}
		}
		r.wantClass("world-pod", routing.Waiting, "no ipv4 session with a router over ingress0: second: hold timer expired")
	})
}

// comesUp is for how long a session with a router may be away without a word.
const comesUp = 10 * time.Second

// wantClass compares how a class stands.
func (r *rig) wantClass(name string, health routing.Health, reason string) {
	r.t.Helper()
	for _, c := range r.state().Plan.Classes {
		if c.Class.Name == name && (c.Health != health || c.Reason != reason) {
			r.t.Errorf("class %s is %s (%s), want %s (%s)", name, c.Health, c.Reason, health, reason)
		}
	}
}
