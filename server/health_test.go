package server_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"netclass.dev/routing"
	"netclass.dev/server"
	"netclass.dev/server/servertest"
)

func TestHealthFollowsTheState(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	check := healthpb.NewHealthClient(dial(t, servertest.Start(t, source)))
	wait := func(daemon, classes bool) {
		t.Helper()
		for name, well := range map[string]bool{"": daemon, "netclass.v1.NetClassService": daemon, server.ClassesService: classes} {
			want := healthpb.HealthCheckResponse_NOT_SERVING
			if well {
				want = healthpb.HealthCheckResponse_SERVING
			}
			for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
				resp, err := check.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
				if err == nil && resp.Status == want {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("health of %q: %v, %v; want %v", name, resp, err, want)
				}
			}
		}
	}
	wait(true, true)
	source.Publish(func(st *routing.State) { st.Health = routing.Degraded })
	wait(false, false)
	source.Publish(func(st *routing.State) { *st = *waiting(st) })
	wait(true, false)
	source.Publish(func(st *routing.State) { *st = *servertest.Healthy(); st.Sequence += 10 })
	wait(true, true)
}

func waiting(st *routing.State) *routing.State {
	next := servertest.Healthy()
	next.Sequence, next.Health = st.Sequence, routing.Waiting
	next.Plan.Classes[1].Health, next.Plan.Classes[1].Reason = routing.Waiting, "link pod9 does not exist"
	return next
}

