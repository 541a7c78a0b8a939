package plan_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/plan"
)

// served is the example cluster with an API server that has told of these
// Services, which the router is told of.
func served(services ...routing.Service) *world {
	w := seed()
	w.Config.Cluster.NodesFile, w.Config.Cluster.Kubernetes = "", &routing.Kubernetes{}
	w.advertise().Services = &routing.Services{Aggregate: routing.PerFamily[uint8]{IPv4: 32, IPv6: 128}}
	w.Inventory.Services, w.Inventory.ServicesSynced = services, true
	return w
}

func (w *world) advertise() *routing.Advertise { return &w.Config.BGP.Upstreams[0].Advertise }

// service is a Service of externalTrafficPolicy Cluster, or of Local where nodes
// are given.
func service(name, addresses string, nodes ...string) routing.Service {
	s := routing.Service{Name: "web/" + name, Local: len(nodes) > 0, Nodes: nodes}
	for _, a := range strings.Fields(addresses) {
		s.Addresses = append(s.Addresses, addr(a))
	}
	return s
}

// toRouter is what the router is told, and the rules that stop what is unused.
func toRouter(p *routing.Plan) string {
	var b strings.Builder
	for _, o := range p.Announce {
		if o.To != "" {
			fmt.Fprintf(&b, "%s once [%s]\n", o.Prefix, o.NeedsRule)
		}
	}
	for _, r := range p.Rules {
		if r.Priority == routing.VIPPriority {
			fmt.Fprintf(&b, "%s\n", r)
		}
	}
	return b.String()
}

