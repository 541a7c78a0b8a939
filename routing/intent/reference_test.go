package intent_test

import (
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"netclass.dev/routing"
	"netclass.dev/routing/intent"
)

var equalAddrs = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

func prefix(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }

var timers = routing.Timers{Hold: 9 * time.Second, Keepalive: 3 * time.Second, ConnectRetry: 2 * time.Second}

// TestReference compares the file that shows every key, field by field.
func TestReference(t *testing.T) {
	path, err := filepath.Abs("../../examples/reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, problems, err := intent.Load(path)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	want := &routing.Config{
		Daemon: routing.Daemon{Protocol: 148, OnExit: routing.ExitKeep, Resync: 30 * time.Second},
		Networks: []routing.Network{
			{Name: "pods", Prefixes: prefix("10.244.0.0/16")},
			{Name: "nodes", Prefixes: prefix("10.46.0.0/24")},
			{Name: "services", Prefixes: prefix("10.96.0.0/16")},
			{Name: "loadBalancers", Prefixes: prefix("10.47.64.0/24")},
		},
		Classes: []routing.Class{
			{Name: "pod-pod", Link: "pod0", VLAN: 48, Traffic: []routing.Traffic{{From: "pods", To: "pods"}}},
			{Name: "ceph-replication", Link: "ceph-san", VLAN: 49, Delegated: true},
		},
		Tables: []routing.Table{{
			Name: "pods", ID: 47,
			// The IPv6 priority is left out: pods have IPv4 only.
			Rules: []routing.Selector{
				{From: "pods", Priority: routing.PerFamily[uint32]{IPv4: 1001}},
				{From: "loadBalancers", Priority: routing.PerFamily[uint32]{IPv4: 1003}},
			},
			Routes: routing.Sources{
				Connected: []string{"mgmt0", "ingress0", "pod0", "node0"},
				Own:       &routing.Own{Link: "cilium_host", Type: routing.Unicast},
				Peers: &routing.Peers{
					Link: "pod0", Learn: routing.LearnBGP, NextHop: routing.HopLink, Accept: routing.AcceptAssigned,
					Fallback: routing.Fallback{Link: "node0", NextHop: routing.HopInternalIP},
				},
				Default: &routing.Default{
					Link: "ingress0",
					Gateway: routing.PerFamily[routing.AddressRef]{
						IPv4: routing.AddressRef{Annotation: "example.org/gw4"}, IPv6: routing.AddressRef{Annotation: "example.org/gw6"},
					},
					OnLinkDown: routing.LinkDownFallback,
				},
			},
			Fence: []string{"pods", "services", "nodes", "loadBalancers"},
		}},
		Guard: &routing.Guard{Networks: []string{"pods", "nodes"}, Priority: 32762},
		Cluster: &routing.Cluster{
			Kubernetes: &routing.Kubernetes{}, PodCIDRs: "node", Publish: "off",
			Addresses: []routing.LinkAddress{{Link: "pod0", Ref: routing.PerFamily[routing.AddressRef]{
				IPv4: routing.AddressRef{Annotation: "example.org/pod0-4"}, IPv6: routing.AddressRef{Annotation: "example.org/pod0-6"},
			}}},
		},
		BGP: &routing.BGP{
			ASN: 64512, Port: 179, Listen: true, Timers: timers, GracefulRestart: 10 * time.Second,
			Mesh: &routing.Mesh{Link: "pod0", Address: routing.HopLink, MaxPrefixes: 1000},
			Upstreams: []routing.Upstream{{
				Name: "udm", Link: "ingress0", PeerASN: 64513,
				Address: routing.PerFamily[routing.AddressRef]{
					IPv4: routing.AddressRef{Addr: netip.MustParseAddr("10.47.0.254")}, IPv6: routing.AddressRef{Addr: netip.MustParseAddr("fd00:47::fe")},
				},
				Timers: timers,
				Advertise: routing.Advertise{
					Networks: []string{"loadBalancers"},
					Services: &routing.Services{Aggregate: routing.PerFamily[uint8]{IPv4: 32, IPv6: 128}},
				},
			}},
		},
		Drain: routing.Drain{
			Grace: 10 * time.Second, Timeout: 5 * time.Minute, QuietPPS: 10, QuietFor: 5 * time.Second,
			LeaseNamespace: "kube-system", LeaseName: "netclass-drain",
		},
		API: routing.API{Readers: "netclassd", Admins: "netclassd-admin"},
		Log: routing.Log{Level: "info", Format: "auto"},
	}
	if diff := cmp.Diff(want, got, equalAddrs); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDefaults compares a file that leaves out all it can.
func TestDefaults(t *testing.T) {
	got, problems := intent.Parse("/etc/netclassd/config.yaml", []byte(`
apiVersion: netclass.dev/v1alpha1
networks: {pods: ["fd00:10:244::/48", 10.244.0.0/16]}
classes: [{name: all, link: eth1}]
tables:
  - name: t
    id: 300
    rules: [{from: pods, priority: {ipv4: 1001, ipv6: 1000}}]
    routes:
      peers: {link: eth1, learn: bgp}
      default: {link: eth1, gateway: {ipv4: 192.0.2.1}}
    fence: []
guard: {}
cluster: {nodesFile: nodes.yaml}
bgp:
  asn: 64512
  timers: {hold: 6s}
  mesh: {link: eth1}
  upstreams: [{name: u, link: eth1, peerASN: 64512, address: {ipv4: 192.0.2.1}, timers: {connectRetry: 7s}}]
`))
	if len(problems.Errors()) > 0 {
		t.Fatal(problems)
	}
	six := routing.Timers{Hold: 6 * time.Second, Keepalive: 2 * time.Second, ConnectRetry: 2 * time.Second}
	retry := six
	retry.ConnectRetry = 7 * time.Second
	gateway := routing.PerFamily[routing.AddressRef]{IPv4: routing.AddressRef{Addr: netip.MustParseAddr("192.0.2.1")}}
	want := &routing.Config{
		Daemon:   routing.Daemon{Protocol: 148, OnExit: routing.ExitKeep, Resync: 30 * time.Second},
		Networks: []routing.Network{{Name: "pods", Prefixes: append(prefix("10.244.0.0/16"), prefix("fd00:10:244::/48")...)}},
		Classes:  []routing.Class{{Name: "all", Link: "eth1"}},
		Tables: []routing.Table{{
			Name: "t", ID: 300,
			Rules: []routing.Selector{{From: "pods", Priority: routing.PerFamily[uint32]{IPv4: 1001, IPv6: 1000}}},
			Routes: routing.Sources{
				Peers:   &routing.Peers{Link: "eth1", Learn: routing.LearnBGP, NextHop: routing.HopInternalIP, Accept: routing.AcceptAssigned},
				Default: &routing.Default{Link: "eth1", Gateway: gateway, OnLinkDown: routing.LinkDownFallback},
			},
			Fence: []string{},
		}},
		Guard:   &routing.Guard{Priority: 32762},
		Cluster: &routing.Cluster{NodesFile: "/etc/netclassd/nodes.yaml", PodCIDRs: "node", Publish: "off"},
		BGP: &routing.BGP{
			ASN: 64512, Port: 179, Listen: true, Timers: six, GracefulRestart: 10 * time.Second,
			Mesh:      &routing.Mesh{Link: "eth1", Address: routing.HopInternalIP, MaxPrefixes: 1000},
			Upstreams: []routing.Upstream{{Name: "u", Link: "eth1", PeerASN: 64512, Address: gateway, Timers: retry}},
		},
		Drain: routing.Drain{
			Grace: 10 * time.Second, Timeout: 5 * time.Minute, QuietPPS: 10, QuietFor: 5 * time.Second,
			LeaseNamespace: "kube-system", LeaseName: "netclass-drain",
		},
		API: routing.API{Readers: "netclassd", Admins: "netclassd-admin"},
		Log: routing.Log{Level: "info", Format: "auto"},
	}
	if diff := cmp.Diff(want, got, equalAddrs); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
