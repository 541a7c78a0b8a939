package world

import (
	"fmt"
	"strings"
	"testing"

	"netclass.dev/test/lab"
)

// TestImport takes one network from a router into the pods' table, and none of
// what the router tells beside it: a default, the cluster's own, another network.
func TestImport(t *testing.T) {
	t.Parallel()
	config := strings.NewReplacer("  loadBalancers: [", `  corp: [198.51.100.0/24, "2001:db8:c0::/48"]
  loadBalancers: [`, "advertise: {networks: [loadBalancers]}", `advertise: {networks: [loadBalancers]}
      import: [{networks: [corp], table: pods}]`).Replace(example(t, "config.yaml"))
	told := ""
	for i, prefixes := range [][]string{
		{"0.0.0.0/0", "198.51.100.0/24", "198.51.100.128/25", "198.51.0.0/16", "10.244.9.0/24", "10.46.0.0/25", "203.0.113.0/24"},
		{"::/0", "2001:db8:c0::/48", "2001:db8:c0:1::/64", "fd00:10:244:9::/64", "2001:db8:f::/48"},
	} {
		told += fmt.Sprintf("protocol static told%d { ipv%d; ", i, 4+2*i)
		for _, p := range prefixes {
			told += "route " + p + " unreachable; "
		}
		told += "}\n"
	}
	c := startWith(t, config, "", func(c *cluster) {
		b, err := c.Router.StartBIRD(strings.NewReplacer("export none; };\n}", "export where source = RTS_STATIC; next hop self; };\n}",
			"import none; export all;", "import none; export none;").Replace(c.birdConfig()) + told)
		c.must(err)
		t.Cleanup(func() {
			if t.Failed() {
				out, _ := b.Ctl(t.Context(), "show", "protocols", "all")
				t.Log(out)
			}
		})
	})
	one := c.daemons[0]
	c.within(convergence, "the imported routes", func() error {
		for family, want := range map[string][]string{"-4": {"198.51.100.0/24", "198.51.100.128/25"}, "-6": {"2001:db8:c0:1::/64", "2001:db8:c0::/48"}} {
			out, err := c.Node(1).Exec(t.Context(), "ip", family, "route", "show", "table", "47", "proto", "148")
			if err != nil {
				return err
			}
			var got []string
			for l := range strings.Lines(out) {
				if strings.Contains(l, "metric 500") {
					if !strings.Contains(l, "dev "+lab.Ingress) {
						return fmt.Errorf("not over %s: %s", lab.Ingress, l)
					}
					got = append(got, strings.Fields(l)[0])
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("%s: imported %v, want %v", family, got, want)
			}
		}
		return nil
	})
	out := c.ctl(one, "peers", "udm")
	for _, text := range []string{"a default route is never accepted", "10.244.9.0/24", "198.51.0.0/16", "in no network that is imported"} {
		if !strings.Contains(out, text) {
			t.Errorf("peers udm does not tell of %q:\n%s", text, out)
		}
	}
	c.ctl(one, "verify")
	c.routerSawNothing()
}
