package lab_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

func newLab(t *testing.T, opts lab.Options) *lab.Lab {
	t.Helper()
	need.Root(t)
	need.Program(t, "nft")
	start := time.Now()
	l, err := lab.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("lab of %d nodes made in %v", len(l.Nodes), time.Since(start).Round(time.Millisecond))
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// ping pings and says how many replies are missing.
func ping(t *testing.T, from *lab.Host, to netip.Addr, count int) lab.PingReport {
	t.Helper()
	r, err := from.Ping(to, count)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestUnseparated shows the lab as it is before anybody separates classes: pods
// reach each other over node0 and the world over mgmt0, and the router sees no
// cluster packet.
func TestUnseparated(t *testing.T) {
	t.Parallel()
	l := newLab(t, lab.Options{})
	one, two := l.Node(1), l.Node(2)
	before, err := one.Counts()
	if err != nil {
		t.Fatal(err)
	}
	const count = 5
	for _, f := range routing.Families {
		for _, c := range []struct {
			from *lab.Host
			to   netip.Addr
		}{
			{one.Pod, two.PodAddr(f)}, {one.Pod, lab.WorldAddr.Of(f)}, {one.Host, two.Addr(lab.NodeNet, f)},
			{one.Host, two.Addr(lab.PodNet, f)}, {one.Host, lab.WorldAddr.Of(f)}, {one.Host, one.PodAddr(f)},
		} {
			if r := ping(t, c.from, c.to, count); r.Lost != 0 || r.Sent != count {
				t.Error(r)
			}
		}
	}
	after, err := one.Counts()
	if err != nil {
		t.Fatal(err)
	}
	got := after.Since(before)
	for _, c := range []struct {
		link     string
		from, to lab.Zone
	}{
		{lab.NodeNet, lab.ZonePod, lab.ZonePod}, {lab.Mgmt, lab.ZonePod, lab.ZoneWorld},
		{lab.NodeNet, lab.ZoneNode, lab.ZoneNode}, {lab.Mgmt, lab.ZoneNode, lab.ZoneWorld},
		{lab.PodNet, lab.ZoneNode, lab.ZoneNode},
	} {
		if n := got.Out(c.link, c.from, c.to); n != 2*count {
			t.Errorf("%d packets from %s to %s left by %s, want %d", n, c.from, c.to, c.link, 2*count)
		}
	}
	if n := got.In(lab.NodeNet, lab.ZonePod, lab.ZonePod); n != 2*count {
		t.Errorf("%d replies between pods came in by node0, want %d", n, 2*count)
	}
	counts, err := l.Router.Counts()
	if err != nil {
		t.Fatal(err)
	}
	if counts.Total() != 0 || counts.World.IPv4 == 0 || counts.World.IPv6 == 0 {
		t.Errorf("the router saw %+v, want no cluster packet and some for the world", counts)
	}
}

// TestRouterCounts sends cluster packets to the router on purpose.
func TestRouterCounts(t *testing.T) {
	t.Parallel()
	l := newLab(t, lab.Options{Nodes: 2})
	one := l.Node(1)
	for _, args := range []string{
		"-4 route add table 47 default via 10.47.0.254 dev ingress0",
		"-6 route add table 47 default via fd00:47::fe dev ingress0",
		"-4 rule add from 10.244.0.0/16 lookup 47 priority 1001",
		"-6 rule add from fd00:10:244::/48 lookup 47 priority 1000",
	} {
		if _, err := one.Exec(t.Context(), "ip", strings.Fields(args)...); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range routing.Families {
		if r := ping(t, one.Pod, l.Node(2).PodAddr(f), 5); r.Lost != 5 {
			t.Errorf("%v; want all lost at the router", r)
		}
		if r := ping(t, one.Pod, lab.WorldAddr.Of(f), 5); r.Lost != 0 {
			t.Errorf("%v; want none lost", r)
		}
	}
	counts, err := l.Router.Counts()
	if err != nil {
		t.Fatal(err)
	}
	if counts.Cluster.IPv4 != 5 || counts.Cluster.IPv6 != 5 || counts.ByLink["vlan47"] != 10 {
		t.Errorf("the router saw %+v, want 5 cluster packets of each family on vlan47", counts)
	}
	offenders, err := l.Router.Offenders()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(offenders)
	want := []string{
		"vlan47: 10.244.1.7 -> 10.244.2.7 icmp",
		"vlan47: fd00:10:244:1::7 -> fd00:10:244:2::7 ipv6-icmp",
	}
	if !slices.Equal(offenders, want) {
		t.Errorf("offenders: %q, want %q", offenders, want)
	}
}

// TestLevers takes links away and puts them back.
func TestLevers(t *testing.T) {
	t.Parallel()
	l := newLab(t, lab.Options{Nodes: 2})
	one, two := l.Node(1), l.Node(2)
	reach := func(want bool) {
		t.Helper()
		for _, f := range routing.Families {
			if want {
				// A neighbour that did not answer costs the first packet after it.
				ping(t, one.Host, two.Addr(lab.PodNet, f), 1)
			}
			r := ping(t, one.Host, two.Addr(lab.PodNet, f), 3)
			if reached := r.Lost == 0; reached != want {
				t.Errorf("%v: reached %v, want %v", r, reached, want)
			}
			if r = ping(t, one.Pod, two.PodAddr(f), 3); r.Lost != 0 {
				t.Errorf("pods: %v", r)
			}
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	reach(true)
	must(two.Cut(lab.PodNet))
	if carrier, err := one.Exec(t.Context(), "ip", "-br", "link", "show", lab.PodNet); err != nil || !strings.Contains(carrier, "LOWER_UP") {
		t.Errorf("after a silent cut the peer shows %q, %v", carrier, err)
	}
	reach(false)
	must(two.Mend(lab.PodNet))
	reach(true)
	must(two.LinkDown(lab.PodNet))
	reach(false)
	must(two.LinkUp(lab.PodNet))
	reach(true)
	took, err := two.Flap(lab.NodeNet)
	must(err)
	if took > 5*time.Millisecond {
		t.Logf("the flap took %v", took)
	}
	reach(true)
	must(two.PowerOff())
	if r := ping(t, one.Host, two.Addr(lab.NodeNet, routing.IPv4), 3); r.Lost != 3 {
		t.Errorf("after a power cut: %v", r)
	}
}

// TestPinger pings at a high rate across a short cut.
func TestPinger(t *testing.T) {
	t.Parallel()
	l := newLab(t, lab.Options{Nodes: 2, NoCounters: true})
	one, two := l.Node(1), l.Node(2)
	ping(t, one.Pod, two.PodAddr(routing.IPv6), 1)
	p, err := one.Pod.StartPing(two.PodAddr(routing.IPv6), lab.PingOptions{Rate: 1000})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if err := two.Cut(lab.NodeNet); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	if err := two.Mend(lab.NodeNet); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	r := p.Stop()
	t.Log(r)
	if r.Sent < 700 || r.Lost < 150 || r.Lost > 400 || len(r.Outages) != 1 || r.LongestGap < 150*time.Millisecond || r.Duplicates != 0 {
		t.Errorf("%+v", r)
	}
	if again := p.Stop(); again.Sent != r.Sent {
		t.Errorf("a second Stop says %v", again)
	}
}

// TestNothingStays closes a lab with running programs and looks for what is left.
func TestNothingStays(t *testing.T) {
	l := newLab(t, lab.Options{Nodes: 2})
	inodes := map[string]bool{}
	for _, h := range []*lab.Host{l.Node(1).Host, l.Node(1).Pod, l.Router.Host, l.Router.World, l.Switch} {
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", h.NS().Fd()))
		if err != nil {
			t.Fatal(err)
		}
		inodes[link] = true
	}
	p, err := l.Node(1).Start(lab.Command{Path: "/bin/sleep", Args: []string{"1000"}})
	if err != nil {
		t.Fatal(err)
	}
	stubborn, err := l.Node(2).Start(lab.Command{Path: "/bin/sh", Args: []string{"-c", "trap '' TERM; while :; do sleep 1; done"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Node(1).Pod.StartPing(l.Node(2).PodAddr(routing.IPv4), lab.PingOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if p.Running() || stubborn.Running() {
		t.Error("a program survived Close")
	}
	if _, err := os.Stat(l.Dir()); !os.IsNotExist(err) {
		t.Errorf("directory %s is still there: %v", l.Dir(), err)
	}
	ctx, cancel := timeout(3 * time.Second)
	defer cancel()
	if err := lab.Eventually(ctx, func() error { return holder(inodes) }); err != nil {
		t.Error(err)
	}
}

// holder looks through all processes for one that still holds one of the
// namespaces, by being in it or by an open file.
func holder(namespaces map[string]bool) error {
	for _, pattern := range []string{"/proc/[0-9]*/task/[0-9]*/ns/net", "/proc/[0-9]*/fd/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, path := range paths {
			if link, err := os.Readlink(path); err == nil && namespaces[link] {
				return fmt.Errorf("%s still holds %s", path, link)
			}
		}
	}
	return nil
}

func timeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
