package migrate

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// trouble is something that the guide's tables warn of, and the sign that they
// name.
type trouble struct {
	what        string
	spoil, mend func() error
	config      string
	look, sign  string
}

// troubles lists those of a node.
func (c *cluster) troubles(n *node) []trouble {
	ip := func(args string) func() error {
		return func() error {
			_, err := n.Exec(c.t.Context(), "ip", strings.Fields(args)...)
			return err
		}
	}
	filter := func(value string) func() error {
		return func() error { return n.Sysctl(map[string]string{"ipv4/conf/cilium_host/rp_filter": value}) }
	}
	inventory := func(text string) func() error {
		return func() error { return n.d.WriteNodes(text) }
	}
	nothing := func() error { return nil }
	nodes := c.NodesFile()
	bare := strings.Replace(nodes, "      net.renner.uno/pod0-v4: \"10.48.0.3\"\n", "", 1)
	return []trouble{
		{
			"the CNI does not route another node's pods",
			ip("-4 route del 10.244.2.0/24 via 10.46.0.2 dev node0"),
			ip("-4 route add 10.244.2.0/24 via 10.46.0.2 dev node0 proto kernel"),
			"beside.yaml", "netclassctl verify", "there is no path by node0",
		},
		{
			"a strict filter on the CNI's link", filter("1"), filter("0"),
			"beside.yaml", "netclassctl verify", "is rp_filter strict on cilium_host",
		},
		{
			"a node without an annotation", inventory(bare), inventory(nodes),
			"beside.yaml", "netclassd adopt --config /etc/netclassd/beside.yaml --protocol bird --table pods --dry-run", "metric 2000 is in",
		},
		{
			"the configuration of the second round while BIRD runs", nothing, nothing,
			"mesh.yaml", "netclassctl status", "address already in use by bird",
		},
	}
}

// TestSigns brings about what the guide's tables warn of, and looks for the signs
// that they name.
func TestSigns(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	c := byHand(t)
	one := c.nodes[0]
	c.orders(one, "sed -e 's/learn: bgp/learn: nodes/' -e '/^bgp:/,$d' /etc/netclassd/mesh.yaml >/etc/netclassd/beside.yaml")
	for _, tr := range c.troubles(one) {
		if !strings.Contains(string(guide), tr.sign) {
			t.Errorf("%s: %s does not name the sign %q", tr.what, guideFile, tr.sign)
		}
		c.orders(one, "cp /etc/netclassd/"+tr.config+" /etc/netclassd/config.yaml", "systemctl start netclassd")
		if tr.config == "beside.yaml" {
			c.within(tr.what+": no sign before there is a reason", func() error {
				if _, err := one.run(t.Context(), "netclassctl status"); err != nil {
					return err
				}
				return tr.shown(c, one, false)
			})
		}
		c.must(tr.spoil())
		c.within(tr.what, func() error { return tr.shown(c, one, true) })
		c.must(tr.mend())
		c.orders(one, "systemctl stop netclassd", "netclassd flush")
	}
}

// shown returns nil when the sign is there, or is not.
func (tr *trouble) shown(c *cluster, n *node, want bool) error {
	out, err := n.run(c.t.Context(), tr.look)
	if !ended(err) {
		return err
	}
	if strings.Contains(out, tr.sign) != want {
		return fmt.Errorf("%q should be there: %v\n%s", tr.sign, want, out)
	}
	return nil
}
