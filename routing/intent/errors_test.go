package intent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"netclass.dev/routing/intent"
)

// brief gives the problems as line:column: kind: message, with ~ for the
// backquotes that golden text cannot hold.
func brief(problems intent.Problems) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "%d:%d: %s: %s\n", p.Line, p.Column, p.Kind(), p.Message)
	}
	return strings.ReplaceAll(b.String(), "`", "~")
}

// everyError is one file with faults in every section.
const everyError = `apiVersion: netclass.dev/v2
kind: NetClass
daemon: {protocol: 12, onExit: leave, resync: 30, onexit: keep}
node: "a b"
networks:
  world: [10.0.0.0/8]
  pods: [10.244.0.1/16, "fd00:10:244::/48"]
  nodes: [10.46.0.0/24, 10.46.0.128/25, 10.46.0.0/24]
  odd: [0.0.0.0/0, "::ffff:10.0.0.0/104", fe80::/64, 10.0.0.1, 300.0.0.0/8, [x]]
  nodes: []
  bad name: nothing
  v6: ["fd00:1::/64"]
  v4: [10.9.0.0/24]
classes:
  - {name: Pod_Pod, link: a-link-name-too-long, vlan: 4095}
  - {name: a, link: eth/0, traffic: [{from: podz, to: world}, {from: world, to: world}, {from: v4}]}
  - {name: a, link: "", vlan: "48", delegated: yes, traffic: [{from: v4, to: v4}, {from: v4, to: v4}]}
tables:
  - name: main
    id: 254
    rules: [{to: world, priority: {ipv4: 5}}, {priority: {ipv4: 6}}, {from: v4}]
    fence: [v4]
    routes:
      connected: [eth0, eth0]
      own: {}
      peers: {link: pod0, learn: gossip, nextHop: x, fallback: main, mtu: 20}
      default: {link: eth0, gateway: {}}
  - name: local
    id: 255
  - {name: "47", id: 0}
  - name: egress
    id: 254
    rules:
      - {from: v4, priority: {ipv4: 0}}
      - {from: v4, priority: {ipv4: 32766}}
      - {from: v4, priority: {ipv6: 1}}
      - {from: v4, to: v6, priority: {ipv4: 7}}
      - {from: v4, priority: {ipv4: 100}}
      - {to: v4, priority: {ipv4: 100}}
      - {to: v4, priority: {ipv4: 32700}}
      - {to: v4, priority: {ipv4: 32701}}
    routes:
      own: {link: cni0, type: blackhole}
      peers: {link: cni0, learn: bgp, accept: all, onlink: 1, fallback: {link: cni0}}
      default: {link: eth1, gateway: {ipv4: "fd00::1", ipv6: 10.0.0.1}, onLinkDown: wait}
  - {name: egress, id: 47}
  - {name: other, id: 47}
  - {name: noid}
guard: {networks: [v4, v4, world], as: rules, priority: 32700}
cluster:
  nodesFile: n.yaml
  kubernetes: null
  podCIDRs: antrea
  publish: on
  addresses: {pod0: {ipv4: 10.0.0.1}, "a b": {ipv4: {annotation: ""}}, x: {}}
bgp:
  asn: 0
  routerID: fd00::1
  port: 70000
  listen: 1
  timers: {hold: 2s, keepalive: 1m, connectRetry: soon}
  gracefulRestart: {restartTime: 2h}
  mesh: {address: nowhere, maxPrefixes: -1}
  upstreams:
    - {name: u, link: l, peerASN: 23456, address: {ipv4: 127.0.0.1, ipv6: "fe80::1"}, gtsm: true, multihop: 2}
    - name: u
      link: l
      peerASN: 64513
      address: {ipv4: 10.1.0.1/24, ipv6: "fe80::1%eth0"}
      timers: {hold: 9s, keepalive: 4s}
      advertise: {networks: [lbs], communities: [65536:0, no-exprot, 65535:0, graceful-shutdown], localPreference: 1.5, prepend: 99, readyWhen: {http: nope}}
      import: [{networks: [v4], table: egres}]
drain: {protect: {selector: 1}, grace: -1s, timeout: 0s, quiet: {packetsPerSecond: 010}, lease: {namespace: ""}}
api: {readers: "a b"}
metrics: {listen: "9100"}
log: {level: loud, format: xml}
`

