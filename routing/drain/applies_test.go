package drain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// messages are what a call was told, without the waits.
func (c *call) messages() (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, st := range c.reports {
		if m := st.Progress.Message; !strings.HasPrefix(m, "waiting until") && !strings.HasPrefix(m, "drained:") &&
			(i == 0 || m != c.reports[i-1].Progress.Message) {
			list = append(list, m)
		}
	}
	return list
}

// TestOnlyWhatApplies: a drain says and waits for nothing that does nothing to its
// links, and neither does its undrain.
func TestOnlyWhatApplies(t *testing.T) {
	const claim = "the others are told"
	for _, tc := range []struct {
		name       string
		req        routing.DrainRequest
		bend       func(cfg *routing.Config)
		ups, downs []string // the steps
		there      []string
		back       []string
		grace      bool
	}{
		{"pod-pod", routing.DrainRequest{Classes: []string{"pod-pod"}}, nil,
			[]string{"claim", "mesh withdrawn", "class paths out"}, []string{"mesh withdrawn", "upstream withdrawn", "none"},
			[]string{claim, "the own pod CIDRs are withdrawn from the mesh: peers use their fallback", "the class paths are taken out"},
			[]string{"the class paths are put back", "the own pod CIDRs are announced to the mesh", "everything is as before"}, false},
		{"world-pod", routing.DrainRequest{Classes: []string{"world-pod"}}, nil,
			[]string{"claim", "graceful shutdown", "upstream withdrawn", "default out", "class paths out"}, []string{"mesh withdrawn", "claim", "none"},
			[]string{claim, "routers are told that this node is about to go (GRACEFUL_SHUTDOWN)", "routers have 10s to move traffic away", "what was announced to routers is withdrawn", "the default is taken out", "that was all there is to take out"},
			[]string{"the default is put back", "routers are told what they were told before", "everything is as before"}, true},
		{"world-pod with its way out", routing.DrainRequest{Classes: []string{"world-pod"}, KeepEgress: true}, nil,
			[]string{"claim", "graceful shutdown", "upstream withdrawn", "class paths out"}, []string{"claim", "none"},
			[]string{claim, "routers are told that this node is about to go (GRACEFUL_SHUTDOWN)", "routers have 10s to move traffic away", "what was announced to routers is withdrawn", "that was all there is to take out"},
			[]string{"routers are told what they were told before", "everything is as before"}, true},
		{"world-pod with imports", routing.DrainRequest{Classes: []string{"world-pod"}}, func(cfg *routing.Config) {
			u := &cfg.BGP.Upstreams[0]
			u.Advertise, u.Import = routing.Advertise{}, []routing.Import{{Networks: []string{"corp"}, Table: "pods"}}
		},
			[]string{"claim", "default out", "class paths out"}, []string{"mesh withdrawn", "none"},
			[]string{claim, "the default and the networks that routers tell of are taken out", "that was all there is to take out"},
			[]string{"the default and the networks that routers tell of are put back", "everything is as before"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, 2, true, func(t *testing.T, w *world) {
				n := w.nodes[0]
				cfg := n.engine.State().Config.Config
				if tc.bend != nil {
					tc.bend(cfg)
					n.engine.told = 0
					n.engine.look()
				}
				begin := time.Now()
				c := n.drain(tc.req)
				if err := c.wait(t, limit); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); (took >= 10*time.Second) != tc.grace {
					t.Errorf("it took %v", took)
				}
				if got := c.messages(); !slices.Equal(got, tc.there) {
					t.Errorf("told\n%q, want\n%q", got, tc.there)
				}
				u := n.undrain("")
				if err := u.wait(t, limit); err != nil {
					t.Fatal(err)
				}
				if got := u.messages(); !slices.Equal(got, tc.back) {
					t.Errorf("told\n%q, want\n%q", got, tc.back)
				}
				var steps []string
				for _, s := range n.engine.steps() {
					steps = append(steps, s.String())
				}
				if want := slices.Concat(tc.ups, tc.downs); !slices.Equal(steps, want) {
					t.Errorf("steps %q, want %q", steps, want)
				}
				n.free()
			})
		})
	}
}