// TestClassesHealth: whether a node's classes work, and why not. What an operator gets
// wrong shows, what others do to the node does not.
func TestClassesHealth(t *testing.T) {
	t.Parallel()
	class := func(name string, health routing.Health, reason string) func(*routing.State) {
		return func(st *routing.State) {
			for i := range st.Plan.Classes {
				if c := &st.Plan.Classes[i]; c.Class.Name == name {
					c.Health, c.Reason = health, reason
				}
			}
		}
	}
	without := func(link string) func(*routing.State) {
		return func(st *routing.State) {
			st.Kernel.Links = slices.DeleteFunc(st.Kernel.Links, func(l routing.Link) bool { return l.Name == link })
		}
	}
	sessions := func(peer string, set func(*routing.PeerStatus)) func(*routing.State) {
		return func(st *routing.State) {
			for i := range st.Peers {
				if p := &st.Peers[i]; peer == "" && !p.Neighbor.Upstream || p.Neighbor.Key.Peer == peer {
					set(p)
				}
			}
		}
	}
	never := func(p *routing.PeerStatus) {
		p.Session, p.Reason = routing.Session{Key: p.Neighbor.Key, State: routing.Active}, "connection refused"
	}
	away := func(p *routing.PeerStatus) {
		never(p)
		p.Session.Cause = routing.CauseHoldTimer
	}
	two := func(st *routing.State) { // a cluster of two nodes
		st.Inventory.Nodes = st.Inventory.Nodes[:2]
		st.Peers = slices.DeleteFunc(st.Peers, func(p routing.PeerStatus) bool { return p.Neighbor.Key.Peer == "k8s-3" })
	}
	for name, test := range map[string]struct {
		do   []func(*routing.State)
		want string // why not, in part; empty: they work
	}{
		"converged": {},
		"a class waits": {
			[]func(*routing.State){class("pod-pod", routing.Waiting, "link pod9 does not exist")}, "class pod-pod: link pod9 does not exist"},
		"a promise is violated": {
			[]func(*routing.State){class("world-pod", routing.Degraded, "pods to world, ipv4: it leaves by mgmt0")}, "class world-pod: pods to world"},
		"a class shares a link": {[]func(*routing.State){class("pod-pod", routing.Shared, "1 of 4 pod CIDRs uses node0")}, ""},
		"another's annotation is missing": {[]func(*routing.State){func(st *routing.State) {
			st.Plan.Tables[0].Health, st.Plan.Tables[0].Waiting = routing.Waiting, []string{"path to 10.244.3.0/24: node k8s-3 has no annotation"}
		}}, ""},
		"a link of the table": {[]func(*routing.State){without("mgmt0")}, "table pods: link mgmt0 does not exist"},
		"the CNI's link":      {[]func(*routing.State){without("cilium_host")}, "table pods: link cilium_host does not exist"},
		"the CNI's link is down": {[]func(*routing.State){func(st *routing.State) {
			for i := range st.Plan.Routes {
				if r := &st.Plan.Routes[i]; r.Link == "cilium_host" {
					r.Link, r.Type = "", routing.Throw
				}
			}
		}}, "own pods of 10.244.1.0/24 cannot be reached by link cilium_host"},
		"no pod CIDR": {[]func(*routing.State){func(st *routing.State) { st.Inventory.Nodes[0].PodCIDRs = nil }}, "no pod CIDR"},
		"no nodes":    {[]func(*routing.State){func(st *routing.State) { st.Inventory = routing.Inventory{} }}, "the nodes have not been read yet"},
		"nodes from the copy": {[]func(*routing.State){func(st *routing.State) {
			st.Inventory.Synced, st.Inventory.AsOf = false, servertest.Now
		}}, ""},
		"no session":                          {[]func(*routing.State){sessions("", never)}, "no session of the mesh is up, of 2 nodes': k8s-2/ipv4: connection refused"},
		"every session has gone":              {[]func(*routing.State){sessions("", away)}, "no session of the mesh is up"},
		"one peer is away":                    {[]func(*routing.State){sessions("k8s-3", away)}, ""},
		"one peer has never been there":       {[]func(*routing.State){sessions("k8s-3", never)}, ""},
		"all are held":                        {[]func(*routing.State){sessions("", func(p *routing.PeerStatus) { away(p); p.Held = true })}, ""},
		"held from before it started":         {[]func(*routing.State){sessions("", func(p *routing.PeerStatus) { never(p); p.Held = true })}, "no session of the mesh is up"},
		"the only peer is away":               {[]func(*routing.State){two, sessions("k8s-2", away)}, ""},
		"the only peer has never been there":  {[]func(*routing.State){two, sessions("k8s-2", never)}, "no session of the mesh is up, of 1 nodes'"},
		"the only peer's node is not ready":   {[]func(*routing.State){two, sessions("k8s-2", never), func(st *routing.State) { st.Inventory.Nodes[1].NotReady = true }}, ""},
		"the others' addresses are not known": {[]func(*routing.State){sessions("", func(p *routing.PeerStatus) { never(p); p.Neighbor.Remote, p.Reason = netip.Addr{}, "no annotation" })}, "no annotation"},
		"the only node":                       {[]func(*routing.State){func(st *routing.State) { st.Peers = nil }}, ""},
		"the router is away":                  {[]func(*routing.State){sessions("udm", never)}, ""},
		"drained":                             {[]func(*routing.State){func(st *routing.State) { *st = *servertest.Drained() }}, ""},
		"draining, and its link taken away": {[]func(*routing.State){func(st *routing.State) {
			*st = *servertest.Drained()
			for i := range st.Plan.Classes {
				if st.Plan.Classes[i].Health == routing.Drained {
					st.Plan.Classes[i].Health = routing.DrainingState
				}
			}
		}, without("pod0"), sessions("", never)}, ""},
		"drained, and its link taken away":     {[]func(*routing.State){func(st *routing.State) { *st = *servertest.Drained() }, without("pod0"), sessions("", never)}, ""},
		"drained, and another link taken away": {[]func(*routing.State){func(st *routing.State) { *st = *servertest.Drained() }, without("mgmt0")}, "link mgmt0 does not exist"},
		"idle":                                 {[]func(*routing.State){func(st *routing.State) { *st = *servertest.Idle() }}, ""},
		"not begun":                            {[]func(*routing.State){func(st *routing.State) { *st = *servertest.Idle(); st.Pass.Passes = 0 }}, "it has not looked at the kernel yet"},
		"degraded": {[]func(*routing.State){func(st *routing.State) {
			st.Health, st.Conditions = routing.Degraded, []routing.Condition{{Object: "peer/udm/ipv4", Reason: "NoSession", Message: "connection refused"}, {Object: "speaker", Reason: "CannotDo", Message: "listen on 10.48.0.1:179: in use by bird"}}
		}}, "the daemon is degraded: speaker: listen on 10.48.0.1:179: in use"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := servertest.Healthy()
			for _, do := range test.do {
				do(st)
			}
			check := healthpb.NewHealthClient(dial(t, servertest.Start(t, servertest.NewSource(st))))
			var trailer metadata.MD
			resp, err := check.Check(t.Context(), &healthpb.HealthCheckRequest{Service: server.ClassesService}, grpc.Trailer(&trailer))
			if err != nil {
				t.Fatal(err)
			}
			why := strings.Join(trailer.Get(server.ReasonTrailer), "|")
			if got, want := resp.GetStatus() == healthpb.HealthCheckResponse_SERVING, test.want == ""; got != want || !strings.Contains(why, test.want) || got != (why == "") {
				t.Errorf("%v because %q, want %q", resp.GetStatus(), why, test.want)
			}
			trailer = nil
			if _, err := check.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.Trailer(&trailer)); err != nil || len(trailer.Get(server.ReasonTrailer)) > 0 {
				t.Errorf("of the daemon: %v, %v", trailer, err)
			}
		})
	}
}
