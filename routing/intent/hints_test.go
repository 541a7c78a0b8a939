package intent_test

import (
	"testing"

	"netclass.dev/routing/intent"
)

// TestHints: what is said of the faults that somebody new makes.
func TestHints(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{
			"a priority behind main",
			header + "networks: {a: [10.0.0.0/8]}\ntables: [{name: t, id: 9, rules: [{from: a, priority: {ipv4: 40000}}]}]\n",
			"3:62: error: priority 40000 comes after main's rule at 32766 and is never reached; choose one of 1 to 32765\n",
		},
		{
			"a guard of what is translated",
			header + "networks: {services: [10.96.0.0/16]}\nclasses: [{name: a, link: b, traffic: [{from: services, to: services}]}]\nguard: {networks: [services]}\n",
			"3:27: warning: class a: no table uses link b, so nothing here can make its traffic leave by it\n" +
				"4:8: warning: guard: services: a node's own connection to such an address is looked up before it is translated, and would stop here; fence it instead\n",
		},
		{
			"a guard that eBPF does not obey",
			header + "networks: {nodes: [10.46.0.0/24, \"fd00:46::/64\"], pods: [10.244.0.0/16]}\nguard: {networks: [nodes, pods], as: rules}\n",
			"3:8: warning: guard: as: rules: an eBPF datapath does not obey these for the IPv6 of nodes; where one forwards pods' packets, use as: routes\n",
		},
		{"a tab", header + "networks:\n\tpods: [10.0.0.0/8]\n", "3:1: error: a tab cannot indent; use spaces\n"},
		{
			"a key that is out of line", header + "networks:\n    pods: [10.0.0.0/8]\n  services: [10.96.0.0/16]\n",
			"4:3: error: value is not allowed in this context; is it indented like what it belongs with, and on a line of its own?\n",
		},
		{
			"a section's content out of line", header + "guard:\nnode: x\n",
			"2:1: error: guard has no value, want a mapping; indent what belongs to it, or leave the key out for its default\n",
		},
		{
			"no families", header + "networks: {a: [10.0.0.0/8]}\ntables:\n- name: t\n  id: 9\n  fence: [a]\n  rules: [{from: a, priority: 1001}]\n  routes:\n    default: {link: b, gateway: 10.47.0.254}\n- {name: u, id: 10, fence: a, routes: {default: {link: b, gateway: \"fd00::1\"}}}\n",
			"7:31: error: priority must be a mapping of families; write {ipv4: 1001}\n" +
				"9:33: error: gateway must be a mapping of families; write {ipv4: 10.47.0.254}\n" +
				"10:28: error: fence must be a list, not text; write [a]\n" +
				"10:68: error: gateway must be a mapping of families; write {ipv6: \"fd00::1\"}\n",
		},
		{
			"networks misspelt", header + "network: {a: [10.0.0.0/8]}\nclasses: [{name: c, link: l, traffic: [{from: a, to: a}]}]\ntables: [{name: t, id: 9, routes: {connected: [l]}, rules: [{from: a, priority: {ipv4: 5}}]}]\n",
			"2:1: error: unknown key \"network\"; did you mean \"networks\"?\n" +
				"3:47: error: undefined network \"a\": there is no network at all; name them in the section networks (3 uses)\n",
		},
		{
			"links that do not meet", header + "networks: {pods: [10.244.0.0/16]}\nclasses: [{name: c, link: ingress0, traffic: [{from: pods, to: world}]}]\n" +
				"tables:\n- {name: t, id: 9, fence: [pods], routes: {connected: [ingress0], peers: {link: pod0, learn: bgp}, default: {link: ingres0, gateway: {ipv4: 10.0.0.1}}}}\n" +
				"- {name: u, id: 10, fence: [pods], rules: [{from: pods, priority: {ipv4: 9}}], routes: {own: {link: cni}, default: {link: mgmt0, gateway: {ipv4: 10.1.0.1}}}}\n" +
				"cluster: {nodesFile: n, addresses: {node0: {ipv4: {annotation: x}}}}\nbgp: {asn: 64512, mesh: {link: node0}}\n",
			"5:74: warning: peers are learned over node0, but their paths lead over pod0; if that is meant, write bgp.mesh.address: internalIP\n" +
				"5:109: warning: the default leaves by ingres0, which is the link of no class; did you mean \"ingress0\"?\n" +
				"6:116: warning: the default leaves by mgmt0, but class c promises the world's traffic of pods to ingress0\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, problems := intent.Parse("f", []byte(test.text)); brief(problems) != test.want {
				t.Errorf("got\n%swant\n%s", brief(problems), test.want)
			}
		})
	}
}
