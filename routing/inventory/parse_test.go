package inventory_test

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"netclass.dev/routing"
	"netclass.dev/routing/inventory"
)

var equalAddrs = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

func TestParseSeed(t *testing.T) {
	data, err := os.ReadFile("../../examples/seed/nodes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	nodes, problems := inventory.Parse("nodes.yaml", data)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var want []routing.Node
	for i := 1; i <= 3; i++ {
		want = append(want, routing.Node{
			Name:        fmt.Sprintf("k8s-%d", i),
			PodCIDRs:    []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", i)), netip.MustParsePrefix(fmt.Sprintf("fd00:10:244:%d::/64", i))},
			InternalIPs: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("10.46.0.%d", i)), netip.MustParseAddr(fmt.Sprintf("fd00:46::%d", i))},
			Annotations: map[string]string{
				"net.renner.uno/pod0-v4": fmt.Sprintf("10.48.0.%d", i), "net.renner.uno/pod0-v6": fmt.Sprintf("fd00:48::%d", i),
				"net.renner.uno/egress-gw-v4": "10.47.0.254", "net.renner.uno/egress-gw-v6": "fd00:47::fe",
			},
		})
	}
	if diff := cmp.Diff(want, nodes, equalAddrs); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestParseErrors(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "f: nodes file is empty; write `nodes: []` if there are none"},
		{"comments", "# none\n", "f: nodes file is empty; write `nodes: []` if there are none"},
		{"null", "nodes:\n", "f:1:1: nodes has no value, want a list; indent what belongs to it, or leave the key out for its default"},
		{"not a mapping", "- name: a\n", "f:1:1: the document must be a mapping, not a list"},
		{"no nodes", "{}\n", `f:1:1: missing key "nodes"`},
		{"syntax", "nodes: [\n", "f:1:8: sequence end token ']' not found"},
		{"everything at once", `nodes:
  - name: a
    podCIDR: [10.0.0.0/24]
  - name: b
    podCIDRs: [10.0.1.1/24, 10.0.1.0/24, 10.0.1.0/24, 10.0.1.0/25, nonsense, 10.0.2.0]
    internalIPs: [10.0.0.1, 10.0.0.1, "::ffff:10.0.0.1", fe80::1%eth0, 10.0.0.0/8, 0.0.0.0]
    annotations: {x: 1, y: [z], x: again}
  - name: a
  - name: A
  - podCIDRs: []
  - name: ""
  - name: 7
  - text
more: 1
`, `f:3:5: unknown key "podCIDR" of nodes; did you mean "podCIDRs"?
f:5:16: podCIDRs has host bits set: 10.0.1.1/24; write 10.0.1.0/24
f:5:42: duplicate pod CIDR 10.0.1.0/24
f:5:55: pod CIDR 10.0.1.0/25 overlaps 10.0.1.0/24 of the same node
f:5:68: podCIDRs is not a network in CIDR form: "nonsense"
f:5:78: podCIDRs lacks its prefix length: write 10.0.2.0/32 for the one address
f:6:29: duplicate InternalIP 10.0.0.1
f:6:39: internalIPs is an IPv4-mapped address; write 10.0.0.1
f:6:58: internalIPs has a zone; write the address alone, the link is named apart
f:6:72: internalIPs must be an address without a prefix length, not "10.0.0.0/8"
f:6:84: internalIPs is no address of a host on a link: 0.0.0.0
f:7:22: x must be text, not a number; put it in quotes
f:7:28: y must be text, not a list
f:7:33: duplicate key "x"; it is on line 7 already
f:8:11: duplicate node "a"; it is on line 2 already
f:9:11: node "A" differs from "a" on line 2 in upper and lower case alone
f:10:5: missing key "name" of nodes
f:11:11: "" is no valid name of a node: want 1 to 253 letters, digits, dots and -
f:12:11: name must be text, not a number; put it in quotes
f:13:5: nodes must be a mapping, not text
f:14:1: unknown key "more"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			nodes, problems := inventory.Parse("f", []byte(test.text))
			if nodes != nil {
				t.Errorf("got nodes in spite of errors: %v", nodes)
			}
			if diff := cmp.Diff(test.want, problems.Brief()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestParseNone(t *testing.T) {
	nodes, problems := inventory.Parse("f", []byte("nodes: []\n"))
	if nodes == nil || len(nodes) > 0 || len(problems) > 0 {
		t.Errorf("got %v, %v", nodes, problems)
	}
}

// manyNodes is a nodes file as a cluster of n would have it.
func manyNodes(n int) []byte {
	var b strings.Builder
	b.WriteString("nodes:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - name: node-%d\n    podCIDRs: [10.%d.%d.0/24, \"fd00:10:%x::/64\"]\n    internalIPs: [172.16.%d.%d, \"fd00:46::%x\"]\n    annotations:\n", i, i/256, i%256, i, i/256, i%256, i+1)
		fmt.Fprintf(&b, "      example.org/pod0-4: 172.20.%d.%d\n      example.org/pod0-6: \"fd00:48::%x\"\n      example.org/gw4: 10.47.0.254\n      example.org/gw6: \"fd00:47::fe\"\n", i/256, i%256, i+1)
	}
	return []byte(b.String())
}

func TestParseMany(t *testing.T) {
	data := manyNodes(5000)
	start := time.Now()
	nodes, problems := inventory.Parse("f", data)
	if len(nodes) != 5000 || len(problems) > 0 {
		t.Fatalf("got %d nodes, problems %v", len(nodes), problems)
	}
	t.Logf("5,000 nodes, %d bytes: %v", len(data), time.Since(start))
}

func BenchmarkParse(b *testing.B) {
	data := manyNodes(5000)
	b.ReportAllocs()
	for b.Loop() {
		inventory.Parse("f", data)
	}
}

func FuzzParse(f *testing.F) {
	seed, err := os.ReadFile("../../examples/seed/nodes.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{string(seed), "", "nodes: []\n", "nodes:\n- name: a\n", "nodes: [{name: a, podCIDRs: [::/0]}]", "nodes: &a [*a]", "? - - [{"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, problems := inventory.Parse("f", data)
		if (nodes == nil) == (len(problems.Errors()) == 0) {
			t.Fatalf("nodes %v and problems %v", nodes, problems)
		}
		for _, p := range problems {
			if p.Message == "" || p.Line < 0 || p.Column < 0 || p.String() == "" {
				t.Errorf("problem without a message or place: %+v", p)
			}
		}
		for i, n := range nodes {
			if n.Name == "" || i > 0 && nodes[i-1].Name >= n.Name {
				t.Errorf("node %d has no name of its own", i)
			}
			for _, p := range n.PodCIDRs {
				if p != p.Masked() || p.Addr().Is4In6() {
					t.Errorf("bad pod CIDR %s", p)
				}
			}
		}
	})
}
