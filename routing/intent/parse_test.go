package intent_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"netclass.dev/routing"
	"netclass.dev/routing/intent"
)

const header = "apiVersion: netclass.dev/v1alpha1\n"

// TestProblems has what everyError cannot: faults that hide others, those of
// sections that are missing, warnings, and what is not built.
func TestProblems(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"no version", "networks: {}\n", "1:1: error: missing key \"apiVersion\"\n"},
		{"syntax", "networks: {pods: [10.0.0.0/8}\n", "1:29: error: ',' or ']' must be specified\n"},
		{"second document", header + "---\nnode: a\n", "2:1: error: a second YAML document is not allowed\n"},
		{"anchor and alias", header + "networks: {a: &x [10.0.0.0/8], b: *x}\n", "2:15: error: anchors are not supported; write the value out\n2:35: error: aliases are not supported; write the value out\n"},
		{"merge key", header + "api:\n  <<: {readers: a}\n", "3:3: error: merge keys are not supported; write the value out\n"},
		{"tag", header + "node: !!str a\n", "2:7: error: tags are not supported; write the value out\n"},
		{"kubernetes null", header + "cluster: {kubernetes: null}\n", "2:23: error: kubernetes must be a mapping; {} means the credentials of the pod\n"},
		{"kubernetes empty", header + "cluster: {kubernetes: {}}\n", ""},
		{"nodes file and kubernetes", header + "cluster: {nodesFile: n, kubernetes: {}, podCIDRs: node}\n", "2:10: error: cluster needs exactly one of nodesFile and kubernetes\n"},
		{"pod CIDRs of a nodes file", header + "cluster: {nodesFile: n, podCIDRs: calico}\n", "2:35: error: podCIDRs: calico needs kubernetes; a nodes file lists them itself\n"},
		{"publish to a nodes file", header + "cluster: {nodesFile: n, publish: missing}\n", "2:34: error: publish: missing needs kubernetes; a nodes file is not written to\n"},
		{"no cluster, no mesh", header + "tables: [{name: t, id: 9, routes: {own: {type: blackhole}, peers: {link: a, learn: bgp}, default: {link: a, gateway: {ipv4: {annotation: x}}}}}]\n",
			"2:41: error: own needs the nodes to be known: add cluster, with nodesFile or kubernetes\n" +
				"2:67: error: learn: bgp needs bgp.mesh\n" +
				"2:67: error: peers needs the nodes to be known: add cluster, with nodesFile or kubernetes\n" +
				"2:125: error: an annotation needs the nodes to be known: add cluster, with nodesFile or kubernetes\n"},
		{"fenced gateway", header + `networks: {all: [10.0.0.0/8]}
classes: [{name: c, link: inside, traffic: [{from: all, to: all}]}]
tables: [{name: t, id: 9, fence: [all], routes: {default: {link: out, gateway: {ipv4: 10.1.0.1}}, connected: [inside]}}]
guard: {networks: [all]}
`, "4:34: error: fence: all (10.0.0.0/8) contains the gateway 10.1.0.1 of the default, whose link out no class has; name narrower networks, or give out a class\n" +
			"5:8: error: guard: all (10.0.0.0/8) contains the gateway 10.1.0.1 of the default, whose link out no class has; name narrower networks, or give out a class\n"},
		{"class of the default's link", header + `networks: {all: [10.0.0.0/8]}
classes: [{name: c, link: out, traffic: [{from: all, to: world}]}]
tables: [{name: t, id: 9, fence: [all], rules: [{from: all, priority: {ipv4: 9}}], routes: {default: {link: out, gateway: {ipv4: 10.1.0.1}}}}]
guard: {networks: [all]}
`, ""},
		{"accept within, mtu", header + "networks: {x: [10.0.0.0/8]}\ncluster: {nodesFile: n}\ntables: [{name: t, id: 9, routes: {peers: {link: a, learn: nodes, accept: within, mtu: 1000}}}]\n",
			"4:43: error: accept: within needs the network pods\n"},
		{"mtu of IPv6", header + "networks: {pods: [\"fd00::/48\"]}\ncluster: {nodesFile: n}\ntables: [{name: t, id: 9, routes: {peers: {link: a, learn: nodes, mtu: 1000}}}]\n",
			"4:43: error: mtu must be at least 1280 where pods have IPv6, not 1000\n"},
		{"local preference", header + "bgp: {asn: 64512, upstreams: [{name: u, link: a, peerASN: 64513, address: {ipv4: 10.0.0.1}, advertise: {localPreference: 5}}]}\n",
			"2:122: error: localPreference is for peers of our own AS 64512 only; u is in 64513\n"},
		{"two upstreams of one address", header + "bgp: {asn: 1, upstreams: [{name: u, link: a, peerASN: 2, address: {ipv4: 10.0.0.1}}, {name: v, link: a, peerASN: 2, address: {ipv4: 10.0.0.1}}]}\n",
			"2:126: error: upstreams u and v have the same IPv4 address\n"},
		{"one priority in two families", header + "networks: {a: [10.0.0.0/8], b: [\"fd00::/8\"]}\ntables: [{name: t, id: 9, rules: [{from: a, priority: {ipv4: 5}}, {from: b, priority: {ipv6: 5, ipv4: 5}}]}]\n", ""},
		{"warnings", header + `networks: {pods: [10.0.0.0/8], empty: []}
classes:
  - {name: a, link: a}
  - {name: b, link: b, delegated: true}
  - {name: c, link: c, traffic: [{from: pods, to: pods}]}
tables: [{name: t, id: 9, routes: {default: {link: c, gateway: {ipv4: 192.0.2.1}}, connected: [b], peers: {link: c, learn: nodes, nextHop: link}}}]
guard: {priority: 5}
cluster: {nodesFile: n, addresses: {z: {ipv4: {annotation: k}}}}
`, `2:39: warning: network empty is empty: it selects nothing
4:21: warning: class a: no table uses link a, so nothing here can make its traffic leave by it
5:21: warning: class b: link b is delegated to a pod, but a table or session here uses it
7:45: warning: the default leaves by c, but class c carries nothing to or from world
7:45: warning: table t has a default but no fence for pods: without a route of their own they go to the router
7:140: warning: nextHop: link, but cluster.addresses does not say where a node's address on c is found: its InternalIP is used
8:19: warning: priority is used with ~as: rules~ only
9:40: warning: addresses on link z are of no use: no class, table or session names it
`},
		{"not built", header + "metrics: {listen: \"unix:/run/m.sock\"}\n", "2:19: error: metrics are not built yet: leave listen empty, or the section out\n"},
		{"off in all its forms, and defaults that are built", header + "daemon: {onExit: flush}\ncluster: {nodesFile: n, podCIDRs: node, publish: false}\ndrain: {followCordon: false, protect: {selector: \"\"}}\nmetrics: {listen: \"\"}\nbgp: {asn: 1, upstreams: [{name: u, link: a, peerASN: 1, address: {ipv4: 10.0.0.1}, import: [], advertise: {readyWhen: {http: \"\"}}}]}\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, problems := intent.Parse("c.yaml", []byte(test.text))
			if diff := cmp.Diff(test.want, brief(problems)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if (c == nil) != strings.Contains(test.want, ": error: ") {
				t.Errorf("Config %v", c)
			}
		})
	}
}

