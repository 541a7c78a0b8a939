package lab_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// TestHandMade runs the set-up without netclass: with BIRD it separates the
// classes, and without BIRD pods still reach each other.
func TestHandMade(t *testing.T) {
	t.Parallel()
	need.Program(t, "bird")
	l := newLab(t, lab.Options{Nodes: 2})
	var birds []*lab.BIRD
	for _, n := range l.Nodes {
		b, err := n.StartHandMade(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		birds = append(birds, b)
	}
	ctx, cancel := timeout(20 * time.Second)
	defer cancel()
	took, err := l.WaitSeparated(ctx)
	if err != nil {
		out, _ := birds[0].Ctl(t.Context(), "show", "protocols")
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("separated after %v", took)
	for _, f := range routing.Families {
		if r := ping(t, l.Node(1).Pod, l.Node(2).PodAddr(f), 3); r.Lost != 0 {
			t.Error(r)
		}
	}
	if err := birds[0].Stop(); err != nil {
		t.Fatal(err)
	}
	if err := l.Node(1).PodPaths(lab.NodeNet, l.Node(2)); err != nil {
		t.Errorf("with table 47 empty: %v", err)
	}
}

// TestFRR lets FRR learn a prefix from BIRD.
func TestFRR(t *testing.T) {
	t.Parallel()
	need.Program(t, "bird")
	need.Program(t, "zebra")
	l := newLab(t, lab.Options{Nodes: 2, NoCounters: true})
	frr, err := l.Node(1).StartFRR(`
router bgp 64512
 bgp router-id 10.48.0.1
 neighbor 10.48.0.2 remote-as 64512
 neighbor 10.48.0.2 timers connect 1
`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Node(2).StartBIRD(`
router id 10.48.0.2;
protocol device {}
protocol static { ipv4; route 203.0.113.0/24 unreachable; }
protocol bgp {
	local 10.48.0.2 as 64512;
	neighbor 10.48.0.1 as 64512;
	connect delay time 1;
	ipv4 { export all; next hop self; };
}
`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := timeout(20 * time.Second)
	defer cancel()
	err = lab.Eventually(ctx, func() error {
		hop, err := l.Node(1).Lookup(netip.MustParseAddr("203.0.113.1"), netip.Addr{}, "")
		if err == nil && hop.Link != lab.PodNet {
			err = fmt.Errorf("203.0.113.1 leaves by %s", hop)
		}
		return err
	})
	if err != nil {
		out, _ := frr.Ctl(t.Context(), "show bgp summary")
		t.Errorf("%v\n%s", err, out)
	}
	if err := frr.Stop(); err != nil {
		t.Error(err)
	}
}
