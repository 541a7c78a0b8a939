package drain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// twoNodes is what k8s-1 of two healthy nodes sees, of which both announce a network
// and a Service to a router.
func twoNodes(kube bool) *routing.State {
	s := &routing.State{Node: "k8s-1", Plan: &routing.Plan{}, Kernel: &routing.Kernel{Links: []routing.Link{{Name: "pod0", Up: true, Carrier: true}}}}
	s.Config.Config = &routing.Config{
		Classes: []routing.Class{{Name: "pod-pod", Link: "pod0"}, {Name: "world-pod", Link: "ingress0"}},
		Tables: []routing.Table{{Name: "pods", ID: 47, Routes: routing.Sources{
			Peers: &routing.Peers{Link: "pod0", Fallback: routing.Fallback{Link: "node0"}}, Default: &routing.Default{Link: "ingress0"},
		}}},
		Cluster: &routing.Cluster{NodesFile: "nodes.yaml"},
		BGP: &routing.BGP{Mesh: &routing.Mesh{Link: "pod0"}, Upstreams: []routing.Upstream{{
			Name: "udm", Link: "ingress0", Advertise: routing.Advertise{Networks: []string{"lb"}, Services: &routing.Services{Selector: map[string]string{"a": "b"}}},
		}}},
		Drain: routing.Drain{LeaseNamespace: "kube-system", LeaseName: "netclass-drain"},
	}
	s.Inventory = routing.Inventory{Synced: true, Source: "test", Nodes: []routing.Node{
		{Name: "k8s-1", UID: "one", Protected: true}, {Name: "k8s-2", UID: "two", Protected: true},
	}, Services: []routing.Service{{Name: "shop/web", Local: true, Labels: map[string]string{"a": "b"}, Nodes: []string{"k8s-1", "k8s-2"}, Addresses: []netip.Addr{netip.MustParseAddr("10.47.64.7")}}}}
	s.Plan.Announce = []routing.Origin{{Announcement: routing.Announcement{To: "udm", Prefix: netip.MustParsePrefix("10.47.64.0/24")}}}
	if kube {
		s.Inventory.Drain = &routing.DrainLease{Version: "1"}
	}
	key, router := routing.SessionKey{Peer: "k8s-2", Family: routing.IPv4}, routing.SessionKey{Peer: "udm", Family: routing.IPv4}
	s.Peers = []routing.PeerStatus{
		{Neighbor: routing.Neighbor{Key: key, Link: "pod0"}, Session: routing.Session{Key: key, State: routing.Established}},
		{Neighbor: routing.Neighbor{Key: router, Upstream: true}, Session: routing.Session{Key: router, State: routing.Established}},
	}
	s.Plan.Speak = &routing.Speak{Neighbors: []routing.Neighbor{s.Peers[0].Neighbor, s.Peers[1].Neighbor}}
	return s
}

var udm4 = routing.NoteRouter(routing.SessionKey{Peer: "udm", Family: routing.IPv4})

// noted has k8s-2 say something of itself.
func noted(s *routing.State, notes ...uint32) {
	s.Peers[0].Notes = routing.Notes(strings.Trim(fmt.Sprint(notes), "[]"))
}

