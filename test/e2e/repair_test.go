package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// TestRepair disturbs k8s-1 in every way that a machine does, and wants the
// expected state back within a second and then silence: a state that is right
// is not written again.
func TestRepair(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{})
	one := c.Node(1)
	e := readExpectation(t)
	c.within(convergence, "the expected state", func() error { return e.matches(t.Context(), one) })
	c.sessionsUp(convergence)

	flap := func(link string) func() {
		return func() {
			took, err := one.Flap(link)
			c.must(err)
			if took > 5*time.Millisecond {
				t.Logf("%s was down for %v", link, took)
			}
		}
	}
	ip := func(lines ...string) func() {
		return func() {
			for _, line := range lines {
				c.ip(one, line)
			}
		}
	}
	downUp := func(link string) func() {
		return func() {
			c.must(one.LinkDown(link))
			time.Sleep(300 * time.Millisecond)
			c.must(one.LinkUp(link))
		}
	}
	renew := func(link string) func() {
		return func() {
			for _, f := range routing.Families {
				c.must(one.RemoveAddr(link, one.Prefix(link, f)))
			}
			time.Sleep(300 * time.Millisecond)
			c.must(one.LinkUp(link))
		}
	}
	m := c.monitor(one)
	// Some of this loses packets. None of it may send one to the router.
	stop := c.pings([2]int{1, 2}, [2]int{2, 1}, [2]int{1, 3})
	for _, step := range []struct {
		what    string
		disturb func()
		limit   time.Duration
	}{
		{"a rule deleted", ip("-4 rule del priority 1001", "-6 rule del priority 1000"), repair},
		{"a class path deleted", ip("-4 route del 10.244.2.0/24 table 47 metric 10", "-6 route del fd00:10:244:2::/64 table 47 metric 10"), repair},
		{"a fallback deleted", ip("-4 route del 10.244.3.0/24 table 47 metric 2000"), repair},
		{"the default deleted", ip("-4 route del default table 47", "-6 route del default table 47"), repair},
		{"a fence deleted", ip("-4 route del unreachable 10.244.0.0/16 table 47", "-6 route del unreachable fd00:10:244::/48 table 47"), repair},
		{"a guard deleted", ip("-4 route del unreachable 10.48.0.0/24 metric 4294967295", "-6 route del unreachable fd00:48::/64 metric 4294967295"), repair},
		{"table 47 flushed", ip("-4 route flush table 47", "-6 route flush table 47"), repair},
		{"ingress0 flapped", flap(lab.Ingress), repair},
		{"node0 flapped", flap(lab.NodeNet), repair},
		{"mgmt0 flapped", flap(lab.Mgmt), repair},
		{"cilium_host flapped", flap(lab.CNILink), repair},
		{"pod0 flapped", flap(lab.PodNet), repair},
		{"ingress0 down and up", downUp(lab.Ingress), repair},
		{"node0 down and up", downUp(lab.NodeNet), repair},
		{"the addresses of ingress0 removed and added", renew(lab.Ingress), repair},
		{"the addresses of node0 removed and added", renew(lab.NodeNet), repair},
		{"lo down and up", ip("link set lo down", "link set lo up"), repair},
		// Sessions end with the link, and the class paths return with them.
		{"pod0 down and up", downUp(lab.PodNet), convergence},
		{"the addresses of pod0 removed and added", renew(lab.PodNet), convergence},
	} {
		step.disturb()
		took := c.within(step.limit, step.what, func() error { return e.matches(t.Context(), one) })
		t.Logf("%s: repaired after %v", step.what, took.Round(time.Millisecond))
		c.sessionsUp(convergence)
		c.must(e.matches(t.Context(), one))
		if step.limit != repair {
			continue // its sessions may settle yet
		}
		m.changes()
		time.Sleep(200 * time.Millisecond)
		c.unchanged(m, "after "+step.what+", a later pass")
	}
	stop(anyNumber)
	c.routerSawNothing()
}

// TestQuiet looks again and again at a state that is right: nothing is written.
func TestQuiet(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{})
	one := c.Node(1)
	e := readExpectation(t)
	c.within(convergence, "the expected state", func() error { return e.matches(t.Context(), one) })
	c.sessionsUp(convergence)
	m := c.monitor(one)
	for _, poke := range []func() error{
		c.daemons[0].Reload,
		func() error { return c.daemons[0].WriteNodes(c.NodesFile()) },
		func() error { return c.daemons[0].WriteConfig(mustConfig(t)) },
		func() error { c.ip(one, "link set mgmt0 txqueuelen 900"); return nil }, // an event without a change
		c.daemons[0].Reload,
	} {
		c.must(poke())
		time.Sleep(300 * time.Millisecond)
	}
	c.unchanged(m, "a pass over the right state")
	c.must(e.matches(t.Context(), one))

	before, err := c.daemons[0].VoluntarySwitches()
	c.must(err)
	time.Sleep(3 * time.Second)
	after, err := c.daemons[0].VoluntarySwitches()
	c.must(err)
	pss, err := c.daemons[0].PSS()
	c.must(err)
	t.Logf("idle: %d voluntary context switches in 3 s; daemon and speaker together %d MB", after-before, pss>>20)
}

