package engine_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// manyNodes is the seed's three nodes and n more, whose addresses on pod0 are
// given by their number.
func manyNodes(t *testing.T, n int, pod0 func(int) string) []routing.Node {
	nodes := seedNodes(t)
	for i := range n {
		nodes = append(nodes, routing.Node{
			Name:        fmt.Sprintf("m-%04d", i),
			PodCIDRs:    []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, 16 + byte(i>>8), byte(i)}), 32)},
			Annotations: map[string]string{"net.renner.uno/pod0-v4": pod0(i)},
		})
	}
	return nodes
}

// TestManyConditions: thousands of peers with a fault each flood neither log
// nor state.
func TestManyConditions(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		lines := strings.Count(r.log.String(), "\n")
		r.setNodes(manyNodes(t, 5000, func(int) string { return "nonsense" })...)
		r.engine.Look()
		r.wait(time.Second)
		s := r.state()
		size := 0
		for _, c := range s.Conditions {
			size += len(c.Object) + len(c.Reason) + len(c.Message)
		}
		if len(s.Conditions) > 500 || size > 100_000 {
			t.Errorf("%d conditions of %d bytes", len(s.Conditions), size)
		}
		var more *routing.Condition
		for _, c := range s.Conditions {
			if strings.HasPrefix(c.Message, "and ") && c.Object == "peer" {
				more = &c
			}
		}
		if more == nil {
			t.Fatalf("nothing says that there are more; %d conditions", len(s.Conditions))
		}
		if got := strings.Count(r.log.String(), "\n") - lines; got > 600 {
			t.Errorf("%d lines logged", got)
		}
		t.Logf("%d conditions of %d bytes; pass took %s", len(s.Conditions), size, s.Pass.Took)

		// Some of them go: what lasts keeps its date and is not logged again.
		lines = strings.Count(r.log.String(), "\n")
		r.wait(time.Second)
		r.setNodes(manyNodes(t, 4900, func(int) string { return "nonsense" })...)
		r.engine.Look()
		r.wait(time.Second)
		for _, c := range r.state().Conditions {
			if c.Since.After(more.Since) {
				t.Errorf("new date for %v", c)
			}
		}
		if got := strings.Count(r.log.String(), "\n") - lines; got > 5 {
			t.Errorf("%d lines logged for what was known", got)
		}
	})
}

// TestChangingMessage: a condition that says something else lasts, and is logged
// now and then.
func TestChangingMessage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.converge()
		var first *routing.Condition
		for i := range 100 {
			r.engine.Reject(fmt.Sprintf("config.yaml:%d:1: error: nonsense", i+1))
			r.wait(200 * time.Millisecond)
			c := r.condition("config", "Rejected")
			if c == nil {
				t.Fatal("no condition")
			}
			if first == nil {
				first = c
			}
			if !c.Since.Equal(first.Since) || !strings.Contains(c.Message, fmt.Sprint(i+1)) {
				t.Fatalf("condition %v, first %v", c, first)
			}
		}
		if got := strings.Count(r.log.String(), "reason=Rejected"); got < 2 || got > 3 {
			t.Errorf("logged %d times in 20 s", got)
		}
		r.engine.Configure(seedConfig(t), routing.ConfigStatus{}, nil)
		r.wait(time.Second)
		if r.condition("config", "") != nil || strings.Count(r.log.String(), "condition gone") == 0 {
			t.Error("the condition did not end")
		}
	})
}
