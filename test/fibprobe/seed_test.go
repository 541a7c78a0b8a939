package fibprobe

import (
	"fmt"
	"os"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
	"netclass.dev/test/netns"
)

// TestSeed writes the seed's rules and routes by hand and asks both of the
// kernel's lookups, and the model, about every packet in every state.
func TestSeed(t *testing.T) {
	t.Parallel()
	e := readExpected(t)
	ns, far := netns.New(t), netns.New(t)
	router(t, ns)
	addresses := map[string]string{"mgmt0": "40", "node0": "46", "ingress0": "47", "pod0": "48"}
	for link, net := range addresses {
		check(t, ns.Veth(link, far, link))
		check(t, ns.Up(link))
		check(t, ns.Addr(link, "10."+net+".0.1/24", "fd00:"+net+"::1/64"))
	}
	check(t, ns.Veth("cilium_host", far, "cilium_net"))
	check(t, ns.Up("cilium_host"))
	check(t, ns.Addr("cilium_host", "10.244.1.1/32", "fd00:10:244:1::1/128"))
	check(t, far.Up("mgmt0", "node0", "ingress0", "pod0", "cilium_net"))
	cni := []string{
		"route add 10.244.1.0/24 dev cilium_host",
		"route add 10.244.2.0/24 via 10.46.0.2",
		"route add 10.244.3.0/24 via 10.46.0.3",
		"route add default via 10.40.0.254",
	}
	cni6 := []string{
		"route add fd00:10:244:1::/64 dev cilium_host",
		"route add fd00:10:244:2::/64 via fd00:46::2",
		"route add fd00:10:244:3::/64 via fd00:46::3",
		"route add default via fd00:40::fe",
	}
	batch(t, ns, routing.IPv4, false, append(cni, lines(e)...))
	batch(t, ns, routing.IPv6, false, append(cni6, lines(e.IPv6())...))
	p := open(t, ns)

	k := dump(t, ns)
	for state, name := range e.States {
		switch state {
		case 1:
			check(t, ns.Down("pod0"))
			k.Link("pod0").Up = false
		case 2:
			check(t, ns.Down("node0"))
			k.Link("node0").Up = false
		}
		before := fib.New(k) // with the routes that the kernel has dropped by now
		after := fib.New(dump(t, ns))
		for _, family := range []*Expected{e, e.IPv6()} {
			for _, packet := range family.Packets {
				t.Run(fmt.Sprintf("%s/%s/%s", name, routing.FamilyOf(packet.Flow.Dst), packet.Name), func(t *testing.T) {
					for _, mode := range []fib.Mode{fib.Stack, fib.BPF} {
						got, err := ask(p, packet.Flow, mode)
						check(t, err)
						if got.String() != packet.Want[state].String() {
							t.Errorf("%s: got %s (%s), want %s", mode, got, got.Code, packet.Want[state])
						}
						check(t, Agree(packet.Flow, mode, before.Lookup(packet.Flow, mode), got))
						check(t, Agree(packet.Flow, mode, after.Lookup(packet.Flow, mode), got))
					}
				})
			}
		}
	}
}

// lines writes an expectation's objects as iproute2 takes them.
func lines(e *Expected) []string {
	var all []string
	for _, r := range e.Rules {
		all = append(all, fmt.Sprintf("rule add priority %d from %s lookup %d protocol %d", r.Priority, r.From, r.Table, r.Protocol))
	}
	for _, r := range append(append([]routing.Route(nil), e.Table...), e.Guard...) {
		all = append(all, fmt.Sprintf("route add %s protocol %d", r, r.Protocol))
	}
	return all
}

func readExpected(t *testing.T) *Expected {
	t.Helper()
	f, err := os.Open("../../examples/seed/expected-k8s-1.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e, err := ParseExpected(f)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func open(t *testing.T, ns *netns.NS) *Prober {
	t.Helper()
	p, err := Open(ns.Fd())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, p.Close()) })
	return p
}

func ask(p *Prober, f fib.Flow, mode fib.Mode) (Answer, error) {
	if mode == fib.BPF {
		return p.BPF(f)
	}
	return p.Route(f)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