func TestServices(t *testing.T) {
	for _, tc := range []struct {
		name string
		w    *world
		bend func(w *world)
		want string
		says []string
	}{
		{
			name: "both policies, both families; one rule for the network that all lie in",
			w: served(service("a", "10.47.64.5 fd00:47:64::5"), service("b", "10.47.64.6", "k8s-1", "k8s-2"),
				service("c", "10.47.64.7", "k8s-2"), service("d", "10.47.64.5")),
			bend: func(w *world) { w.advertise().Networks = nil },
			want: `
				10.47.64.5/32 once [32761: from all to 10.47.64.0/24 iif ingress0 unreachable]
				10.47.64.6/32 once [32761: from all to 10.47.64.0/24 iif ingress0 unreachable]
				fd00:47:64::5/128 once [32761: from all to fd00:47:64::/112 iif ingress0 unreachable]
				32761: from all to 10.47.64.0/24 iif ingress0 unreachable
				32761: from all to fd00:47:64::/112 iif ingress0 unreachable`,
		},
		{
			name: "beside a network, and outside of it: a rule of its own",
			w:    served(service("a", "10.47.64.5 192.0.2.7")),
			bend: func(w *world) { w.only(routing.IPv4) },
			want: `
				10.47.64.0/24 once [32761: from all to 10.47.64.0/24 iif ingress0 unreachable]
				10.47.64.5/32 once [32761: from all to 10.47.64.0/24 iif ingress0 unreachable]
				192.0.2.7/32 once [32761: from all to 192.0.2.7/32 iif ingress0 unreachable]
				32761: from all to 10.47.64.0/24 iif ingress0 unreachable
				32761: from all to 192.0.2.7/32 iif ingress0 unreachable`,
		},
		{
			name: "aggregates, each once",
			w:    served(service("a", "192.0.2.7 192.0.2.9 192.0.2.130 2001:db8::5"), service("b", "192.0.2.8")),
			bend: func(w *world) {
				w.advertise().Networks = nil
				w.advertise().Services.Aggregate = routing.PerFamily[uint8]{IPv4: 25, IPv6: 64}
			},
			want: `
				192.0.2.0/25 once [32761: from all to 192.0.2.0/25 iif ingress0 unreachable]
				192.0.2.128/25 once [32761: from all to 192.0.2.128/25 iif ingress0 unreachable]
				2001:db8::/64 once [32761: from all to 2001:db8::/64 iif ingress0 unreachable]
				32761: from all to 192.0.2.0/25 iif ingress0 unreachable
				32761: from all to 192.0.2.128/25 iif ingress0 unreachable
				32761: from all to 2001:db8::/64 iif ingress0 unreachable`,
		},
		{
			name: "by class and label",
			w: served(
				routing.Service{Name: "web/a", Class: "x", Labels: map[string]string{"tier": "web"}, Addresses: []netip.Addr{addr("192.0.2.1")}},
				routing.Service{Name: "web/b", Class: "x", Labels: map[string]string{"tier": "db"}, Addresses: []netip.Addr{addr("192.0.2.2")}},
				routing.Service{Name: "web/c", Class: "x", Addresses: []netip.Addr{addr("192.0.2.3")}},
				routing.Service{Name: "web/d", Labels: map[string]string{"tier": "web"}, Addresses: []netip.Addr{addr("192.0.2.4")}},
			),
			bend: func(w *world) {
				w.advertise().Networks = nil
				w.advertise().Services.Class, w.advertise().Services.Selector = "x", map[string]string{"tier": "web"}
			},
			want: `
				192.0.2.1/32 once [32761: from all to 192.0.2.1/32 iif ingress0 unreachable]
				32761: from all to 192.0.2.1/32 iif ingress0 unreachable`,
		},
		{
			name: "without a class those of another announcer are left alone",
			w:    served(routing.Service{Name: "web/a", Class: "tailscale", Addresses: []netip.Addr{addr("100.64.0.1")}}),
			bend: func(w *world) { w.advertise().Networks = nil },
		},
		{
			name: "what a node's own address is, or a pod's, is led to no router",
			w:    served(service("klipper", "10.46.0.2 10.47.0.1 10.244.3.9 10.48.0.77 fd00:46::3")),
			bend: func(w *world) { w.advertise().Networks = nil },
			says: []string{
				"peer/udm/ipv4 NotAdvertised: not advertised: 10.46.0.2 (web/klipper), 10.47.0.1 (web/klipper), 10.244.3.9 (web/klipper) and 1 more: 10.46.0.2/32 overlaps 10.46.0.0/24 of nodes, which no router may lead to",
				"peer/udm/ipv6 NotAdvertised: not advertised: fd00:46::3 (web/klipper): fd00:46::3/128 overlaps fd00:46::/64 of nodes",
			},
		},
		{
			name: "an aggregate takes in what is served elsewhere",
			w:    served(service("a", "192.0.2.7"), service("b", "192.0.2.8", "k8s-2"), service("c", "10.47.64.9", "k8s-3")),
			bend: func(w *world) {
				w.only(routing.IPv4)
				w.advertise().Services.Aggregate.IPv4 = 24
			},
			want: `
				10.47.64.0/24 once [32761: from all to 10.47.64.0/24 iif ingress0 unreachable]
				192.0.2.0/24 once [32761: from all to 192.0.2.0/24 iif ingress0 unreachable]
				32761: from all to 10.47.64.0/24 iif ingress0 unreachable
				32761: from all to 192.0.2.0/24 iif ingress0 unreachable`,
			says: []string{"peer/udm/ipv4 LocalInAggregate: 10.47.64.0/24 is advertised, and so brings packets here that are lost, as externalTrafficPolicy is Local and no ready endpoint is here: 192.0.2.8 (web/b), 10.47.64.9 (web/c)"},
		},
		{
			name: "a network that is named and the cluster's own, or a link's, is neither announced nor stopped",
			w:    served(service("a", "10.47.64.5")),
			bend: func(w *world) {
				w.only(routing.IPv4)
				w.Config.Networks = append(w.Config.Networks,
					routing.Network{Name: "some", Prefixes: prefixes("10.244.1.0/25", "10.46.0.0/16", "10.47.0.0/24", "10.48.0.128/25", "10.47.0.128/25")})
				w.advertise().Networks = []string{"pods", "some"}
			},
			want: `
				10.47.0.128/25 once [32761: from all to 10.47.0.128/25 iif ingress0 unreachable]
				10.47.64.5/32 once [32761: from all to 10.47.64.0/24 iif ingress0 unreachable]
				32761: from all to 10.47.0.128/25 iif ingress0 unreachable
				32761: from all to 10.47.64.0/24 iif ingress0 unreachable`,
			says: []string{
				"NotAdvertised: 10.244.0.0/16 is not advertised: it overlaps 10.244.0.0/16 of pods, which no router may lead to",
				"10.244.1.0/25 is not advertised", "10.46.0.0/16 is not advertised: it overlaps 10.46.0.0/24 of nodes",
				"10.47.0.0/24 is not advertised: it overlaps 10.47.0.0/24, a network of ingress0",
				"10.48.0.128/25 is not advertised: it overlaps 10.48.0.0/24, a network of pod0",
			},
		},
		{
			name: "from a nodes file there are none",
			w:    served(service("a", "192.0.2.7")),
			bend: func(w *world) {
				w.only(routing.IPv4)
				w.advertise().Networks, w.Config.Cluster.Kubernetes = nil, nil
			},
			says: []string{"peer/udm/ipv4 NotAdvertised: no Service is advertised: only the Kubernetes API tells of them"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.bend != nil {
				tc.bend(tc.w)
			}
			p := tc.w.make()
			wantText(t, "told", toRouter(p), tc.want)
			wantSaid(t, p, tc.says...)
			if len(tc.says) == 0 && said(p) != "" {
				t.Errorf("something is said:\n%s", said(p))
			}
		})
	}
}

