package networks

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// birdRestarts has Calico's BIRD crash and come back with a block more: graceful
// restart keeps the ways to its pods, and netclassd calls it again although both
// wait for a call. What it then tells of is believed where it may be: a block that
// the API has not said yet, but not what is another's or no pod's.
func (c *calico) birdRestarts() {
	c.t.Helper()
	stop := c.podPings(2, 1)
	c.must(c.bird.Kill())
	strange := []string{"203.0.113.0/24", inBlock(2, 0, 40, routing.IPv4).String() + "/32", "192.168.0.0/16"}
	c.must(os.WriteFile(c.Node(1).File("bird.conf"), []byte(c.birdConfig(append(strange, blockOf(1, 1, routing.IPv4).String())...)), 0o644))
	c.must(c.bird.Start())
	for _, n := range []int{2, 3} {
		c.within(patience, "BIRD hears of "+lab.NodeName(n)+" again", func() error { return c.birdHas(n, 0, routing.IPv4, true) })
		c.within(patience, "a block that BIRD alone knows of on "+lab.NodeName(n), func() error { return c.has(n, 1, 1, routing.IPv4, true) })
		for _, route := range c.ours(c.Node(n), "main") {
			if dst, _, _ := strings.Cut(route, " "); slices.Contains(strange, dst) || slices.Contains(strange, dst+"/32") {
				c.t.Errorf("%s believes %s", lab.NodeName(n), route)
			}
		}
	}
	stop()
}

// daemonRestarts has netclassd crash and come back, with BIRD and netclassd as its
// peers.
func (c *calico) daemonRestarts() {
	c.t.Helper()
	stops := []func(){c.podPings(1, 2), c.podPings(3, 2)}
	d := c.daemons[0]
	c.must(d.Kill())
	c.must(d.Start())
	c.within(patience, "sessions again", func() error {
		out, err := c.bird.Ctl(c.t.Context(), "show", "protocols")
		for _, f := range c.families {
			if err == nil && !regexp.MustCompile("(?m)^Mesh_2_"+f.String()+" .* Established").MatchString(out) {
				err = fmt.Errorf("not all are:\n%s", out)
			}
		}
		return err
	})
	c.converged()
	for _, stop := range stops {
		stop()
	}
}

// podPings pings the pod of a node from another's until stop is called, which
// fails the test if a packet is lost.
func (c *calico) podPings(from, to int) (stop func()) {
	c.t.Helper()
	var pingers []*lab.Pinger
	for _, f := range c.families {
		c.ping(c.Node(from).Pod, podOf(to, f).String())
		p, err := c.Node(from).Pod.StartPing(podOf(to, f), lab.PingOptions{Rate: 200})
		c.must(err)
		pingers = append(pingers, p)
	}
	return func() {
		c.t.Helper()
		for _, p := range pingers {
			if r := p.Stop(); r.Lost > 0 {
				c.t.Errorf("%v: want none lost", r)
			}
		}
	}
}
