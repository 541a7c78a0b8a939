package migrate

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

const convergence = 30 * time.Second // patience with a busy machine, not a promise

// cluster is a lab whose nodes are set up by hand to begin with.
type cluster struct {
	*lab.Lab
	t      *testing.T
	router *lab.BIRD
	nodes  []*node
}

// byHand makes a cluster with the set-up of the guide's beginning on every node:
// rules that the operating system declares, BIRD, and pods' traffic to the world
// masqueraded. netclassd's files are there, and nothing of it runs.
func byHand(t *testing.T) *cluster {
	t.Helper()
	need.Root(t)
	for _, program := range []string{"nft", "bird", "ip", "sysctl", lab.Built("netclassd"), lab.Built("netclassctl")} {
		need.Program(t, program)
	}
	l, err := lab.New(t.Context(), lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{Lab: l, t: t}
	t.Cleanup(func() {
		if t.Failed() {
			c.logs()
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	c.router, err = l.Router.StartBGP()
	c.must(err)
	for _, ln := range l.Nodes {
		n := &node{Node: ln}
		n.bird, err = ln.StartHandMade(t.Context())
		c.must(err)
		c.must(n.undeclareRules(t.Context())) // which have no protocol number
		c.must(n.declareRules(t.Context()))
		c.must(n.masquerade(t.Context()))
		c.must(ln.Sysctl(classLinkSettings()))
		n.d, err = ln.PrepareNetclassd(lab.NetclassdOptions{})
		c.must(err)
		// The goal; what is run is for the guide to put there.
		c.must(os.Rename(n.d.ConfigFile, filepath.Join(n.d.Dir, "mesh.yaml")))
		c.nodes = append(c.nodes, n)
	}
	c.within("the set-up by hand", func() error { return c.Separated(c.Nodes...) })
	return c
}

// classLinkSettings are what the guide asks for before anything else.
func classLinkSettings() map[string]string {
	all := map[string]string{}
	for _, link := range lab.ClassLinks {
		all["ipv4/conf/"+link+"/rp_filter"] = "0"
		all["ipv4/conf/"+link+"/ignore_routes_with_linkdown"] = "1"
		all["ipv6/conf/"+link+"/ignore_routes_with_linkdown"] = "1"
	}
	return all
}

// declaredRules are the four of the set-up by hand, to be added or deleted.
var declaredRules = []string{
	"-6 rule %s from fd00:10:244::/48 lookup 47 priority 1000",
	"-4 rule %s from 10.244.0.0/16 lookup 47 priority 1001",
	"-6 rule %s from fd00:47:64::/112 lookup 47 priority 1002",
	"-4 rule %s from 10.47.64.0/24 lookup 47 priority 1003",
}

// declareRules puts the rules there as Talos and systemd-networkd do: under the
// protocol number of what is configured.
func (n *node) declareRules(ctx context.Context) error {
	for _, rule := range declaredRules {
		if _, err := n.Exec(ctx, "ip", strings.Fields(fmt.Sprintf(rule, "add")+" proto static")...); err != nil {
			return err
		}
	}
	return nil
}

// undeclareRules takes away every rule at the declared ones' priorities, whoever's
// it is, as Talos before 1.13.1 does when a declared one goes.
func (n *node) undeclareRules(ctx context.Context) error {
	for _, rule := range declaredRules {
		words := strings.Fields(rule)
		for range 2 { // the declared one and netclassd's, which is put back at once
			_, err := n.Exec(ctx, "ip", words[0], "rule", "del", "priority", words[len(words)-1])
			if ended(err) && err != nil {
				break // there is none any more
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// masquerade gives pods' packets that leave the cluster the node's address.
func (n *node) masquerade(ctx context.Context) error {
	_, err := n.ExecInput(ctx, strings.NewReader(`
table inet cni {
	chain out {
		type nat hook postrouting priority srcnat;
		oifname != { ingress0, mgmt0 } return
		ip saddr 10.244.0.0/16 masquerade
		ip6 saddr fd00:10:244::/48 masquerade
	}
}
`), "nft", "-f", "-")
	return err
}

func (c *cluster) logs() {
	for _, n := range c.nodes {
		if n.d != nil && n.d.Process != nil {
			c.t.Logf("netclassd on %s ends its log:\n%s", n.Name, n.d.LogTail(40))
		}
		c.t.Logf("BIRD on %s ends its log:\n%s", n.Name, n.bird.LogTail(10))
	}
}

// within waits for a condition.
func (c *cluster) within(what string, check func() error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), convergence)
	defer cancel()
	if err := lab.Eventually(ctx, check); err != nil {
		c.t.Fatalf("%s: not within %v: %v", what, convergence, err)
	}
}

// orders runs commands on a node that must succeed.
func (c *cluster) orders(n *node, lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		out, err := n.run(c.t.Context(), line)
		if err != nil {
			c.t.Fatalf("%v\n%s", err, out)
		}
	}
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// ours matches a rule or route of netclassd's.
var ours = regexp.MustCompile(`\bproto 148\b`)

// stands returns nil when the kernel of every node is as it must be at rest: each
// pod's packets by pod0, those for the world by ingress0; every promise of a
// netclassd that runs held; and nothing of one that does not.
func (c *cluster) stands(ctx context.Context) error {
	if err := c.Separated(c.Nodes...); err != nil {
		return err
	}
	for _, n := range c.nodes {
		if n.d.Process != nil && n.d.Running() {
			for _, question := range []string{"status", "verify"} {
				if out, err := n.d.Ctl(ctx, question); err != nil {
					return fmt.Errorf("%w\n%s", err, out)
				}
			}
			continue
		}
		for _, show := range []string{"-N -4 rule show", "-N -6 rule show", "-N -4 route show table all", "-N -6 route show table all"} {
			out, err := n.Exec(ctx, "ip", strings.Fields(show)...)
			if err != nil {
				return err
			}
			if ours.MatchString(out) {
				return fmt.Errorf("netclassd does not run on %s, but there is\n%s", n.Name, out)
			}
		}
	}
	return nil
}

// established matches a session of the mesh in what BIRD shows.
var established = regexp.MustCompile(`(?m)^k8s_.*Established`)

// meshed returns nil when every BIRD and every netclassd that speaks BGP has all
// its sessions with the other nodes.
func (c *cluster) meshed(ctx context.Context) error {
	want := len(routing.Families) * (len(c.nodes) - 1)
	for _, n := range c.nodes {
		up := 0
		if n.bird.Running() {
			out, err := n.bird.Ctl(ctx, "show", "protocols")
			if err != nil {
				return err
			}
			up = len(established.FindAllString(out, -1))
		} else {
			out, err := n.d.Ctl(ctx, "peers", "--no-headers")
			if err != nil {
				return err
			}
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "k8s-") && strings.Contains(line, "Established") {
					up++
				}
			}
		}
		if up != want {
			return fmt.Errorf("%s has %d of %d sessions of the mesh", n.Name, up, want)
		}
	}
	return nil
}
