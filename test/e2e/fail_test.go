package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// established returns nil when netclassctl shows every mesh session of the
// daemon, in both families, as Established.
func established(ctx context.Context, d *lab.Netclassd, sessions int) error {
	out, err := d.Ctl(ctx, "peers", "-o", "json")
	if err != nil {
		return err
	}
	var doc struct {
		Peers []struct {
			Name, State string
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		return fmt.Errorf("netclassctl peers: %w", err)
	}
	up := 0
	for _, p := range doc.Peers {
		if strings.HasPrefix(p.Name, "k8s-") && strings.Contains(strings.ToUpper(p.State), "ESTABLISHED") {
			up++
		}
	}
	if up != sessions {
		return fmt.Errorf("%s: %d of %d sessions are established", d.Node.Name, up, sessions)
	}
	return nil
}

// sessionsUp waits until all sessions of the mesh are up and returns how long it
// took.
func (c *cluster) sessionsUp(limit time.Duration) time.Duration {
	c.t.Helper()
	return c.within(limit, "sessions", func() error {
		for _, d := range c.daemons {
			if err := established(c.t.Context(), d, 2*(len(c.Nodes)-1)); err != nil {
				return err
			}
		}
		return nil
	})
}

// unchanged fails when the kernel of k8s-1 lost or gained a rule or route.
func (c *cluster) unchanged(m *monitor, what string) {
	c.t.Helper()
	if lines := m.changes(); len(lines) > 0 {
		c.t.Errorf("%s changed the kernel:\n%s", what, strings.Join(lines, "\n"))
	}
}

// TestDaemonsEnd restarts and kills daemons and speakers under pings: no packet
// is lost and no route is touched.
//
// It runs alone in this package, for the sake of the three seconds.
func TestDaemonsEnd(t *testing.T) {
	c := start(t, lab.NetclassdOptions{})
	c.sessionsUp(convergence)
	m := c.monitor(c.Node(1))
	stop := c.pings([2]int{1, 2}, [2]int{2, 1}, [2]int{1, 3})
	d, peer := c.daemons[0], c.daemons[1]
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"a restart", d.Restart},
		{"a peer's restart", peer.Restart},
		{"SIGKILL", func() error {
			if err := d.Kill(); err != nil {
				return err
			}
			return d.Start()
		}},
		{"a peer's SIGKILL", func() error {
			if err := peer.Kill(); err != nil {
				return err
			}
			return peer.Start()
		}},
		{"the speaker's SIGKILL", d.KillSpeaker},
		{"a peer's speaker's SIGKILL", peer.KillSpeaker},
	} {
		begin := time.Now()
		c.must(step.do())
		acted := time.Since(begin)
		// It must have been noticed before it can be over.
		time.Sleep(200 * time.Millisecond)
		took := c.sessionsUp(restartTime)
		t.Logf("after %s (%v) sessions are back within %v", step.what, acted.Round(time.Millisecond), (took + 200*time.Millisecond).Round(time.Millisecond))
		if strings.Contains(step.what, "speaker") && took > 3*time.Second {
			t.Errorf("after %s sessions needed %v, want under 3s", step.what, took)
		}
		c.unchanged(m, step.what)
	}
	stop(0)
	c.routerSawNothing()
}

// TestPeerGone stops a peer's daemon for good: its routes are held for the
// restart time and then give way to the fallback, without a lost packet.
func TestPeerGone(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{})
	one, three := c.Node(1), c.Node(3)
	c.sessionsUp(convergence)
	stop := c.pings([2]int{1, 3}, [2]int{3, 1}, [2]int{1, 2})
	begin := time.Now()
	c.must(c.daemons[2].Stop())
	c.within(restartTime+5*time.Second, "the fallback", func() error { return one.PodPaths(lab.NodeNet, three) })
	if took := time.Since(begin); took < restartTime-time.Second {
		t.Errorf("its routes were dropped after %v, before the restart time of %v", took, restartTime)
	} else {
		t.Logf("fallback after %v", took.Round(time.Millisecond))
	}
	if err := one.PodPaths(lab.PodNet, c.Node(2)); err != nil {
		t.Errorf("the other peer: %v", err)
	}
	time.Sleep(500 * time.Millisecond)
	stop(0)
	c.routerSawNothing()

	c.must(c.daemons[2].Start())
	c.converge()
}

