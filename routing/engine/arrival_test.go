package engine_test

import (
	"testing"
	"time"

	"netclass.dev/routing"
)

// TestPathWaitsForAnAnswer: where nothing but the nodes' words tells of a class path,
// it comes back once its next hop answers; its packets take the fallback meanwhile.
func TestPathWaitsForAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.start(withoutBGP(t))
		fallback := func(node string) bool {
			n := r.nodes.Load().Node(node)
			return r.kernel.has(func(rt routing.Route) bool { return rt.Metric == routing.MetricFallback && rt.Dst == n.PodCIDRs[0] })
		}
		replug := func() {
			r.kernel.SetUp("pod0", false)
			r.wait(200 * time.Millisecond)
			r.wantPath("k8s-2", v4, false, "pod0 is down")
			r.kernel.SetUp("pod0", true)
			r.kernel.addAddrs("pod0")
		}
		r.wantPath("k8s-2", v4, true, "the first pass") // there is no other way
		if _, probes := r.kernel.count(); probes > 0 {
			t.Errorf("%d next hops asked at the start", probes)
		}

		replug()
		r.wait(60 * time.Millisecond)
		r.wantPath("k8s-2", v4, true, "it answers at once")

		hop := hopOf("k8s-2", v4)
		r.kernel.die(hop, true)
		replug()
		r.wait(time.Second)
		r.wantPath("k8s-2", v4, false, "it does not answer")
		r.wantPath("k8s-2", routing.IPv6, true, "it answers by IPv6")
		r.wantPath("k8s-3", v4, true, "another answers")
		if !fallback("k8s-2") {
			t.Error("nothing leads to who does not answer")
		}
		r.kernel.die(hop, false)
		r.wait(2500 * time.Millisecond) // as long as the kernel takes to give up and ask anew
		r.wantPath("k8s-2", v4, true, "it answers again")

		r.kernel.die(hop, true)
		replug()
		r.wait(4900 * time.Millisecond)
		r.wantPath("k8s-2", v4, false, "it still may answer")
		r.wait(200 * time.Millisecond)
		r.wantPath("k8s-2", v4, true, "it has been silent for long")
		if s := r.state(); len(s.Pending) > 0 || !s.Pass.Synced {
			t.Errorf("pending %v", s.Pending)
		}
		_, probes := r.kernel.count()
		r.wait(20 * time.Second)
		if _, now := r.kernel.count(); now > probes+1 { // that was under way
			t.Errorf("%d next hops asked for nothing", now-probes)
		}

		// Nobody is asked any more for a path that is not wanted.
		replug()
		r.wait(time.Second)
		r.engine.Configure(&routing.Config{}, routing.ConfigStatus{}, nil)
		r.wait(time.Second)
		_, probes = r.kernel.count()
		r.wait(20 * time.Second)
		if _, now := r.kernel.count(); now != probes {
			t.Errorf("%d next hops asked without a configuration", now-probes)
		}
	})
}

// TestPathWithoutFallbackWaitsForNobody: there is no other way meanwhile.
func TestPathWithoutFallbackWaitsForNobody(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := withoutBGP(t)
		c.Tables[0].Routes.Peers.Fallback = routing.Fallback{}
		r.start(c)
		r.kernel.die(hopOf("k8s-2", v4), true)
		r.kernel.SetUp("pod0", false)
		r.wait(200 * time.Millisecond)
		r.kernel.SetUp("pod0", true)
		r.kernel.addAddrs("pod0")
		r.wait(60 * time.Millisecond)
		r.wantPath("k8s-2", v4, true, "at once")
	})
}