const everyErrorWant = `1:13: error: apiVersion must be netclass.dev/v1alpha1, not "netclass.dev/v2"
2:1: error: unknown key "kind"
3:20: error: protocol 12 belongs to BIRD; choose one that nobody uses, such as 148
3:32: error: onExit must be one of keep, flush, auto, not "leave"
3:47: error: resync must be a time with its unit, such as 10s, not a number
3:51: error: unknown key "onexit" of daemon; did you mean "onExit"?
4:7: error: node "a b" is no valid name: want letters, digits, dots, _ and -
6:3: error: world is reserved: it is whatever is in no network
7:10: error: pods has host bits set: 10.244.0.1/16; write 10.244.0.0/16
8:25: error: 10.46.0.128/25 is inside 10.46.0.0/24 (line 8) of the same list; leave it out
8:41: error: duplicate network 10.46.0.0/24
9:9: error: odd must not be everything (0.0.0.0/0); name the networks
9:20: error: odd is an IPv4-mapped network; write it as IPv4
9:43: error: odd is not routed between hosts: fe80::/64
9:54: error: odd lacks its prefix length: write 10.0.0.1/32 for the one address
9:64: error: odd is not a network in CIDR form: "300.0.0.0/8"
9:77: error: odd must be a network in CIDR form, not a list
10:3: error: duplicate key "nodes"; it is on line 8 already
11:3: error: network "bad name" is no valid name: want letters, digits, dots, _ and -
11:13: error: bad name must be a list, not text; write [nothing]
15:12: error: name "Pod_Pod" is no valid name: want 1 to 63 of a-z, 0-9 and -
15:27: error: "a-link-name-too-long" is no name of a link: it is longer than 15 bytes
15:55: error: vlan must be 1 to 4094, not 4095
16:21: error: "eth/0" is no name of a link: it has a space, a slash or a colon
16:45: error: undefined network "podz"; did you mean "pods"?
16:63: error: traffic from world to world is none of a node's
16:89: error: missing key "to" of traffic
17:12: error: duplicate class "a"; it is on line 16 already
17:21: error: "" is no name of a link: it is empty
17:31: error: vlan must be a whole number, not text
17:48: error: delegated must be true or false, not text
17:83: error: traffic from v4 to v4 is promised to class a on line 17 already
20:9: error: table main takes no id: it is 254
21:18: error: world cannot be a rule's to: leave to out for every address
21:47: error: a rule needs from, to, or both
21:70: error: missing key "priority" of rules
22:12: error: a fence in main would stop the node's own traffic; write guard: {networks: […]}
24:18: error: the kernel itself keeps the connected networks in main; leave connected out
24:25: error: duplicate link "eth0"; it is on line 24 already
25:12: error: own needs exactly one of link and type
26:34: error: learn must be one of bgp, nodes, not "gossip"
26:51: error: nextHop must be one of link, internalIP, not "x"
26:64: error: main cannot be its own fallback
26:75: error: mtu must be 0 (none) or 68 to 65535, not 20
27:16: error: main's default is not ours to set; give the traffic a table of its own, with a rule
27:38: error: gateway needs ipv4, ipv6, or both
28:11: error: the table name local is reserved: it is the kernel's own
29:9: error: table 255 is the kernel's own; choose a number of 1 to 252, or above 255
30:12: error: a table's name must not be a number; 47 goes into id
30:22: error: table 0 is no table; choose a number of 1 to 252, or above 255
32:9: error: table 254 is main: write ~name: main~ without an id
34:37: error: priority 0 is the local rule's; choose one of 1 to 32765
35:37: error: priority 32766 is the kernel's own; choose one of 1 to 32765
36:9: error: rule has no ipv4 priority, but v4 has IPv4 prefixes
37:9: error: rule selects nothing: v4 and v6 have no family in common
39:35: error: ipv4 priority 100 is taken by the rule on line 38: two rules of one number have no order
40:35: error: priority 32700 is the guard's: its rules stand at 32700 and 32701
41:35: error: priority 32701 is the guard's: its rules stand at 32700 and 32701
43:12: error: own needs exactly one of link and type
43:12: error: own and peers have one link cni0: own leads to this node's pods, peers to the other nodes
44:47: error: accept must be one of assigned, within, not "all"
44:60: error: onlink must be true or false, not a number
44:73: error: the fallback has the link cni0 of the path it stands in for
45:16: warning: table egress has a default but no fence for pods, nodes: without a route of their own they go to the router
45:45: error: fd00::1 is not an IPv4 address
45:62: error: 10.0.0.1 is not an IPv6 address
45:85: error: onLinkDown must be one of fallback, hold, not "wait"
46:12: error: duplicate table "egress"; it is on line 31 already
47:23: error: duplicate table id 47; it is on line 46 already
48:5: error: missing key "id" of tables
49:24: error: duplicate network "v4"; it is on line 49 already
49:28: error: world is whatever is in no network; a guard needs networks by name
51:3: error: cluster needs exactly one of nodesFile and kubernetes
52:15: error: kubernetes must be a mapping; {} means the credentials of the pod
53:13: error: podCIDRs must be one of node, ciliumnode, calico, not "antrea"
54:12: error: publish must be one of off, missing, force, not "on"
55:28: error: 10.0.0.1 cannot be every node's address on pod0; write {annotation: KEY}
55:39: error: "a b" is no name of a link: it has a space, a slash or a colon
55:46: warning: addresses on link a b are of no use: no class, table or session names it
55:66: error: annotation must name an annotation
55:75: error: x needs ipv4, ipv6, or both
55:75: warning: addresses on link x are of no use: no class, table or session names it
57:8: error: asn must be 1 to 4294967295, not 0
58:13: error: routerID must be in the form of an IPv4 address, not fd00::1
59:9: error: port must be 1 to 65535, not 70000
60:11: error: listen must be true or false, not a number
61:18: error: hold must be 0 or at least 3s (RFC 4271), not 2s
61:51: error: connectRetry must be a time with its unit, such as 10s, not "soon"
62:34: error: restartTime must be 0s to 1h8m15s, not 2h
63:9: error: missing key "link" of mesh
63:19: error: address must be one of link, internalIP, not "nowhere"
63:41: error: maxPrefixes must be 1 to 4294967295, not -1
65:35: error: peerASN 23456 is reserved; private numbers are 64512 to 65534
65:58: error: ipv4 is no address of a host on a link: 127.0.0.1
65:75: error: fe80::1 is a link-local address; a session needs a routable one
65:109: error: multihop and gtsm exclude each other: gtsm (RFC 5082) takes neighbours on the link only
66:13: error: duplicate upstream "u"; it is on line 65 already
69:23: error: ipv4 must be an address without a prefix length, not "10.1.0.1/24"
69:42: error: ipv6 has a zone; write the address alone, the link is named apart
70:37: error: keepalive must be at most a third of hold (9s), and 0 only with hold 0
71:30: error: undefined network "lbs"
71:50: error: communities must be text, not a mapping; a value with colons needs quotes inside braces
71:59: error: "no-exprot" is no community: want two numbers of 0 to 65535 such as 65535:0, or a well-known name such as no-export; did you mean "no-export"?
71:70: error: communities must be text, not a mapping; a value with colons needs quotes inside braces
71:116: error: localPreference must be a whole number, not a number with a fraction
71:130: error: prepend must be 0 to 16, not 99
71:152: error: http must be a URL of http or https, not "nope"
72:27: error: v4 overlaps 10.9.0.0/24 of v4: what is the cluster's own, fenced or guarded must not be led to a router; import narrower networks
72:40: error: undefined table "egres"; did you mean "egress"?
73:29: error: selector must be text, not a number; put it in quotes
73:40: error: grace must be 0s to 24h, not -1s
73:54: error: timeout must be 1s to 24h, not 0s
73:84: error: packetsPerSecond must be a plain decimal number, not 010
73:109: error: namespace must not be empty
74:16: error: readers "a b" is no valid name: want a group of the system
75:19: error: metrics are not built yet: leave listen empty, or the section out
76:14: error: level must be one of debug, info, warn, error, not "loud"
76:28: error: format must be one of auto, text, json, journald, not "xml"
`

func TestEveryError(t *testing.T) {
	c, problems := intent.Parse("bad.yaml", []byte(everyError))
	if c != nil {
		t.Error("a Config in spite of errors")
	}
	if diff := cmp.Diff(everyErrorWant, brief(problems)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
