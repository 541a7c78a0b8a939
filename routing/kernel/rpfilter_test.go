package kernel_test

import "testing"

// TestRPFilter: the filter that is in force on a link is the greater of its own and
// that of all links.
func TestRPFilter(t *testing.T) {
	n := newNode(t)
	for _, test := range []struct {
		all, link string
		want      uint8
	}{{"0", "0", 0}, {"0", "1", 1}, {"2", "1", 2}, {"1", "0", 1}, {"0", "2", 2}, {"0", "0", 0}} {
		must(t, n.Sysctl("ipv4/conf/all/rp_filter", test.all))
		must(t, n.Sysctl("ipv4/conf/pod0/rp_filter", test.link))
		if got := n.dump(t).Link("pod0").RPFilter; got != test.want {
			t.Errorf("all %s, link %s: %d, want %d", test.all, test.link, got, test.want)
		}
	}
}
