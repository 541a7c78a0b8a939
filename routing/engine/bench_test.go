package engine_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/engine"
	"netclass.dev/routing/intent"
)

// BenchmarkPass is one whole pass of a node among 5,000 with all sessions up
// when nothing has changed.
func BenchmarkPass(b *testing.B) {
	const nodes = 5000
	t := &testing.T{}
	list := seedNodes(t)[:1]
	for i := range nodes {
		a, c := byte(i>>8), byte(i)
		list = append(list, routing.Node{
			Name:        fmt.Sprintf("m-%04d", i),
			PodCIDRs:    []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, 16 + a, c}), 32), netip.MustParsePrefix(fmt.Sprintf("fd00:10:244:%x::/64", 256+i))},
			InternalIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 46, 16 + a, c}), netip.MustParseAddr(fmt.Sprintf("fd00:46::1:%x", i))},
			Annotations: map[string]string{
				"net.renner.uno/pod0-v4": netip.AddrFrom4([4]byte{10, 48, 16 + a, c}).String(),
				"net.renner.uno/pod0-v6": fmt.Sprintf("fd00:48::1:%x", i),
			},
		})
	}
	k, sp := newFakeKernel(), &fakeSpeaker{}
	for link, addr := range map[string]string{"pod0": "10.48.1.1/16", "node0": "10.46.1.1/16"} {
		if err := k.AddAddr(link, netip.MustParsePrefix(addr)); err != nil {
			b.Fatal(err)
		}
	}
	sp.notify = func() {}
	c := seedConfig(t, "nodes:         [10.46.0.0/24,", "nodes:         [10.46.0.0/16,")
	var inv = &routing.Inventory{Nodes: list, Synced: true, Source: "bench"}
	e := engine.New(engine.Options{
		Kernel: k, Speaker: sp, Inventory: func() *routing.Inventory { return inv },
		Node: func(*routing.Config) string { return "k8s-1" }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	e.Configure(c, routing.ConfigStatus{}, nil)
	go e.Run(b.Context())
	time.Sleep(time.Second)
	sp.mu.Lock()
	for i := range sp.sessions {
		s := &sp.sessions[i]
		s.State, s.Since, s.EndOfRIB, s.PeerRestartTime = routing.Established, time.Now(), true, 10*time.Second
		for n := range list {
			if list[n].Name == s.Key.Peer {
				f := 0
				if s.Key.Family == v6 {
					f = 1
				}
				key := []string{"net.renner.uno/pod0-v4", "net.renner.uno/pod0-v6"}[f]
				s.Paths = []routing.Path{{Prefix: list[n].PodCIDRs[f], NextHop: netip.MustParseAddr(list[n].Annotations[key])}}
			}
		}
	}
	sp.mu.Unlock()
	e.Look()
	for !e.State().Pass.Synced || len(e.State().Kernel.Routes) < 4*nodes {
		time.Sleep(10 * time.Millisecond)
	}
	passes(b, e)
	if s := e.State(); s.Pass.Ops > 0 || len(s.Pending) > 0 {
		b.Errorf("%d ops, %d pending", s.Pass.Ops, len(s.Pending))
	}
}

// BenchmarkAnnouncements is one whole pass of a node that tells a router of 2,000
// addresses of Services in each family, each with a rule of its own, as none lies
// in a network that is named, and has the routes of 2,000 nodes.
func BenchmarkAnnouncements(b *testing.B) {
	const services, nodes = 2000, 2000
	list := seedNodes(&testing.T{})[:1]
	for i := range nodes {
		a, c := byte(i>>8), byte(i)
		list = append(list, routing.Node{
			Name:        fmt.Sprintf("m-%04d", i),
			PodCIDRs:    []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, 16 + a, c}), 32), netip.MustParsePrefix(fmt.Sprintf("fd00:10:244:%x::/64", 256+i))},
			InternalIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 46, 16 + a, c}), netip.MustParseAddr(fmt.Sprintf("fd00:46::1:%x", i))},
		})
	}
	inv := &routing.Inventory{Nodes: list, Synced: true, Source: "bench", ServicesSynced: true}
	for i := range services {
		inv.Services = append(inv.Services, routing.Service{
			Name:      fmt.Sprintf("default/s-%04d", i),
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)}), netip.MustParseAddr(fmt.Sprintf("fd00:5::%x", i+1))},
		})
	}
	k, sp := newFakeKernel(), &fakeSpeaker{notify: func() {}}
	if err := k.AddAddr("node0", netip.MustParsePrefix("10.46.1.1/16")); err != nil {
		b.Fatal(err)
	}
	c := kubeConfig(b, "advertise: {networks: [loadBalancers]}", "advertise: {services: {}}", "nodes:         [10.46.0.0/24,", "nodes:         [10.46.0.0/16,")
	e := engine.New(engine.Options{
		Kernel: k, Speaker: sp, Inventory: func() *routing.Inventory { return inv },
		Node: func(*routing.Config) string { return "k8s-1" }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	e.Configure(c, routing.ConfigStatus{}, nil)
	go e.Run(b.Context())
	told := func() int {
		sp.mu.Lock()
		defer sp.mu.Unlock()
		if len(sp.orders) == 0 {
			return 0
		}
		return len(sp.orders[len(sp.orders)-1].Announce)
	}
	for told() < 2*services {
		time.Sleep(10 * time.Millisecond)
	}
	passes(b, e)
	b.ReportMetric(float64(len(e.State().Kernel.Routes)), "routes")
	b.ReportMetric(float64(len(e.State().Kernel.Rules)), "rules")
}

// kubeConfig is the example cluster's configuration as it is, with pairs of old
// and new text replaced in it.
func kubeConfig(b *testing.B, replace ...string) *routing.Config {
	b.Helper()
	text, err := os.ReadFile("../../examples/seed/config.yaml")
	if err != nil {
		b.Fatal(err)
	}
	c, problems := intent.Parse("config.yaml", []byte(strings.NewReplacer(replace...).Replace(string(text))))
	if c == nil {
		b.Fatal(problems)
	}
	return c
}

// passes makes one whole pass after the other, and reports how long one takes.
func passes(b *testing.B, e *engine.Engine) {
	b.Helper()
	var took time.Duration
	for b.Loop() {
		seq := e.State().Sequence
		e.Look()
		s, err := e.Wait(b.Context(), seq)
		if err != nil {
			b.Fatal(err)
		}
		took += s.Pass.Took
	}
	b.ReportMetric(took.Seconds()*1000/float64(b.N), "ms/pass")
}