// TestNodesFile takes a node out of the nodes file and puts it back, breaks the
// file, and mends it.
func TestNodesFile(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{})
	one, d := c.Node(1), c.daemons[0]
	e := readExpectation(t)
	c.within(convergence, "the expected state", func() error { return e.matches(t.Context(), one) })
	c.sessionsUp(convergence)
	stop := c.pings([2]int{1, 2}, [2]int{2, 1})
	gone := func() error {
		lines, err := ours(t.Context(), one)
		for _, l := range lines {
			if strings.HasPrefix(l, "10.244.3.0/24") || strings.HasPrefix(l, "fd00:10:244:3::/64") {
				return fmt.Errorf("still there: %s", l)
			}
		}
		return err
	}
	c.must(d.WriteNodes(c.NodesFile(1, 2)))
	c.within(repair, "k8s-3 out of the nodes file", gone)

	c.must(d.WriteNodes("nodes: [{name: k8s-1, podCIDRs: [nonsense"))
	time.Sleep(repair)
	c.must(gone())
	if err := c.Separated(c.Node(1), c.Node(2)); err != nil {
		t.Errorf("with a broken nodes file: %v", err)
	}
	// As ConfigMaps and editors do it: another file is renamed over it.
	c.must(d.WriteNodes(c.NodesFile()))
	c.within(convergence, "k8s-3 back in the nodes file", func() error { return e.matches(t.Context(), one) })
	// Written in place, as a careless hand does.
	c.must(os.WriteFile(d.NodesFile, []byte(c.NodesFile(1, 2)), 0o644))
	c.within(repair, "k8s-3 out again", gone)
	stop(0)
	c.routerSawNothing()
}

// TestForeign puts objects of others among ours and wants them untouched, also
// by flush.
func TestForeign(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{})
	one, d := c.Node(1), c.daemons[0]
	foreign := []string{
		"-4 route add 198.51.100.0/24 via 10.48.0.2 table 47 proto static metric 77",
		"-4 route add 198.51.100.0/24 via 10.48.0.2 proto static metric 77",
		"-4 route add unreachable 203.0.113.0/24 table 47 proto static metric 4000",
		"-4 rule add from 10.244.0.0/16 lookup 47 priority 1001 proto static",
		"-4 rule add from 203.0.113.0/24 lookup 47 priority 1001 proto boot",
		"-4 rule add from 10.244.0.0/16 lookup 99 priority 2000 proto 148",
		"-4 route add 198.51.100.0/24 via 10.48.0.2 table 99 proto 148",
	}
	shown := func() string {
		routes := c.ip(one, "-N -4 route show table all 198.51.100.0/24") + c.ip(one, "-N -4 route show table 47 203.0.113.0/24")
		var rules strings.Builder
		for line := range strings.Lines(c.ip(one, "-N -4 rule show")) {
			if strings.HasPrefix(line, "2000:") || !strings.Contains(line, "proto 148") {
				rules.WriteString(line)
			}
		}
		return routes + rules.String()
	}
	for _, line := range foreign {
		c.ip(one, line)
	}
	want := shown()
	c.must(d.Reload())
	time.Sleep(repair)
	c.must(d.Restart())
	time.Sleep(repair)
	if got := shown(); got != want {
		t.Errorf("after a restart the foreign objects are\n%s\nwant\n%s", got, want)
	}
	c.must(d.Stop())
	_, err := one.Exec(t.Context(), lab.Built("netclassd"), "flush", "--config", d.ConfigFile, "--socket", d.Socket, "--state-dir", d.StateDir)
	c.must(err)
	if got := shown(); got != want {
		t.Errorf("after flush the foreign objects are\n%s\nwant\n%s", got, want)
	}
	left, err := ours(t.Context(), one)
	c.must(err)
	// Ours by number only, in a table and at a priority that never were ours.
	if len(left) != 2 {
		t.Errorf("after flush these are left:\n%s", strings.Join(left, "\n"))
	}
	c.routerSawNothing()
}

func mustConfig(t *testing.T) string {
	t.Helper()
	config, err := lab.SeedConfig()
	if err != nil {
		t.Fatal(err)
	}
	return config
}
