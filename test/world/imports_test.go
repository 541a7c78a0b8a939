package world

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// tells has the router tell of a network behind it.
func (c *cluster) tells(network string) {
	c.t.Helper()
	text := strings.Replace(birdRouter(), "ipv4 { import all; export none; };", "ipv4 { import all; export where proto = \"behind\"; };", 1) +
		fmt.Sprintf("protocol static behind { ipv4; route %s unreachable; }\n", network)
	c.must(os.WriteFile(c.Router.File("bird.conf"), []byte(text), 0o644))
	_, err := c.Router.Exec(context.Background(), "birdc", "-s", c.Router.File("bird.ctl"), "configure")
	c.must(err)
}

// TestImport has the router tell of a network behind it, and drains the link to it:
// what is imported goes with the default, and nothing is wrong meanwhile.
func TestImport(t *testing.T) {
	t.Parallel()
	config := strings.Replace(drainable(t), `, protect: {selector: "example.org/storage=yes"}`, "", 1)
	for _, r := range [][2]string{
		{"advertise: {networks: [loadBalancers]}", "advertise: {networks: [loadBalancers]}\n      import: [{networks: [corp], table: pods}]"},
		{"{from: pods, to: world},", "{from: pods, to: world}, {from: pods, to: corp},"},
		{"networks:\n", "networks:\n  corp: [172.30.0.0/16]\n"},
	} {
		if !strings.Contains(config, r[0]) {
			t.Fatalf("the example does not say %q", r[0])
		}
		config = strings.Replace(config, r[0], r[1], 1)
	}
	c := startWith(t, config, "bird", func(c *cluster) { c.tells("172.30.7.0/24") })
	two, node := c.daemons[1], c.Node(2)
	leaves := func(link string) func() error {
		return func() error {
			hop, err := node.FromPod(netip.MustParseAddr("172.30.7.9"))
			if err == nil && hop.Link != link {
				err = fmt.Errorf("it leaves by %v, not %s", hop, link)
			}
			return err
		}
	}
	imported := func() error {
		out, err := node.Exec(t.Context(), "ip", "route", "show", "table", "47")
		if err == nil && !strings.Contains(out, "172.30.7.0/24") {
			err = fmt.Errorf("table pods:\n%s", out)
		}
		return err
	}
	c.within(convergence, "the imported route", imported)
	c.must(leaves(lab.Ingress)())
	if out, err := two.Ctl(t.Context(), "verify"); err != nil || !strings.Contains(out, "corp") {
		t.Errorf("verify: %v\n%s", err, out)
	}
	if out, err := two.Ctl(t.Context(), "explain", "172.30.7.9", "--from", "pod"); err != nil || !strings.Contains(out, lab.Ingress) {
		t.Errorf("explain: %v\n%s", err, out)
	}
	c.safe(two)
	if out, err := two.Ctl(t.Context(), "drain", "--dry-run"); err != nil || !strings.Contains(strings.Join(strings.Fields(out), " "), "what routers tell of on ingress0 (1 network)") {
		t.Errorf("drain --dry-run: %v\n%s", err, out)
	}
	t.Logf("drain:\n%s", c.ctl(two, "drain", "--class", "world-pod"))
	c.must(leaves(lab.Mgmt)())
	if hop, err := node.FromPod(lab.WorldAddr.Of(routing.IPv4)); err != nil || hop.Link != lab.Mgmt {
		t.Errorf("egress of pods leaves by %v, %v", hop, err)
	}
	c.ctl(two, "undrain")
	c.within(convergence, "the imported route again", imported)
	c.must(leaves(lab.Ingress)())
	c.routerSawNothing()
}