// TestUnsafe: each thing that makes a drain unsafe is named with its node and what to
// do, all of them at once, and nothing else is.
func TestUnsafe(t *testing.T) {
	const mesh, kube = 1, 2
	for _, tc := range []struct {
		name string
		in   int // where the nodes are known from; 0: either
		do   func(s *routing.State, req *routing.DrainRequest)
		want []string
	}{
		{name: "safe", do: func(*routing.State, *routing.DrainRequest) {}},
		{"a router that has heard nothing here either", 0, func(s *routing.State, _ *routing.DrainRequest) {
			s.Peers[1].Session.State = routing.Active
			noted(s, routing.NoteRouters)
		}, nil},
		{"not read", 0, func(s *routing.State, _ *routing.DrainRequest) { s.Inventory.Synced = false }, []string{"have not been read yet"}},
		{"old", 0, func(s *routing.State, _ *routing.DrainRequest) { s.Inventory.Stale = "refused" }, []string{"old (refused)"}},
		{"nobody", 0, func(s *routing.State, _ *routing.DrainRequest) { s.Inventory.Nodes = s.Inventory.Nodes[1:] }, []string{`"k8s-1" is not in test`}},
		{"no UID", kube, func(s *routing.State, _ *routing.DrainRequest) { s.Inventory.Nodes[0].UID = "" }, []string{"UID of Node k8s-1"}},
		{"marker", mesh, func(s *routing.State, _ *routing.DrainRequest) { s.Plan.Drained = []string{"k8s-2"} },
			[]string{"k8s-2 is drained", "this node is the last to announce 10.47.64.0/24 to udm (k8s-2 is drained): bring another one back first"}},
		{"held", kube, func(s *routing.State, _ *routing.DrainRequest) {
			s.Inventory.Drain.Holder, s.Plan.Drained = "two/x", []string{"k8s-2"}
			s.Inventory.Drain.Status = &routing.DrainStatus{Request: routing.DrainRequest{Node: "k8s-2", By: "uid 7", Reason: "fan"}, Since: time.Unix(0, 0), Progress: routing.DrainProgress{Phase: routing.DrainDone}}
		}, []string{`k8s-2 is drained since 1970-01-01T00:00:00Z (by uid 7, "fan"): undrain it first, or take the lock from it by --force --holder k8s-2`, "this node is the last to announce"}},
		{"held by who is gone", kube, func(s *routing.State, _ *routing.DrainRequest) { s.Inventory.Drain.Holder = "three/x" }, nil},
		{"held by us", kube, func(s *routing.State, _ *routing.DrainRequest) { s.Inventory.Drain.Holder = "one/x" }, nil},
		{"no lease yet", kube, func(s *routing.State, _ *routing.DrainRequest) {
			s.Inventory.Drain = &routing.DrainLease{Unusable: "not there"}
		}, nil},
		{"lease gone", kube, func(s *routing.State, _ *routing.DrainRequest) {
			s.Inventory.Drain, s.Plan.Drained = &routing.DrainLease{Unusable: "not there"}, []string{"k8s-2"}
		}, []string{"k8s-2 is drained, or about to be (the drain lease is gone, but said so)", "this node is the last to announce"}},
		{"lease not read", kube, func(s *routing.State, _ *routing.DrainRequest) { s.Inventory.Drain = nil }, []string{"kube-system/netclass-drain has not been read"}},
		{"bad lease", kube, func(s *routing.State, _ *routing.DrainRequest) { s.Inventory.Drain.Unusable = "garbage" }, []string{"garbage"}},
		{"cordoned", kube, func(s *routing.State, _ *routing.DrainRequest) { s.Inventory.Nodes[1].Cordoned = true }, []string{"k8s-2 is protected by drain.protect.selector, and cordoned"}},
		{"both cordoned", kube, func(s *routing.State, req *routing.DrainRequest) {
			req.Cordon, s.Inventory.Nodes[1].Cordoned = true, true
			noted(s, routing.NoteRouters, routing.NoteDrains, udm4)
		}, nil},
		{"both cordoned, one by hand", kube, func(s *routing.State, _ *routing.DrainRequest) {
			s.Inventory.Nodes[1].Cordoned = true
			noted(s, routing.NoteRouters, routing.NoteDrains, udm4)
		}, []string{"k8s-2 is protected by drain.protect.selector, and cordoned: uncordon it first"}},
		{"cordoned, but not drained for that", kube, func(s *routing.State, req *routing.DrainRequest) {
			req.Cordon, s.Inventory.Nodes[1].Cordoned = true, true
			noted(s, routing.NoteRouters, udm4)
		}, []string{"k8s-2 is protected by drain.protect.selector, and cordoned, and its netclassd does not say that it drains it for that: uncordon it first"}},
		{"cordoned, and its netclassd dead", kube, func(s *routing.State, req *routing.DrainRequest) {
			req.Cordon, s.Inventory.Nodes[1].Cordoned = true, true
			noted(s, routing.NoteRouters, routing.NoteDrains, udm4)
			s.Peers[0].Session.State = routing.Active
		}, []string{"cordoned, and its netclassd does not say", "this node is the last to announce"}},
		{"cordoned and drained", kube, func(s *routing.State, req *routing.DrainRequest) {
			req.Cordon, s.Inventory.Nodes[1].Cordoned, req.Classes = true, true, []string{"pod-pod"}
			s.Inventory.Drain.Holder, s.Plan.Drained = "two/x", []string{"k8s-2"}
		}, []string{"k8s-2 holds the drain lease"}},
		{"not Ready", kube, func(s *routing.State, req *routing.DrainRequest) {
			req.Cordon, s.Inventory.Nodes[1].NotReady = true, true
		}, []string{"k8s-2 is protected by drain.protect.selector, and not Ready", "this node is the last to announce"}},
		{"not protected", kube, func(s *routing.State, _ *routing.DrainRequest) {
			s.Inventory.Nodes[1].Protected, s.Inventory.Nodes[1].Cordoned = false, true
		}, nil},
		{"not protected itself", kube, func(s *routing.State, _ *routing.DrainRequest) {
			s.Inventory.Nodes[0].Protected, s.Inventory.Nodes[1].Cordoned = false, true
		}, []string{"k8s-2 is protected by drain.protect.selector, and cordoned: uncordon it first"}},
		{"silent", mesh, func(s *routing.State, _ *routing.DrainRequest) { s.Peers[0].Session.State = routing.Active },
			[]string{"no BGP session with k8s-2", "this node is the last to announce"}},
		{"doubt", mesh, func(s *routing.State, _ *routing.DrainRequest) { s.Peers[0].Session.Doubt = true },
			[]string{"no BGP session with k8s-2", "this node is the last to announce"}},
		{"no mesh", mesh, func(s *routing.State, _ *routing.DrainRequest) { s.Config.Config.BGP.Mesh = nil }, []string{"neither a Kubernetes API nor a BGP mesh"}},
		{"last announcer", kube, func(s *routing.State, _ *routing.DrainRequest) { s.Inventory.Services[0].Nodes = []string{"k8s-1"} },
			[]string{"this node alone has a ready endpoint of shop/web"}},
		{"last that is Ready", kube, func(s *routing.State, _ *routing.DrainRequest) {
			s.Inventory.Nodes[1].Protected, s.Inventory.Nodes[1].NotReady = false, true
		}, []string{"this node is the last to announce"}},
		{"silent, though Ready", kube, func(s *routing.State, _ *routing.DrainRequest) {
			s.Peers[0].Session.State, s.Peers[0].Reason = routing.Active, "connection refused"
		}, []string{"this node is the last to announce 10.47.64.0/24 to udm (there is no BGP session with k8s-2): bring another one back first"}},
		{"no session is to be", kube, func(s *routing.State, _ *routing.DrainRequest) {
			s.Peers[0].Session.State, s.Peers[0].Reason, s.Plan.Speak.Neighbors = routing.Idle, "it has no address on pod0", nil
		}, nil},
		{"own mesh link down", kube, func(s *routing.State, _ *routing.DrainRequest) {
			s.Peers[0].Session.State, s.Kernel.Links[0].Carrier = routing.Active, false
		}, nil},
		{"one family of two", 0, func(s *routing.State, _ *routing.DrainRequest) {
			six := s.Peers[0]
			six.Neighbor.Key.Family, six.Session = routing.IPv6, routing.Session{State: routing.Active}
			s.Peers = append(s.Peers, six)
		}, nil},
		{"announces", 0, func(s *routing.State, _ *routing.DrainRequest) { noted(s, routing.NoteRouters, udm4) }, nil},
		{"does not announce", 0, func(s *routing.State, _ *routing.DrainRequest) { noted(s, routing.NoteRouters) },
			[]string{"this node is the last to announce 10.47.64.0/24 to udm (k8s-2 announces nothing to udm/ipv4): bring another one back first"}},
		{"announces in the other family", 0, func(s *routing.State, _ *routing.DrainRequest) {
			noted(s, routing.NoteRouters, routing.NoteRouter(routing.SessionKey{Peer: "udm", Family: routing.IPv6}))
		}, []string{"k8s-2 announces nothing to udm/ipv4"}},
		{"does not announce, no class of it", 0, func(s *routing.State, req *routing.DrainRequest) {
			req.Classes = []string{"pod-pod"}
			noted(s, routing.NoteRouters)
		}, nil},
		{"no announcer", kube, func(s *routing.State, _ *routing.DrainRequest) { s.Inventory.Services[0].Nodes = []string{"k8s-2"} }, nil},
		{"other class", kube, func(s *routing.State, req *routing.DrainRequest) {
			req.Classes, s.Inventory.Services[0].Nodes = []string{"pod-pod"}, []string{"k8s-1"}
		}, nil},
		{"no fallback", 0, func(s *routing.State, _ *routing.DrainRequest) {
			s.Config.Config.Tables[0].Routes.Peers.Fallback = routing.Fallback{}
		}, []string{"table pods has no fallback"}},
	} {
		for _, where := range []int{mesh, kube} {
			if tc.in != 0 && tc.in != where {
				continue
			}
			s, req := twoNodes(where == kube), &routing.DrainRequest{Node: "k8s-1", ID: "x1"}
			tc.do(s, req)
			got := unsafe(s, req, where == kube, false)
			if len(got) != len(tc.want) {
				t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
				continue
			}
			for i := range got {
				if !strings.Contains(got[i], tc.want[i]) {
					t.Errorf("%s: %q, want %q", tc.name, got[i], tc.want[i])
				}
			}
		}
	}
}

