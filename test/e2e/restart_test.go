package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// startMixed makes a cluster one of whose nodes is set up by hand, with BIRD in
// the mesh, and whose others run a netclassd from a file of their own.
func startMixed(t *testing.T, handMade int) (*cluster, *lab.BIRD) {
	t.Helper()
	need.Root(t)
	need.Program(t, "nft")
	need.Program(t, "bird")
	need.Program(t, lab.Built("netclassd"))
	l, err := lab.New(t.Context(), lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{Lab: l, t: t}
	var bird *lab.BIRD
	t.Cleanup(func() {
		if t.Failed() {
			c.logs()
			if bird != nil {
				t.Logf("BIRD ends its log:\n%s", bird.LogTail(60))
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	bird, err = l.Node(handMade).StartHandMade(t.Context())
	c.must(err)
	for _, n := range l.Nodes {
		if n.Number == handMade {
			continue
		}
		binary := n.File("netclassd-binary")
		c.must(install(binary, 0))
		d, err := n.StartNetclassd(lab.NetclassdOptions{Binary: binary})
		c.must(err)
		c.daemons = append(c.daemons, d)
	}
	c.converge()
	c.sessionsUp(convergence)
	return c, bird
}

// install puts another build of netclassd in the place of a file, as a package
// manager does: the old file lives on while it runs. Builds differ in length.
func install(path string, build int) error {
	from, err := os.Open(lab.Built("netclassd"))
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err = io.Copy(to, from); err == nil {
		_, err = io.WriteString(to, strings.Repeat("x", build))
	}
	if e := to.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// builds returns the lengths of the programs that daemon and speaker run.
func (c *cluster) builds(d *lab.Netclassd) (daemon, speaker int64) {
	c.t.Helper()
	pid, err := d.Speaker()
	c.must(err)
	length := func(pid int) int64 {
		st, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
		c.must(err)
		return st.Size()
	}
	return length(d.PID()), length(pid)
}

// restartOver waits until BIRD has heard all again from a node that restarted.
// Should that restart once more before, BIRD must drop what it kept (RFC 4724
// §4.2).
func (c *cluster) restartOver(bird *lab.BIRD, node int) {
	c.t.Helper()
	c.within(restartTime, "the end of the restart at BIRD", func() error {
		for _, f := range routing.Families {
			name := fmt.Sprintf("k8s_%d_%s", node, f)
			out, err := bird.Ctl(c.t.Context(), "show", "protocols", "all", name)
			if err != nil {
				return err
			}
			if !strings.Contains(out, "Established") || strings.Contains(out, "graceful restart active") {
				return fmt.Errorf("%s:\n%s", name, out)
			}
		}
		return nil
	})
}

// birdTime is when a route came, as BIRD shows it: a time of another clock, which is
// a millisecond more or less from one question to the next.
var birdTime = regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{3}`)

// alike reports whether BIRD has said the same of its routes twice.
func alike(a, b string) bool {
	first, second := birdTime.FindAllString(a, -1), birdTime.FindAllString(b, -1)
	if len(first) != len(second) || birdTime.ReplaceAllString(a, "") != birdTime.ReplaceAllString(b, "") {
		return false
	}
	for i := range first {
		x, err := time.Parse("15:04:05.000", first[i])
		y, err2 := time.Parse("15:04:05.000", second[i])
		if err != nil || err2 != nil || x.Sub(y).Abs() > 10*time.Millisecond {
			return false
		}
	}
	return true
}

// heard returns what BIRD has learned from a node and when: routes that were
// withdrawn or changed in between have another time.
func (c *cluster) heard(bird *lab.BIRD, node int) string {
	c.t.Helper()
	var b strings.Builder
	for _, f := range routing.Families {
		out, err := bird.Ctl(c.t.Context(), "show", "route", "protocol", fmt.Sprintf("k8s_%d_%s", node, f))
		c.must(err)
		if !strings.Contains(out, c.Node(node).PodCIDR(f).String()) {
			c.t.Errorf("BIRD has no route of %s, %s:\n%s", lab.NodeName(node), f, out)
		}
		b.WriteString(out)
	}
	return b.String()
}

// TestRestarts ends and replaces a daemon in every way, under pings at 1 kHz and
// TCP between pods of all nodes: nothing is lost, nothing leaves by another link,
// no route in the kernel is touched, and BIRD keeps the routes that it has.
func TestRestarts(t *testing.T) {
	t.Parallel()
	c, bird := startMixed(t, 3)
	d := c.daemons[0]
	binary := c.Node(1).File("netclassd-binary")
	build := 0
	upgrade := func() {
		build++
		c.must(install(binary, build))
	}
	kill := func() {
		c.must(d.Kill())
		c.must(d.Start())
	}
	same := func(what string) {
		c.sessionsUp(restartTime)
		if daemon, speaker := c.builds(d); daemon != speaker {
			t.Errorf("%s: the speaker is another build (%d bytes) than its daemon (%d bytes)", what, speaker, daemon)
		}
	}

	m := c.monitor(c.Node(1))
	want := c.heard(bird, 1)
	tr := c.traffic([2]int{1, 2}, [2]int{2, 1}, [2]int{1, 3}, [2]int{3, 1})
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"a restart", func() { c.must(d.Restart()) }},
		{"an upgrade", func() {
			before, _ := c.builds(d)
			upgrade()
			c.must(d.Restart())
			c.sessionsUp(restartTime)
			if after, _ := c.builds(d); after == before {
				t.Error("the new build does not run")
			}
		}},
		{"the speaker's end after the file was replaced", func() { upgrade(); c.must(d.KillSpeaker()); time.Sleep(200 * time.Millisecond) }},
		{"the speaker's end after the file was removed", func() {
			c.must(os.Remove(binary))
			c.must(d.KillSpeaker())
			time.Sleep(200 * time.Millisecond)
			same("without a file")
			c.restartOver(bird, 1)
			upgrade()
		}},
		{"an upgrade by SIGKILL", kill},
		{"SIGKILL", kill},
		{"stopped for 5 s", func() { c.must(d.Stop()); time.Sleep(5 * time.Second); c.must(d.Start()) }},
	} {
		begin := time.Now()
		step.do()
		same(step.what)
		t.Logf("%s: sessions up again %.2f s after it began", step.what, time.Since(begin).Seconds())
		c.restartOver(bird, 1)
		c.unchanged(m, step.what)
		if got := c.heard(bird, 1); !alike(got, want) {
			t.Errorf("%s: BIRD has\n%s\nwant\n%s", step.what, got, want)
			want = got
		}
	}
	// What is to be dropped after the restart time would be by now.
	time.Sleep(restartTime + 500*time.Millisecond)
	c.unchanged(m, "the restart time after it all")
	if got := c.heard(bird, 1); !alike(got, want) {
		t.Errorf("the restart time after it all BIRD has\n%s\nwant\n%s", got, want)
	}
	tr.stop(0, lab.PodNet)
}

// TestKilledAnywhere kills a daemon with SIGKILL at random times after its start,
// again and again: what it leaves is always right, and the next takes it up.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c := start(t, lab.NetclassdOptions{})
	c.sessionsUp(convergence)
	d := c.daemons[0]
	m := c.monitor(c.Node(1))
	kills := 0
	killed := func(times int, within time.Duration) {
		for range times {
			c.must(d.Kill())
			c.must(d.Start())
			time.Sleep(time.Duration(random.Int64N(int64(within))))
			kills++
		}
	}
	tr := c.traffic([2]int{1, 2}, [2]int{2, 1}, [2]int{1, 3})
	for range 5 {
		killed(10, 300*time.Millisecond)
		c.sessionsUp(restartTime)
		c.unchanged(m, "killing it")
	}
	tr.stop(0, lab.PodNet)

	// The same while it installs everything: unseparated at worst.
	e := readExpectation(t)
	tr = c.traffic([2]int{1, 2}, [2]int{2, 1}, [2]int{1, 3})
	for range 12 {
		c.must(d.Kill())
		c.must(flush(c, d))
		c.must(d.Start())
		time.Sleep(time.Duration(random.Int64N(int64(250 * time.Millisecond))))
		killed(2, 250*time.Millisecond)
		c.within(convergence, "the expected state", func() error { return e.matches(t.Context(), c.Node(1)) })
		c.routerSawNothing()
	}
	tr.stop(0, lab.PodNet, lab.NodeNet)
	t.Logf("killed %d times", kills)
}

// flush runs netclassd flush beside a daemon that does not run.
func flush(c *cluster, d *lab.Netclassd) error {
	_, err := d.Node.Exec(c.t.Context(), lab.Built("netclassd"), "flush", "--config", d.ConfigFile, "--socket", d.Socket, "--state-dir", d.StateDir)
	return err
}