// TestPowerOff cuts a node's power: what cannot be reached is unreachable, and
// nobody else notices.
func TestPowerOff(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{})
	one, three := c.Node(1), c.Node(3)
	c.sessionsUp(convergence)
	stop := c.pings([2]int{1, 2}, [2]int{2, 1})
	p, err := one.Pod.StartPing(three.PodAddr(routing.IPv4), lab.PingOptions{Rate: 100})
	c.must(err)
	c.must(three.PowerOff())
	took := c.within(20*time.Second, "the fallback", func() error { return one.PodPaths(lab.NodeNet, three) })
	t.Logf("class path dropped %v after the power cut", took.Round(time.Millisecond))
	p.Stop()
	stop(0)
	c.routerSawNothing()
}

// TestLinksDown takes class links away one after the other, with the daemons
// alive, and wants pods to stay reachable as long as there is a way.
func TestLinksDown(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{})
	one, two := c.Node(1), c.Node(2)
	c.sessionsUp(convergence)

	c.must(one.LinkDown(lab.PodNet))
	c.must(one.PodPaths(lab.NodeNet, two)) // at once: the kernel's own doing
	c.within(20*time.Second, "the way back", func() error { return two.PodPaths(lab.NodeNet, one) })
	stop := c.pings([2]int{1, 2}, [2]int{2, 1})
	time.Sleep(500 * time.Millisecond)
	stop(0)

	c.must(one.LinkDown(lab.Ingress))
	p, err := one.Pod.Ping(two.PodAddr(routing.IPv6), 10)
	c.must(err)
	if p.Lost > 0 {
		t.Errorf("with ingress0 down too: %v", p)
	}
	c.must(one.LinkDown(lab.NodeNet))
	if p, err = one.Pod.Ping(two.PodAddr(routing.IPv4), 10); err != nil || p.Received > 0 {
		t.Errorf("with no link left: %v %v", p, err)
	}
	for _, link := range []string{lab.NodeNet, lab.Ingress, lab.PodNet} {
		c.must(one.LinkUp(link))
	}
	c.converge()
	c.routerSawNothing()
}

// TestExitFlush stops a daemon that is to take its objects with it.
func TestExitFlush(t *testing.T) {
	t.Parallel()
	config := strings.Replace(mustConfig(t), "\nnetworks:", "\ndaemon: {onExit: flush}\n\nnetworks:", 1)
	c := start(t, lab.NetclassdOptions{Config: config})
	c.sessionsUp(convergence)
	stop := c.pings([2]int{1, 2}, [2]int{2, 1}, [2]int{1, 3})
	c.must(c.daemons[0].Stop())
	left, err := ours(t.Context(), c.Node(1))
	c.must(err)
	if len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
	c.within(5*time.Second, "the peers' fallback", func() error { return c.Node(2).PodPaths(lab.NodeNet, c.Node(1)) })
	stop(0)
	c.routerSawNothing()
}

// TestBadReload gives a running daemon a broken configuration: the last good one
// stays in force.
func TestBadReload(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{})
	d := c.daemons[0]
	c.sessionsUp(convergence)
	m := c.monitor(c.Node(1))
	c.must(d.WriteConfig("tables: [{name: pods, id: 253}]\nnonsense: true\n"))
	c.must(d.Reload())
	time.Sleep(repair)
	c.unchanged(m, "a bad reload")
	out, _ := d.Ctl(t.Context(), "status")
	if !strings.Contains(out, `missing key "apiVersion"; and 2 more`) {
		t.Errorf("status does not tell of the bad configuration:\n%s", out)
	}
	c.must(d.WriteConfig(mustConfig(t)))
	c.must(d.Reload())
	time.Sleep(repair)
	c.unchanged(m, "a good reload")
	if out, _ = d.Ctl(t.Context(), "status"); strings.Contains(out, "apiVersion") {
		t.Errorf("status still tells of the bad configuration:\n%s", out)
	}
}
