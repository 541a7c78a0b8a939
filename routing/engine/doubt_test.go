package engine_test

import (
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

func (r *rig) doubt(node string, f routing.Family, doubt bool) {
	r.session(node, f, func(s *routing.Session) { s.Doubt = doubt })
}

// TestDoubt: a session that is up counts for nothing once neither its connection
// nor its next hop answers, and counts again after they have for a while.
func TestDoubt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.kernel.die(hopOf("k8s-2", v4), true)
		r.doubt("k8s-2", v4, true)
		r.wait(1200 * time.Millisecond)
		r.wantPath("k8s-2", v4, true, "while it is asked")
		r.wait(200 * time.Millisecond)
		r.wantPath("k8s-2", v4, false, "without an answer")
		r.wantPath("k8s-2", v6, true, "the other family")
		r.wantPath("k8s-3", v4, true, "the other peer")
		if p := r.peer("k8s-2", v4); p.Session.State != routing.Established || p.Reason == "" || p.Held {
			t.Errorf("shown as %+v", p)
		}
		if r.condition("peer/k8s-2/ipv4", "Silent") == nil {
			t.Error("no condition")
		}
		_, before := r.kernel.count()
		r.wait(5 * time.Second)
		if _, after := r.kernel.count(); after > before {
			t.Errorf("still probing: %d", after-before)
		}

		r.kernel.die(hopOf("k8s-2", v4), false)
		r.doubt("k8s-2", v4, false)
		r.wait(time.Second)
		r.wantPath("k8s-2", v4, false, "answering for a second")
		r.doubt("k8s-2", v4, true)
		r.wait(time.Second)
		r.doubt("k8s-2", v4, false)
		r.wait(1900 * time.Millisecond)
		r.wantPath("k8s-2", v4, false, "in doubt again a moment ago")
		r.wait(200 * time.Millisecond)
		r.wantPath("k8s-2", v4, true, "answering for a while")
		if r.condition("peer/k8s-2/ipv4", "") != nil {
			t.Error("the condition stays")
		}
	})
}

// TestDoubtOfAll: where our own link is down, one condition is enough for all its
// peers, and nothing that they say counts as refused.
func TestDoubtOfAll(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.kernel.SetCarrier("pod0", false)
		for _, node := range []string{"k8s-2", "k8s-3"} {
			for _, f := range routing.Families {
				r.kernel.die(hopOf(node, f), true)
				r.doubt(node, f, true)
			}
		}
		r.wait(5 * time.Second)
		if all := r.state().Conditions; len(all) != 1 || all[0].Message != "link pod0 has no carrier" {
			t.Errorf("conditions %v", all)
		}
		p := r.peer("k8s-2", v4)
		if p.RefusedCount != 0 || p.Aside != 1 || !strings.Contains(p.Reason, "link pod0 is down") {
			t.Errorf("shown as %+v", p)
		}
	})
}

// TestDoubtUnfounded: a next hop that answers keeps its paths, however long its
// connection is silent.
func TestDoubtUnfounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		r.kernel.taken()
		r.doubt("k8s-2", v4, true)
		r.wait(8 * time.Second)
		r.doubt("k8s-2", v4, false)
		_, before := r.kernel.count()
		r.wait(8 * time.Second)
		if _, after := r.kernel.count(); before < 5 || after > before+1 {
			t.Errorf("%d probes while in doubt, %d after", before, after-before)
		}
		if got := r.kernel.taken(); len(got) > 0 {
			t.Errorf("ops:\n%s", textOf(opsOf(got)))
		}
	})
}

// TestDoubtThenEnd: what was left aside does not come back as held when the
// session ends at last, and counts when the session is up again.
func TestDoubtThenEnd(t *testing.T) {
	for _, cause := range []routing.DownCause{routing.CauseHoldTimer, routing.CauseConnection} {
		bubble(t, func(t *testing.T, r *rig) {
			r.converge()
			r.kernel.die(hopOf("k8s-2", v4), true)
			r.doubt("k8s-2", v4, true)
			r.wait(2 * time.Second)
			r.wantPath("k8s-2", v4, false, "without an answer")
			r.kernel.die(hopOf("k8s-2", v4), false)
			r.session("k8s-2", v4, func(s *routing.Session) { s.Doubt = false })
			r.down("k8s-2", v4, cause)
			r.wait(100 * time.Millisecond)
			r.wantPath("k8s-2", v4, false, cause.String())
			r.session("k8s-2", v4, func(s *routing.Session) { r.up(s, true) })
			r.wait(100 * time.Millisecond)
			r.wantPath("k8s-2", v4, true, "up again")
		})
	}
}

// TestDiesLateInHold: a peer that is held and then loses its power is dropped in
// under 4 s, wherever between two probes it happens.
func TestDiesLateInHold(t *testing.T) {
	for at := 3 * time.Second; at < 4*time.Second; at += 100 * time.Millisecond {
		bubble(t, func(t *testing.T, r *rig) {
			r.converge()
			r.down("k8s-2", v4, routing.CauseConnection)
			r.wait(at)
			r.kernel.die(hopOf("k8s-2", v4), true)
			r.wait(3100 * time.Millisecond)
			r.wantPath("k8s-2", v4, false, at.String())
		})
	}
}
