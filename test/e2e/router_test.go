package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

// talkative is a router that announces a network of its own, and besides whatever
// would bring the cluster's packets to it.
const talkative = `
log stderr all;
router id 10.47.0.254;
protocol device {}
protocol static { ipv4;
	route 172.16.0.0/16 blackhole; route 172.16.9.0/24 blackhole; route 0.0.0.0/0 blackhole;
	route 10.244.0.0/16 blackhole; route 10.244.2.0/25 blackhole; route 10.46.0.2/32 blackhole; route 10.48.0.0/24 blackhole; route 198.51.100.0/24 blackhole; }
protocol static { ipv6;
	route 2001:db8:1::/48 blackhole; route ::/0 blackhole; route fd00:10:244:2::/64 blackhole; route fd00:48::/64 blackhole; }
protocol bgp nodes4 { local 10.47.0.254 as 64513; neighbor range 10.47.0.0/24 as 64512; dynamic name "node4_";
	ipv4 { import all; export all; next hop self; }; }
protocol bgp nodes6 { local fd00:47::fe as 64513; neighbor range fd00:47::/64 as 64512; dynamic name "node6_";
	ipv6 { import all; export all; next hop self; }; }
`

// TestImport takes a router's network into the table, for as long as it says so,
// and nothing that is the cluster's own.
func TestImport(t *testing.T) {
	t.Parallel()
	need.Program(t, "bird")
	text := strings.Replace(mustConfig(t), "advertise: {networks: [loadBalancers]}",
		"advertise: {networks: [loadBalancers]}\n      import: [{networks: [corp], table: pods}]", 1)
	text = strings.Replace(text, "\nnetworks:", "\nnetworks:\n  corp: [172.16.0.0/12, 10.48.0.0/12, \"2001:db8::/32\", \"fd00:48::/32\"]", 1)
	c := start(t, lab.NetclassdOptions{Config: text})
	stop := c.pings([2]int{1, 2}, [2]int{2, 1}, [2]int{3, 1})
	bird, err := c.Router.StartBIRD(talkative)
	c.must(err)
	imported := func(want ...string) func() error {
		return func() error {
			var wrong []error
			for _, n := range c.Nodes {
				var got []string
				for _, family := range []string{"-4", "-6"} {
					out, err := n.Exec(t.Context(), "ip", family, "route", "show", "table", "47")
					if err != nil {
						return err
					}
					for line := range strings.Lines(out) {
						if strings.Contains(line, "metric 500 ") {
							got = append(got, strings.Join(strings.Fields(line)[:5], " "))
						}
					}
				}
				if strings.Join(got, "\n") != strings.Join(want, "\n") {
					wrong = append(wrong, fmt.Errorf("%s imports:\n%s", n.Name, strings.Join(got, "\n")))
				}
			}
			return errors.Join(wrong...)
		}
	}
	c.within(convergence, "the import", imported(
		"172.16.0.0/16 via 10.47.0.254 dev ingress0", "172.16.9.0/24 via 10.47.0.254 dev ingress0", "2001:db8:1::/48 via fd00:47::fe dev ingress0"))
	c.said(c.daemons[0], []string{"peers", "udm"}, false, "a default route is never accepted", "in no network that is imported", "overlaps 10.48.0.0/24, a network of pod0")
	time.Sleep(time.Second)
	c.must(bird.Kill())
	c.within(convergence, "the end of the import", imported())
	stop(0)
	c.routerSawNothing()
}
