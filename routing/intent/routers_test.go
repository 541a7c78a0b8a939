package intent_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"netclass.dev/routing"
	"netclass.dev/routing/intent"
)

// TestRouters: what is said of Services, of imports and of what only the
// Kubernetes API tells.
func TestRouters(t *testing.T) {
	router := func(rest string) string {
		return "bgp: {asn: 64512, upstreams: [{name: u, link: a, peerASN: 1, address: {ipv4: 10.0.0.1}, " + rest + "}]}\n"
	}
	const kube = "cluster: {kubernetes: {}}\n"
	const file = "cluster: {nodesFile: n}\n"
	for _, test := range []struct{ name, text, want string }{
		{"all that the API tells of", header + kube + router(`advertise: {services: {class: x, selector: {matchLabels: {a/b: c}}}, readyWhen: {http: "http://[::1]:1/x"}}`) +
			"drain: {followCordon: true, protect: {selector: \"a in (b, c), !d\"}}\n", ""},
		{"all that, with a nodes file", header + file + router(`advertise: {services: {}}`) + "drain: {followCordon: true, protect: {selector: a=b}}\n",
			"3:111: warning: services: none is announced: only the Kubernetes API tells of them; add cluster.kubernetes\n" +
				"4:23: error: drain.followCordon needs cluster.kubernetes\n" +
				"4:49: error: drain.protect.selector needs cluster.kubernetes\n"},
		{"and with no nodes at all", header + "drain: {followCordon: true}\n", "2:23: error: drain.followCordon needs cluster.kubernetes\n"},
		{"selectors", header + kube + router(`advertise: {services: {selector: {matchLabels: {"a b": c}}}}`) + "drain: {protect: {selector: \"a in b\"}}\n",
			"3:136: error: matchLabels can be no Service's labels: key: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n" +
				"4:29: error: selector is no label selector: unable to parse requirement: found 'b' expected: '('\n"},
		{"aggregates", header + "networks: {loadBalancers: [10.47.64.0/24, \"fd00:47::/112\"]}\n" + kube + router(`advertise: {services: {aggregate: {ipv4: 16, ipv6: 16}}}`),
			"4:130: warning: ipv4: a node announces a whole /16 for one Service: where another of externalTrafficPolicy: Local lies in it, packets for that one are lost on nodes without its endpoints; 32 avoids that\n" +
				"4:130: warning: ipv4: /16 is wider than loadBalancers (10.47.64.0/24): routers are told of addresses that are none\n" +
				"4:140: error: ipv6 must be 32 to 128, not 16\n"},
		{"host routes", header + kube + router(`advertise: {services: {aggregate: {ipv4: 32}}}`), ""},
		{"a password in the open", header + router(`advertise: {readyWhen: {http: "http://a:b@[::1]:1/x"}}`),
			"2:119: error: http must not hold a name or password: it is shown to whoever may look\n"},
		{"imports of what must not be led to a router", header + `networks: {pods: [10.244.0.0/16], corp: [10.0.0.0/8], lab: [172.16.0.0/12], g: [172.20.0.0/16], ok: [192.0.2.0/24]}
tables: [{name: t, id: 9, fence: [pods]}]
guard: {networks: [g]}
` + router("import: [{networks: [corp, ok], table: t}, {networks: [lab], table: t}, {networks: [world], table: u}]"),
			"5:109: error: corp overlaps 10.244.0.0/16 of pods: what is the cluster's own, fenced or guarded must not be led to a router; import narrower networks\n" +
				"5:143: error: lab overlaps 172.20.0.0/16 of g: what is the cluster's own, fenced or guarded must not be led to a router; import narrower networks\n" +
				"5:173: error: world is whatever is in no network; an import needs networks by name\n" +
				"5:188: error: undefined table \"u\"; did you mean \"t\"?\n"},
		{"announcements of what is the cluster's own", header + `networks: {pods: [10.244.0.0/16], nodes: [10.46.0.0/24], corp: [10.0.0.0/9], lan: [172.16.0.0/12], services: [10.96.0.0/16], ok: [192.0.2.0/24]}
bgp: {asn: 64512, upstreams: [{name: u, link: a, peerASN: 1, address: {ipv4: 172.16.0.1}, advertise: {networks: [pods, nodes, corp, lan, ok]}}]}
`,
			"3:113: error: pods is the cluster's own: what a router sends for an announced network goes no further than this node, which would cut the world off from it; announce networks of Services only, such as loadBalancers\n" +
				"3:113: error: nodes is the cluster's own: what a router sends for an announced network goes no further than this node, which would cut the world off from it; announce networks of Services only, such as loadBalancers\n" +
				"3:113: error: corp overlaps 10.46.0.0/24 of nodes: what a router sends for an announced network goes no further than this node, which would cut the world off from it; announce networks of Services only, such as loadBalancers\n" +
				"3:113: error: lan: 172.16.0.0/12 contains the gateway 172.16.0.1 of upstream u, and so is the network of a, which the router has itself; announce networks of Services only\n"},
		{"an announcement of Services", header + "networks: {services: [10.96.0.0/16], loadBalancers: [10.47.64.0/24]}\n" + router("advertise: {networks: [services, loadBalancers]}"), ""},
		{"an import", header + "networks: {corp: [172.16.0.0/12]}\ntables: [{name: t, id: 9}]\n" + router("import: [{networks: [corp], table: t}]"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, problems := intent.Parse("f", []byte(test.text))
			if diff := cmp.Diff(test.want, brief(problems)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestServices is what is read of Services and imports.
func TestServices(t *testing.T) {
	c, problems := intent.Parse("f", []byte(header+`networks: {corp: [172.16.0.0/12]}
tables: [{name: t, id: 9}]
cluster: {kubernetes: {}}
bgp:
  asn: 64512
  upstreams:
    - name: u
      link: a
      peerASN: 1
      address: {ipv4: 10.0.0.1}
      advertise: {services: {class: example.org/ours, selector: {matchLabels: {tier: web}}, aggregate: {ipv6: 64}}, readyWhen: {http: "http://127.0.0.1:10256/healthz"}}
      import: [{networks: [corp], table: t}]
drain: {followCordon: true, protect: {selector: "role=storage"}}
`))
	if c == nil {
		t.Fatal(problems)
	}
	u := &c.BGP.Upstreams[0]
	want := &routing.Services{
		Class: "example.org/ours", Selector: map[string]string{"tier": "web"}, Aggregate: routing.PerFamily[uint8]{IPv4: 32, IPv6: 64},
	}
	if diff := cmp.Diff(want, u.Advertise.Services); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]routing.Import{{Networks: []string{"corp"}, Table: "t"}}, u.Import); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if u.Advertise.ReadyHTTP != "http://127.0.0.1:10256/healthz" || !c.Drain.FollowCordon || c.Drain.ProtectSelector != "role=storage" {
		t.Errorf("%q, %+v", u.Advertise.ReadyHTTP, c.Drain)
	}
}
