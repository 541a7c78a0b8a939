package faults

import (
	"fmt"
	"testing"
	"time"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/test/need"
)

// noticed is how long a router may be away until the status says so, and then some.
const noticed = 20 * time.Second

// TestRouterAway: who looks at the status sees why there is no session with the
// router, and that its class is not Ready.
func TestRouterAway(t *testing.T) {
	t.Parallel()
	need.Program(t, "bird")
	c := start(t, 2)
	class := func(health pb.Health) {
		t.Helper()
		c.within(noticed, "class world-pod "+health.String(), func() error {
			k, err := c.api.Class(c.t.Context(), "world-pod")
			if err == nil && k.GetHealth() != health {
				err = fmt.Errorf("it is %s: %s", k.GetHealth(), k.GetReason())
			}
			return err
		})
	}
	c.condition(noticed, "peer/udm/ipv4", "NoSession", "")
	c.condition(noticed, "peer/udm/ipv6", "NoSession", "")
	class(pb.Health_HEALTH_WAITING)
	config := func(as int) string {
		return fmt.Sprintf(`router id 10.47.0.254;
protocol device {}
protocol bgp nodes4 { local 10.47.0.254 as %[1]d; neighbor range 10.47.0.0/24 as 64512; dynamic name "node4_"; ipv4 { import all; export none; }; }
protocol bgp nodes6 { local fd00:47::fe as %[1]d; neighbor range fd00:47::/64 as 64512; dynamic name "node6_"; ipv6 { import all; export none; }; }
`, as)
	}
	wrong, err := c.Router.StartBIRD(config(64999))
	c.must(err)
	c.condition(noticed, "peer/udm/ipv4", "NoSession", "Bad Peer AS")
	class(pb.Health_HEALTH_WAITING)
	c.must(wrong.Kill())
	right, err := c.Router.StartBIRD(config(64513))
	c.must(err)
	class(pb.Health_HEALTH_READY)
	c.must(right.Kill())
	c.condition(2*noticed, "peer/udm/ipv4", "SessionDown", "")
	class(pb.Health_HEALTH_WAITING)
}
