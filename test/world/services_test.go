package world

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// withdrawn is a promise: how soon nobody is sent to a node that cannot serve.
const withdrawn = time.Second

// TestServices announces the addresses of Services, each from the nodes that can
// serve it at the time.
func TestServices(t *testing.T) {
	t.Parallel()
	config := strings.Replace(example(t, "config.yaml"), "advertise: {networks: [loadBalancers]}",
		`advertise: {services: {class: example.org/bgp, selector: {matchLabels: {expose: world}}}, readyWhen: {http: "`+healthURL+`"}}`, 1)
	config, api, nodes := withAPI(t, config)
	var h *health
	c := startWith(t, config, "bird", func(c *cluster) {
		nodes(c)
		h = c.serveHealth()
	})
	s := &services{cluster: c}

	local, every, other := text(vipEBPF), text(vipNAT), text(vipUnused)
	service(api, "local", "example.org/bgp", "Local", local)
	service(api, "every", "example.org/bgp", "Cluster", every)
	service(api, "other", "example.org/other", "Cluster", other)
	service(api, "hidden", "example.org/bgp", "Cluster", text(vips(67)))
	api.Do("PATCH", "/api/v1/namespaces/default/services/hidden", "application/merge-patch+json",
		map[string]any{"metadata": map[string]any{"labels": map[string]string{"expose": "inside"}}})
	endpoints(api, "local", map[string]bool{"k8s-1": true, "k8s-2": true})
	s.from(convergence, every, 1, 2, 3)
	s.from(convergence, local, 1, 2)
	s.from(convergence, other)
	s.from(convergence, text(vips(67)))
	if out := c.ctl(c.daemons[2], "peers", "udm"); !strings.Contains(out, "left to nodes with a ready endpoint (externalTrafficPolicy: Local): 10.47.64.10 (default/local)") {
		t.Errorf("peers udm does not say who announces the other address:\n%s", out)
	}
	// One rule stops what is unused of all of them.
	rules, err := c.Node(3).Exec(t.Context(), "ip", "rule", "show", "priority", "32761")
	c.must(err)
	if strings.Count(rules, "\n") != 1 || !strings.Contains(rules, "to 10.47.64.0/24 iif ingress0 unreachable") {
		t.Errorf("rules:\n%s", rules)
	}
	for _, f := range routing.Families {
		if err := call(c.Router.World, vipEBPF.Of(f), 3*time.Second); err != nil {
			t.Errorf("from the world to %s: %v", vipEBPF.Of(f), err)
		}
	}

	endpoints(api, "local", map[string]bool{"k8s-1": true, "k8s-2": false})
	t.Logf("an endpoint is not ready: withdrawn after %v", s.from(withdrawn, local, 1))
	endpoints(api, "local", nil)
	t.Logf("the last endpoint is gone: withdrawn after %v", s.from(withdrawn, local))
	endpoints(api, "local", map[string]bool{"k8s-3": true})
	t.Logf("an endpoint is ready: announced after %v", s.from(convergence, local, 3))

	setReady(api, c.Node(3), false)
	t.Logf("a Node is not Ready: withdrawn after %v", s.from(withdrawn, every, 1, 2))
	s.from(withdrawn, local)
	setReady(api, c.Node(3), true)
	s.from(convergence, every, 1, 2, 3)
	s.from(convergence, local, 3)

	c.must(c.Node(1).LinkDown(lab.CNILink))
	t.Logf("the CNI's link is down: withdrawn after %v", s.from(withdrawn, every, 2, 3))
	c.must(c.Node(1).LinkUp(lab.CNILink))
	s.from(convergence, every, 1, 2, 3)

	h.down[2].Store(true)
	t.Logf("the health port fails: withdrawn after %v", s.from(5*time.Second, every, 1, 3))
	out, err := c.daemons[1].Ctl(t.Context(), "status")
	if !strings.Contains(out, healthURL) {
		t.Errorf("status does not say why nothing is announced (%v):\n%s", err, out)
	}
	h.down[2].Store(false)
	s.from(5*time.Second, every, 1, 2, 3)

	// Without the API nothing is taken back, not even by a daemon that starts anew.
	api.Down()
	time.Sleep(3 * time.Second)
	s.from(withdrawn, every, 1, 2, 3)
	s.from(withdrawn, local, 3)
	c.must(c.daemons[0].Restart())
	s.from(convergence, every, 1, 2, 3)
	api.Up()
	endpoints(api, "local", map[string]bool{"k8s-2": true})
	s.from(convergence, local, 2)
	api.Do("DELETE", "/api/v1/namespaces/default/services/every", "", nil)
	s.from(convergence, every)
	c.routerSawNothing()
}

// services looks at who announces what.
type services struct{ *cluster }

// from waits until the router's kernel has the way to an address by exactly these
// nodes, in both families, and returns how long it took.
func (s *services) from(limit time.Duration, addrs routing.PerFamily[string], nodes ...int) time.Duration {
	s.t.Helper()
	return s.within(limit, fmt.Sprintf("%s by nodes %v", addrs.IPv4, nodes), func() error {
		for _, f := range routing.Families {
			out, err := s.Router.Exec(s.t.Context(), "ip", "-"+strings.TrimPrefix(f.String(), "ipv"), "route", "show", addrs.Of(f))
			if err != nil {
				return err
			}
			for n := 1; n <= len(s.Nodes); n++ {
				want := false
				for _, node := range nodes {
					want = want || node == n
				}
				// Its own line or the end of one, with a blank after the address.
				if got := strings.Contains(strings.ReplaceAll(out, "\n", " \n"), "via "+lab.ClientAddr(lab.Ingress, n, f)+" "); got != want {
					return fmt.Errorf("%s by k8s-%d: %t, want %t: %s", addrs.Of(f), n, got, want, out)
				}
			}
		}
		return nil
	})
}