// TestPaths shows where relative paths start.
func TestPaths(t *testing.T) {
	text := header + `cluster: {nodesFile: sub/nodes.yaml}
bgp:
  asn: 64512
  mesh: {link: a, passwordFile: mesh.key}
  upstreams: [{name: u, link: a, peerASN: 1, passwordFile: /abs.key, address: {ipv4: 10.0.0.1}, advertise: {communities: [no-export, "64512:7"]}}]
`
	for credentials, want := range map[string]string{"": "/etc/x/mesh.key", "/run/credentials/n": "/run/credentials/n/mesh.key"} {
		t.Setenv("CREDENTIALS_DIRECTORY", credentials)
		c, problems := intent.Parse("/etc/x/config.yaml", []byte(text))
		if c == nil {
			t.Fatal(problems)
		}
		got := []string{c.Cluster.NodesFile, c.BGP.Mesh.PasswordFile, c.BGP.Upstreams[0].PasswordFile}
		if diff := cmp.Diff([]string{"/etc/x/sub/nodes.yaml", want, "/abs.key"}, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if diff := cmp.Diff([]string{"65535:65281", "64512:7"}, c.BGP.Upstreams[0].Advertise.Communities); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// TestOwnBlackhole is what distinguishes Calico's own blocks.
func TestOwnBlackhole(t *testing.T) {
	c, problems, err := intent.Load("../../examples/calico.yaml")
	if err != nil || c == nil {
		t.Fatal(err, problems)
	}
	want := routing.Sources{
		Own: &routing.Own{Type: routing.Blackhole},
		Peers: &routing.Peers{
			Link: "tunl0", Learn: routing.LearnBGP, NextHop: routing.HopInternalIP, Accept: routing.AcceptWithin, OnLink: true, MTU: 1480,
		},
	}
	if diff := cmp.Diff(want, c.Table("main").Routes, equalAddrs); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if g := c.Guard; !g.AsRules || g.Priority != 32762 || c.Cluster.Kubernetes == nil || c.BGP.Mesh.Address != routing.HopInternalIP {
		t.Errorf("guard %+v, cluster %+v, mesh %+v", g, c.Cluster, c.BGP.Mesh)
	}
}
