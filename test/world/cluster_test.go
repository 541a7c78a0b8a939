// Package world has packets come to load balancer addresses from behind a real
// router, in FRR or BIRD, and follows the replies.
package world

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

const convergence = time.Minute // patience with a busy machine, not a promise

// cluster is a lab with a netclassd on each node, a router that installs what the
// nodes announce, and a client on the nodes' own VLAN beside the one in the world.
type cluster struct {
	*lab.Lab
	t       *testing.T
	daemons []*lab.Netclassd
	near    *lab.Host // on VLAN 40, behind the router like everybody who is no node
}

// nearNumber is the near client's on its VLAN.
const nearNumber = 222

// start makes a cluster with a router of a kind, and waits until its classes are
// apart and the router knows the way to every address of prefixes.
func start(t *testing.T, config, kind string) *cluster {
	t.Helper()
	return startWith(t, config, kind, nil)
}

// startWith is start with something done once the nodes are there and before
// their daemons start.
func startWith(t *testing.T, config, kind string, before func(*cluster)) *cluster {
	t.Helper()
	router := birdRouter()
	if kind != "bird" {
		router = fmt.Sprintf(frrConfig, routerAddr(lab.Ingress, routing.IPv4),
			lab.LinkNetwork(lab.Ingress, routing.IPv4), lab.LinkNetwork(lab.Ingress, routing.IPv6))
	}
	return startRouted(t, config, kind, router, before)
}

// startRouted is startWith with a configuration of the router.
func startRouted(t *testing.T, config, kind, router string, before func(*cluster)) *cluster {
	t.Helper()
	need.Root(t)
	for _, program := range []string{"nft", "ip", lab.Built("netclassd"), kind} {
		need.Program(t, program)
	}
	l, err := lab.New(t.Context(), lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{Lab: l, t: t}
	t.Cleanup(func() {
		if t.Failed() {
			for _, d := range c.daemons {
				t.Logf("netclassd on %s ends its log:\n%s", d.Node.Name, d.LogTail(40))
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	c.near, err = l.AddClient("near", lab.Mgmt, nearNumber)
	c.must(err)
	c.startRouter(kind, router)
	if before != nil {
		before(c)
	}
	for _, n := range l.Nodes {
		c.serves(n)
		d, err := n.StartNetclassd(lab.NetclassdOptions{Config: config})
		c.must(err)
		c.daemons = append(c.daemons, d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), convergence)
	defer cancel()
	_, err = c.WaitSeparated(ctx)
	c.must(err)
	return c
}

// startRouter starts the router's daemon: it takes what the nodes announce over
// ingress0 and spreads packets over those who announce the same.
func (c *cluster) startRouter(kind, config string) {
	c.t.Helper()
	var err error
	if kind == "bird" {
		_, err = c.Router.StartBIRD(config)
	} else {
		_, err = c.Router.StartFRR(config)
	}
	c.must(err)
}

func birdRouter() string {
	return fmt.Sprintf(birdConfig, routerAddr(lab.Ingress, routing.IPv4), lab.LinkNetwork(lab.Ingress, routing.IPv4),
		routerAddr(lab.Ingress, routing.IPv6), lab.LinkNetwork(lab.Ingress, routing.IPv6))
}

func routerAddr(link string, f routing.Family) string {
	return lab.ClientAddr(link, 254, f)
}

const birdConfig = `
log stderr all;
router id %[1]s;
protocol device {}
protocol kernel { merge paths on; ipv4 { import none; export all; }; }
protocol kernel { merge paths on; ipv6 { import none; export all; }; }
protocol bgp nodes4 {
	local %[1]s as 64513;
	neighbor range %[2]s as 64512;
	dynamic name "node4_";
	error wait time 1, 4;
	ipv4 { import all; export none; };
}
protocol bgp nodes6 {
	local %[3]s as 64513;
	neighbor range %[4]s as 64512;
	dynamic name "node6_";
	error wait time 1, 4;
	ipv6 { import all; export none; };
}
`

const frrConfig = `frr defaults datacenter
hostname udm
router bgp 64513
 bgp router-id %[1]s
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 neighbor nodes peer-group
 neighbor nodes remote-as 64512
 bgp listen range %[2]s peer-group nodes
 neighbor nodes6 peer-group
 neighbor nodes6 remote-as 64512
 bgp listen range %[3]s peer-group nodes6
 address-family ipv4 unicast
  neighbor nodes activate
  maximum-paths 8
 exit-address-family
 address-family ipv6 unicast
  neighbor nodes6 activate
  maximum-paths 8
 exit-address-family
`

// example returns one of the seed's configurations with the nodes file of the lab.
func example(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "examples", "seed", name))
	if err != nil {
		t.Fatal(err)
	}
	return lab.WithNodesFile(string(b))
}

// within waits for a condition no longer than the limit and returns how long it
// took.
func (c *cluster) within(limit time.Duration, what string, check func() error) time.Duration {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	begin := time.Now()
	if err := lab.Eventually(ctx, check); err != nil {
		c.t.Fatalf("%s: not within %v: %v", what, limit, err)
	}
	return time.Since(begin)
}

// must ends the test on an error.
func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// routerSawNothing is the hard constraint.
func (c *cluster) routerSawNothing() {
	c.t.Helper()
	counts, err := c.Router.Counts()
	c.must(err)
	if counts.Total() == 0 {
		return
	}
	offenders, err := c.Router.Offenders()
	c.t.Errorf("the router saw %d cluster packets: %s %v", counts.Total(), strings.Join(offenders, " "), err)
}