// Why an address is not announced from this node is to be seen at the session.
func TestWhyNotFromHere(t *testing.T) {
	w := served(service("a", "192.0.2.7", "k8s-2"))
	if got, want := peerStatus(t, w.make(), "udm", routing.IPv4).Reason,
		"left to nodes with a ready endpoint (externalTrafficPolicy: Local): 192.0.2.7 (web/a)"; got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
	if got := peerStatus(t, w.make(), "udm", routing.IPv6).Reason; got != "" {
		t.Errorf("IPv6: %q", got)
	}
	w.self().NotReady = true
	if got, want := peerStatus(t, w.make(), "udm", routing.IPv4).Reason, "nothing is advertised: node k8s-1 is not Ready"; got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
}

func (w *world) self() *routing.Node { return w.node(w.Node) }

// Of a router that is told nothing nothing is said.
func TestNothingToAdvertise(t *testing.T) {
	w := served()
	w.advertise().Networks, w.advertise().Services = nil, nil
	w.self().NotReady = true
	if p := w.make(); said(p) != "" || peerStatus(t, p, "udm", routing.IPv4).Reason != "" {
		t.Errorf("said:\n%s", said(p))
	}
}

// told lets the speaker have been told all that is planned.
func (w *world) told() {
	p := w.settle()
	speak := *p.Speak
	for _, o := range p.Announce {
		speak.Announce = append(speak.Announce, o.Announcement)
	}
	w.Speaking = &speak
}