// TestQuiet: what is proved by counters, and what is not watched.
func TestQuiet(t *testing.T) {
	s := twoNodes(false)
	s.Config.Config.Drain.QuietPPS, s.Config.Config.Drain.QuietFor = 10, 4*time.Second
	s.Plan.Classes = []routing.ClassStatus{{Class: s.Config.Config.Classes[0], Health: routing.Drained}, {Class: s.Config.Config.Classes[1], Health: routing.Drained}}
	s.Plan.Speak = &routing.Speak{Neighbors: []routing.Neighbor{
		{Link: "pod0", Timers: routing.Timers{Keepalive: 2 * time.Second}}, {Link: "ingress0", Upstream: true, Timers: routing.Timers{Keepalive: 20 * time.Second}},
	}}
	if a, b := allowance(s, "pod0"), allowance(s, "ingress0"); a != 12 || b != 10.1 {
		t.Errorf("allowances %v, %v", a, b)
	}
	req := &routing.DrainRequest{}
	if links, left := watchable(s, req); !slices.Equal(links, []string{"ingress0", "pod0"}) || left != nil {
		t.Errorf("watched %v, left %v", links, left)
	}
	if links, left := watchable(s, &routing.DrainRequest{KeepEgress: true}); !slices.Equal(links, []string{"pod0"}) || len(left) != 1 {
		t.Errorf("with the way out kept: watched %v, left %v", links, left)
	}
	s.Plan.Classes = append(s.Plan.Classes, routing.ClassStatus{Class: routing.Class{Name: "other", Link: "pod0"}, Health: routing.Ready})
	if links, left := watchable(s, req); !slices.Equal(links, []string{"ingress0"}) || len(left) != 1 || !strings.Contains(left[0], "also carries other") {
		t.Errorf("with another class: watched %v, left %v", links, left)
	}
	at := func(second int, received, sent uint64) sample {
		return sample{time.Unix(int64(second), 0), map[string]routing.LinkCounters{"pod0": {Received: received, Sent: sent}}}
	}
	group := func(second int, received, multicast uint64) sample {
		return sample{time.Unix(int64(second), 0), map[string]routing.LinkCounters{"pod0": {Received: received, Multicast: multicast}}}
	}
	for name, tc := range map[string]struct {
		samples []sample
		want    string
	}{
		"multicast":      {[]sample{group(0, 500, 100), group(4, 950, 510)}, ""},
		"and unicast":    {[]sample{group(0, 500, 100), group(4, 950, 497)}, "received 13.2"},
		"read late":      {[]sample{group(0, 500, 100), group(4, 510, 112)}, ""},
		"anew, to group": {[]sample{group(0, 500, 400), group(4, 300, 290)}, ""},
		"no time":        {[]sample{group(0, 500, 400), group(0, 500, 400)}, "watched for 0s"},
		"quiet":          {[]sample{at(0, 500, 500), at(1, 510, 510), at(4, 548, 548)}, ""},
		"too short":      {[]sample{at(0, 500, 500), at(3, 500, 500)}, "watched for 3s of 4s"},
		"only received":  {[]sample{at(0, 500, 500), at(4, 553, 500)}, "received 13.2 and sent 0.0"},
		"only sent":      {[]sample{at(0, 500, 500), at(4, 500, 553)}, "received 0.0 and sent 13.2"},
		"made anew":      {[]sample{at(0, 500, 500), at(4, 20, 20)}, ""},
		"made and used":  {[]sample{at(0, 500, 500), at(4, 400, 20)}, "received 100.0"},
		"gone":           {[]sample{at(0, 500, 500), {time.Unix(4, 0), nil}}, ""},
		"burst long ago": {within([]sample{at(0, 0, 0), at(1, 900, 900), at(2, 900, 900), at(5, 900, 900), at(6, 901, 901)}, 4*time.Second), ""},
		"burst just now": {within([]sample{at(0, 0, 0), at(2, 0, 0), at(5, 0, 0), at(6, 900, 901)}, 4*time.Second), "sent 225.2"},
	} {
		if got := unproven(s, []string{"pod0"}, tc.samples); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	s.Peers[0].Session.Unsent = 1
	if got := unproven(s, nil, []sample{at(0, 0, 0), at(4, 0, 0)}); !strings.Contains(got, "k8s-2/ipv4") {
		t.Errorf("with an update that waits: %q", got)
	}
}

// TestCostsNameWhatGoesAlong: a class on the link of one that is drained is named,
// unless it was asked for.
func TestCostsNameWhatGoesAlong(t *testing.T) {
	s := twoNodes(true)
	s.Config.Config.Classes = append(s.Config.Config.Classes, routing.Class{Name: "backup", Link: "pod0"})
	for _, tc := range []struct {
		classes []string
		want    bool
	}{{nil, false}, {[]string{"pod-pod"}, true}, {[]string{"world-pod"}, false}, {[]string{"pod-pod", "backup"}, false}} {
		said := strings.Join(costs(s, &routing.DrainRequest{Classes: tc.classes}), "\n")
		if got := strings.Contains(said, "the same links is taken out too: backup"); got != tc.want {
			t.Errorf("of %v: %s", tc.classes, said)
		}
	}
}

// TestCostsOfRouters: what routers tell of goes or stays with the way out, and what
// is not known of their sessions is said.
func TestCostsOfRouters(t *testing.T) {
	s := twoNodes(true)
	s.Plan.Own = routing.Ownership{Protocols: []routing.Protocol{147}, Tables: []routing.TableID{47}}
	s.Config.Config.BGP.Upstreams[0].Import = []routing.Import{{Networks: []string{"corp"}, Table: "pods"}}
	s.Kernel.Routes = []routing.Route{{Table: 47, Dst: netip.MustParsePrefix("10.50.0.0/16"), Metric: routing.MetricImport, Link: "ingress0", Protocol: 147}}
	s.Peers[1].Neighbor.Link = "ingress0"
	s.Peers = append(s.Peers, routing.PeerStatus{
		Neighbor: routing.Neighbor{Key: routing.SessionKey{Peer: "udm", Family: routing.IPv6}, Link: "ingress0", Upstream: true},
	})
	const look = "whether another node announces to udm/ipv4 is not known, as k8s-2 cannot say: if none does, its addresses are gone; look at the router first"
	for _, tc := range []struct {
		req        routing.DrainRequest
		want, left string
		none       bool
	}{
		{routing.DrainRequest{}, "pods reach what routers tell of on ingress0 (1 network) by where main leads: no link (main has no default)", "", false},
		{routing.DrainRequest{KeepEgress: true}, "what routers tell of on ingress0 (1 network) stays there, as asked for: that link is not free", "ingress0 (the networks that routers tell of stay there)", false},
		{routing.DrainRequest{Classes: []string{"pod-pod"}}, "ingress0", "", true},
	} {
		said := costs(s, &tc.req)
		text := strings.Join(said, "\n")
		if strings.Contains(text, tc.want) == tc.none || slices.Contains(said, look) == tc.none || strings.Contains(text, "this node has no ipv6 session with udm") == tc.none {
			t.Errorf("%+v: %s", tc.req, text)
		}
		s.Config.Config.Tables[0].Routes.Default = nil
		if _, left := watchable(s, &tc.req); strings.Join(left, "") != tc.left {
			t.Errorf("%+v: not watched %q", tc.req, left)
		}
	}
	noted(s, routing.NoteRouters, udm4)
	if said := costs(s, &routing.DrainRequest{}); slices.Contains(said, look) {
		t.Errorf("another node says that it announces: %q", said)
	}
	s.Peers[2].Session.State = routing.Established
	if text := strings.Join(costs(s, &routing.DrainRequest{}), "\n"); strings.Contains(text, "session with udm") {
		t.Errorf("its sessions are up: %s", text)
	}
}

// TestCostsOfVIPTable: the pods' way out is named once, and replies that have a table of
// their own are not taken for pods.
func TestCostsOfVIPTable(t *testing.T) {
	s := twoNodes(true)
	tables := &s.Config.Config.Tables
	(*tables)[0].Rules = []routing.Selector{{From: "pods"}}
	*tables = append(*tables, routing.Table{Name: "vips", ID: 48, Rules: []routing.Selector{{From: "loadBalancers"}}, Routes: routing.Sources{Default: &routing.Default{Link: "ingress0"}}})
	all := netip.MustParsePrefix("0.0.0.0/0")
	s.Kernel.Routes = []routing.Route{{Table: 47, Dst: all, Link: "ingress0"}, {Table: 48, Dst: all, Link: "ingress0"}, {Table: routing.MainID, Dst: all, Link: "mgmt0"}}
	want := []string{
		"pods reach the world by mgmt0 instead of ingress0; connections that are masqueraded on ingress0 are reset",
		"what is still answered from loadBalancers leaves by mgmt0 instead of ingress0",
	}
	if got := costs(s, &routing.DrainRequest{})[:2]; !slices.Equal(got, want) {
		t.Errorf("said %q", got)
	}
	if got := costs(s, &routing.DrainRequest{KeepEgress: true})[:2]; !strings.HasPrefix(got[0], "the way out stays on ingress0") || strings.Contains(got[1], "ingress0, as asked") {
		t.Errorf("with the way out kept: %q", got)
	}
}
