package world

import (
	"strings"
	"testing"
	"time"

	"netclass.dev/test/lab"
)

// TestRestart counts what the world notices of a netclassd that is stopped and
// started, or killed: not a ping, but the router moves connections when an announcement
// goes and when it comes back. They are reset, unless every node takes a connection to
// the same pod, or the router keeps the routes of one that was killed.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		keeps, balancing bool
	}{{name: "default"}, {name: "router keeps routes", keeps: true}, {name: "consistent balancing", balancing: true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			config, peer := example(t, "config.yaml"), "      peerASN: 64513\n"
			if tt.keeps {
				config = strings.Replace(config, peer, peer+"      gracefulRestart: {restartTime: 30s}\n", 1)
			}
			c := start(t, config, "bgpd")
			if tt.balancing {
				for _, n := range c.Nodes {
					c.balance(n, c.Node(1))
				}
			}
			c.must(c.Router.Sysctl(map[string]string{"ipv4/fib_multipath_hash_policy": "1", "ipv6/fib_multipath_hash_policy": "1"}))
			for _, planned := range []bool{true, false} {
				kept := tt.keeps && !planned
				r := c.restart(c.daemons[2], planned, kept)
				if r.lost > moves {
					t.Errorf("%v, want none lost", r)
				}
				if free := kept || tt.balancing; free != (r.reset == 0) {
					t.Errorf("%v, want none reset: %t", r, free)
				}
			}
			c.routerSawNothing()
		})
	}
}

// moves is how often the router changes its routes. Once, on a busy machine, one of
// 8,439 pings was lost to that.
const moves = 2

// restart ends netclassd on a node and starts it again, and returns what became of
// the world's traffic.
func (c *cluster) restart(d *lab.Netclassd, planned, kept bool) result {
	c.t.Helper()
	by := func(nodes int) func() error {
		return func() error { return c.routerKnows(lab.LoadBalancers, nodes) }
	}
	c.within(convergence, "the router's routes", by(3))
	l := &load{c: c}
	l.fromWorld()
	time.Sleep(time.Second)
	how := "killed"
	if planned {
		how = "stopped"
		c.must(d.Stop())
	} else {
		c.must(d.Kill())
	}
	while := 2
	if kept {
		while = 3
	}
	time.Sleep(time.Second) // the unit's RestartSec
	c.within(convergence, "the router's routes without netclassd on "+d.Node.Name, by(while))
	c.must(d.Start())
	c.within(convergence, "the router's routes again", by(3))
	time.Sleep(2 * time.Second)
	c.must(by(3)())
	c.t.Logf("netclassd on %s %s and started, router keeps its routes: %t", d.Node.Name, how, kept)
	return l.stop()["world to VIP"]
}