// Nothing is announced before the datapath is there, and what is announced goes
// when it does; what is not known changes nothing.
func TestReadiness(t *testing.T) {
	const url = "http://127.0.0.1:10256/healthz"
	ready := func() *world {
		w := served(service("a", "10.47.64.5"), service("b", "192.0.2.7"))
		w.only(routing.IPv4)
		w.advertise().ReadyHTTP = url
		w.Unready = map[string]string{url: ""}
		return w
	}
	all := []string{"10.47.64.0/24", "10.47.64.5/32", "192.0.2.7/32"}
	for _, tc := range []struct {
		name        string
		bend        func(w *world)
		first, then []string // announced at the first start, and once all was announced
		says        string
	}{
		{name: "all is well", first: all, then: all},
		{name: "not Ready", bend: func(w *world) { w.self().NotReady = true }, says: "node k8s-1 is not Ready"},
		{name: "no host link", bend: func(w *world) { w.removeLink("cilium_host") }, says: "link cilium_host does not exist"},
		{name: "host link down", bend: func(w *world) { w.link("cilium_host").Up = false }, says: "link cilium_host is down"},
		{name: "not asked", bend: func(w *world) { w.Unready = nil }, then: all, says: url + " has not answered yet"},
		{name: "not well", bend: func(w *world) { w.Unready = map[string]string{url: "status 503 Service Unavailable"} }, says: url + " does not answer well: status 503 Service Unavailable"},
		{name: "self not known", bend: func(w *world) { w.removeNode("k8s-1") }, then: all, says: "this node is not in the inventory"},
		{name: "the nodes not read", bend: func(w *world) {
			w.Inventory = &routing.Inventory{}
		}, then: all, says: "this node is not in the inventory"},
		{name: "the Services not read", bend: func(w *world) {
			w.Inventory.Services, w.Inventory.ServicesSynced, w.Inventory.ServicesStale = nil, false, "away"
		}, first: all[:1], then: all, says: "NotSynced: the Services have not been read yet (away): what is advertised stays"},
		{name: "the Services not read, but from a copy", bend: func(w *world) {
			w.Inventory.Services, w.Inventory.ServicesSynced = []routing.Service{service("b", "192.0.2.7")}, false
		}, first: []string{all[0], all[2]}, then: all, says: "NotSynced: the Services"},
		{name: "the Services are old", bend: func(w *world) { w.Inventory.ServicesStale = "away" }, first: all, then: all, says: "Stale: the Services are as they were last read: away"},
		{name: "a Service gone", bend: func(w *world) { w.Inventory.Services = w.Inventory.Services[:1] }, first: all[:2], then: all[:2]},
		{name: "not read, and not Ready", bend: func(w *world) {
			w.Inventory.ServicesSynced, w.self().NotReady = false, true
		}, says: "node k8s-1 is not Ready"},
	} {
		for round, want := range [][]string{tc.first, tc.then} {
			w := ready()
			if round == 1 {
				w.told()
			}
			if tc.bend != nil {
				tc.bend(w)
			}
			p := w.make()
			var got []string
			for _, o := range p.Announce {
				if o.To != "" {
					got = append(got, o.Prefix.String())
				}
				if o.To != "" && !slices.Contains(p.Rules, o.NeedsRule) {
					t.Errorf("%s, round %d: %s waits for a rule that is not planned", tc.name, round, o.Prefix)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, round %d: announced %v, want %v", tc.name, round, got, want)
			}
			if n := strings.Count(said(p), "peer/udm/ipv4 "); tc.says == "" && n > 0 || n > 2 {
				t.Errorf("%s: said %d times:\n%s", tc.name, n, said(p))
			}
			wantSaid(t, p, tc.says)
		}
	}
}

// What is still on its way when all is withdrawn is stopped too.
func TestStopRulesOutlastTheAnnouncement(t *testing.T) {
	w := served(service("b", "192.0.2.7"))
	w.told()
	w.self().NotReady = true
	if ops := opsText(plan.Diff(w.make(), w.Kernel)); ops != "" {
		t.Errorf("ops:\n%s", ops)
	}
	w.Inventory.Services = nil
	wantText(t, "ops", opsText(plan.Diff(w.make(), w.Kernel)), "drop rules: delete rule 32761: from all to 192.0.2.7/32 iif ingress0 unreachable")
}

// A Service more or less changes no rule of its neighbours: what waits for one
// would be withdrawn and announced again.
func TestNeighboursKeepTheirRules(t *testing.T) {
	w := served(service("a", "192.0.2.6"))
	p := w.settle()
	w.Inventory.Services = append(w.Inventory.Services, service("b", "192.0.2.7"), service("c", "192.0.2.4"))
	q := w.make()
	for _, o := range p.Announce {
		if o.To != "" && !slices.ContainsFunc(q.Announce, func(n routing.Origin) bool { return n.Prefix == o.Prefix && n.NeedsRule == o.NeedsRule }) {
			t.Errorf("%s has lost its rule %s", o.Prefix, o.NeedsRule)
		}
	}
}

// Hundreds of Services outside of every network cost no quadratic time.
func BenchmarkServices(b *testing.B) {
	w := served()
	for i := range 1000 {
		w.Inventory.Services = append(w.Inventory.Services, service(fmt.Sprint(i), fmt.Sprintf("198.18.%d.%d 2001:db8::%x", i/250, i%250+1, i+1), "k8s-1", "k8s-2"))
	}
	w.told()
	b.ReportAllocs()
	for b.Loop() {
		if ops := plan.Diff(w.make(), w.Kernel); len(ops) != 0 {
			b.Fatalf("%d ops", len(ops))
		}
	}
}
