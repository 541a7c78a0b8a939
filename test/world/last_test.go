package world

import (
	"fmt"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// TestLastAnnouncer: a node is not drained while no other announces the load balancer
// addresses, though the others' Nodes are Ready: their links to the router are down, or
// their netclassds dead. By force it is.
func TestLastAnnouncer(t *testing.T) {
	t.Parallel()
	config, _, nodes := withAPI(t, drainable(t))
	c := startWith(t, config, "bgpd", nodes)
	three := c.daemons[2]
	c.safe(three)
	for _, n := range []int{1, 2} {
		c.must(c.Node(n).LinkDown(lab.Ingress))
	}
	c.within(convergence, "the refusal", func() error {
		out, err := three.Ctl(t.Context(), "drain", "--class", "world-pod", "--dry-run")
		if err == nil {
			return fmt.Errorf("it can be drained:\n%s", out)
		}
		for _, f := range routing.Families {
			if !strings.Contains(err.Error(), lab.LoadBalancers.Of(f).String()) {
				return fmt.Errorf("the refusal does not name %s: %w", lab.LoadBalancers.Of(f), err)
			}
		}
		for _, n := range []string{"k8s-1", "k8s-2"} {
			if !strings.Contains(err.Error(), n+" announces nothing to udm/ipv4") {
				return fmt.Errorf("the refusal does not name %s: %w", n, err)
			}
		}
		return nil
	})
	if out, err := three.Ctl(t.Context(), "drain", "--class", "world-pod"); err == nil {
		t.Errorf("the last announcer has been drained:\n%s", out)
	}
	c.must(c.routerKnows(lab.LoadBalancers, 1))
	if out := c.ctl(three, "drain", "--class", "world-pod", "--force"); !strings.Contains(out, "DRAINED") {
		t.Errorf("it is not drained by force:\n%s", out)
	}
	c.ctl(three, "undrain")
	for _, n := range []int{1, 2} {
		c.must(c.Node(n).LinkUp(lab.Ingress))
	}
	c.safe(three)
	for _, d := range c.daemons[:2] {
		c.must(d.Kill())
	}
	c.within(convergence, "the refusal", func() error {
		out, err := three.Ctl(t.Context(), "drain", "--dry-run")
		if err == nil {
			return fmt.Errorf("it can be drained:\n%s", out)
		}
		for _, n := range []string{"k8s-1", "k8s-2"} {
			if !strings.Contains(err.Error(), "there is no BGP session with "+n) {
				return fmt.Errorf("the refusal does not name %s: %w", n, err)
			}
		}
		return nil
	})
}
