package intent_test

import (
	"strings"
	"testing"

	"netclass.dev/routing/intent"
)

// gapless is a configuration that lacks nothing.
const gapless = header + `networks: {pods: [10.244.0.0/16], nodes: [10.46.0.0/24], loadBalancers: [10.47.64.0/24]}
classes:
- {name: pod-pod, link: pod0, traffic: [{from: pods, to: pods}]}
- {name: world-pod, link: ingress0, traffic: [{from: pods, to: world}, {from: loadBalancers, to: world}]}
- {name: world-node, link: mgmt0, traffic: [{from: nodes, to: world}]}
tables:
- name: t
  id: 9
  rules:
  - {from: pods, priority: {ipv4: 1001}}
  - {from: loadBalancers, priority: {ipv4: 1003}}
  routes:
    connected: [mgmt0, pod0]
    own: {link: cni}
    peers: {link: pod0, learn: bgp, fallback: {link: node0, nextHop: internalIP}}
    default: {link: ingress0, gateway: {ipv4: 10.47.0.254}}
  fence: [pods, nodes, loadBalancers]
cluster: {nodesFile: n, addresses: {pod0: {ipv4: {annotation: x}}}}
bgp:
  asn: 64512
  mesh: {link: pod0}
  upstreams:
  - {name: udm, link: ingress0, peerASN: 64513, address: {ipv4: 10.47.0.254}, advertise: {networks: [loadBalancers]}}
`

// TestGaps: what is left out, and cuts somebody off or leaves a promise that nothing
// keeps, is warned of; where something else stands in for it, it is not.
func TestGaps(t *testing.T) {
	const (
		noOwn      = "table t: the fence has pods, but there is no own: pods of this node that are looked up here cannot reach each other; add own: {link: …} with the CNI's link of the host"
		noFallback = "table t: peers without a fallback, behind a fence: while pod0 is down pods of different nodes cannot reach each other; add fallback: {link: …, nextHop: internalIP}, or write fallback: none"
		noRule     = "class world-pod promises loadBalancers → world over ingress0, and no rule selects loadBalancers: it leaves by main's default"
		noReply    = "upstream udm is told of loadBalancers over ingress0, and no rule selects loadBalancers: the answers from there leave by main's default"
		noAddress  = "peers over pod0: cluster.addresses.pod0 is missing, so the other nodes are looked for at their InternalIPs, which are on node0; add it, or write nextHop: internalIP if they are on pod0"
		noMesh     = "mesh over pod0: cluster.addresses.pod0 is missing, so the other nodes are looked for at their InternalIPs, which are on node0; add it, or write address: internalIP if they are on pod0"
	)
	own := "    own: {link: cni}\n"
	fallback := ", fallback: {link: node0, nextHop: internalIP}"
	rule := "  - {from: loadBalancers, priority: {ipv4: 1003}}\n"
	addresses := ", addresses: {pod0: {ipv4: {annotation: x}}}"
	promise := ", {from: loadBalancers, to: world}"
	for _, test := range []struct {
		name    string
		replace []string
		want    []string
	}{
		{"nothing is missing", nil, nil},
		{"no own", []string{own, ""}, []string{noOwn}},
		{"no own, and the CNI's bridge is connected", []string{own, "", "[mgmt0, pod0]", "[mgmt0, pod0, cni0]"}, nil},
		{"no own, and a table before has it", []string{own, "", "tables:\n", "tables:\n- {name: u, id: 8, rules: [{from: pods, to: pods, priority: {ipv4: 900}}], routes: {own: {link: cni}}}\n"}, nil},
		{"no own, and a table behind has it", []string{own, "", "tables:\n", "tables:\n- {name: u, id: 8, rules: [{from: pods, to: pods, priority: {ipv4: 1900}}], routes: {own: {link: cni}}}\n"}, []string{noOwn}},
		{"no own, and main before", []string{own, "", "tables:\n", "tables:\n- {name: main, rules: [{to: pods, priority: {ipv4: 900}}]}\n"}, nil},
		{"no own, and pods are not asked about", []string{own, "", "  - {from: pods, priority: {ipv4: 1001}}\n", "", "{from: pods, to: world}, ", ""}, nil},
		{"no fallback", []string{fallback, ""}, []string{noFallback}},
		{"no fallback by choice", []string{fallback, ", fallback: none"}, nil},
		{"no fallback and no fence of pods", []string{fallback, "", "fence: [pods, nodes, ", "fence: [nodes, "}, []string{"table t has a default but no fence for pods: without a route of their own they go to the router"}},
		{"no rule", []string{rule, ""}, []string{noRule}},
		{"no rule and no promise", []string{rule, "", promise, ""}, []string{noReply}},
		{"no rule, but main's default is there", []string{rule, "", "link: mgmt0, traffic", "link: ingress0, traffic"}, nil},
		{"a wider rule", []string{rule, "  - {from: wide, priority: {ipv4: 1003}}\n", "networks: {", "networks: {wide: [10.47.0.0/16], "}, nil},
		{"a link that is fenced off", []string{"tables:\n", "- {name: ceph, link: ceph0, traffic: [{from: nodes, to: nodes}]}\ntables:\n"},
			[]string{"class ceph: pods cannot reach the network of ceph0: the fence of table t has it, like that of every class link that carries nothing of the world; list ceph0 in connected of table t if they are to"}},
		{"one that is connected", []string{"tables:\n", "- {name: ceph, link: ceph0, traffic: [{from: nodes, to: nodes}]}\ntables:\n", "pod0]", "pod0, ceph0]"}, nil},
		{"one that no pod's table fences", []string{"tables:\n", "- {name: ceph, link: ceph0, traffic: [{from: nodes, to: nodes}]}\ntables:\n", "  - {from: pods, priority: {ipv4: 1001}}\n", "", "{from: pods, to: world}, ", ""},
			[]string{"class ceph: no table uses link ceph0, so nothing here can make its traffic leave by it"}},
		{"addresses of two networks", []string{"loadBalancers: [10.47.64.0/24]", "services: [10.244.0.0/16], loadBalancers: [10.47.64.0/24]", "fence: [pods,", "fence: [services, pods,"},
			[]string{"services shares addresses with 10.244.0.0/16 of pods: each address should be of one of them only"}},
		{"no addresses", []string{addresses, ""}, []string{noAddress, noMesh}},
		{"InternalIPs by choice", []string{addresses, "", "learn: bgp", "learn: bgp, nextHop: internalIP", "{link: pod0}\n", "{link: pod0, address: internalIP}\n"}, nil},
		{"InternalIPs on that link", []string{addresses, "", "node0", "node1", "pod0", "node0", "node1, next", "mgmt0, next", "[{from: pods, to: pods}]", "[{from: pods, to: pods}, {from: nodes, to: nodes}]"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := gapless
			for i := 0; i < len(test.replace); i += 2 {
				if !strings.Contains(text, test.replace[i]) {
					t.Fatalf("no %q", test.replace[i])
				}
				text = strings.ReplaceAll(text, test.replace[i], test.replace[i+1])
			}
			var got []string
			_, problems := intent.Parse("f", []byte(text))
			for _, p := range problems {
				got = append(got, p.Message)
			}
			if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}
