package servertest

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"netclass.dev/routing"
)

// Now is the time of every fixed state.
var Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// PodsID is the number of the table that the seed's classes use.
const PodsID routing.TableID = 47

// pools are the load balancer addresses that are announced to the router.
var pools = map[routing.Family]netip.Prefix{
	routing.IPv4: netip.MustParsePrefix("10.47.64.0/24"), routing.IPv6: netip.MustParsePrefix("fd00:47:64::/112"),
}

// Healthy returns the state of k8s-1 in a cluster of three nodes, converged: five
// classes, one table, a mesh over pod0 and a router on ingress0.
func Healthy() *routing.State {
	st := &routing.State{
		Version: "0.1.0", Node: "k8s-1", Now: Now, Started: Now.Add(-3 * time.Hour), Sequence: 5212, Health: routing.Ready,
		Config:    routing.ConfigStatus{Path: "/etc/netclassd/config.yaml", LoadedAt: Now.Add(-3 * time.Hour), Config: config()},
		Inventory: routing.Inventory{Nodes: nodes(), Synced: true, Source: "nodes file /etc/netclassd/nodes.yaml"},
		Pass: routing.PassStatus{
			Passes: 5212, Dumps: 371, At: Now.Add(-4 * time.Second), Took: 1200 * time.Microsecond, Applied: 54, Synced: true,
		},
		Speaker: routing.SpeakerStatus{Wanted: true, PID: 4711, Since: Now.Add(-3 * time.Hour)},
	}
	st.Plan = plan(st.Config.Config)
	st.Kernel = kernel(st.Plan)
	for _, f := range routing.Families {
		st.Peers = append(st.Peers, session("k8s-2", f), session("k8s-3", f), upstream(f))
		st.Announced = append(st.Announced,
			routing.Announcement{Prefix: podCIDR(1, f), NextHop: address(48, 1, f)},
			routing.Announcement{Prefix: pools[f], NextHop: address(47, 1, f), To: "udm", MED: 10, Communities: []string{"64512:100"}},
		)
	}
	return st
}

// Faulty returns the same node on a bad day: k8s-3 has just lost its sessions,
// the router is away, the newest configuration is wrong, somebody has put a
// route into our table and taken one out.
func Faulty() *routing.State {
	st := Healthy()
	st.Sequence++
	st.Health = routing.Degraded
	st.Config.Error = "/etc/netclassd/config.yaml:12:9: there is no network \"podz\""
	st.Inventory.Stale = "read /etc/netclassd/nodes.yaml: line 7: bad prefix"
	st.Pass.Failed, st.Pass.Error, st.Pass.Synced = 1, "add route 10.244.3.0/24 via 10.48.0.3 dev pod0: network is unreachable", false
	st.Speaker.Restarts, st.Speaker.LastExit = 1, "signal: killed"
	st.Speaker.Errors = []string{"listen 10.48.0.1:179: address already in use"}

	missing := netip.MustParsePrefix("10.244.3.0/24")
	st.Kernel.Routes = slices.DeleteFunc(st.Kernel.Routes, func(r routing.Route) bool {
		return r.Dst == missing && r.Metric == routing.MetricPath && r.Table == PodsID
	})
	for i := range st.Kernel.Routes {
		if r := &st.Kernel.Routes[i]; r.Dst == netip.MustParsePrefix("fd00:10:244:2::/64") && r.Metric == routing.MetricFallback {
			r.MTU = 1400
		}
	}
	st.Kernel.Routes = append(st.Kernel.Routes,
		routing.Route{Table: PodsID, Dst: netip.MustParsePrefix("10.99.0.0/16"), Metric: 50, Protocol: routing.ProtocolStatic, Via: netip.MustParseAddr("10.40.0.254"), Link: "mgmt0"},
		routing.Route{Table: PodsID, Dst: netip.MustParsePrefix("10.244.9.0/24"), Metric: routing.MetricPath, Protocol: routing.ProtocolNetclass, Via: netip.MustParseAddr("10.48.0.9"), Link: "pod0"},
	)
	st.Kernel.Rules = slices.DeleteFunc(st.Kernel.Rules, func(r routing.Rule) bool { return r.Priority == 1003 })
	for _, r := range st.Plan.Routes {
		if r.Dst == missing && r.Metric == routing.MetricPath {
			st.Pending = append(st.Pending, routing.Op{Stage: routing.StagePeers, Verb: routing.Add, Route: r})
		}
		if r.Dst == netip.MustParsePrefix("fd00:10:244:2::/64") && r.Metric == routing.MetricFallback {
			st.Pending = append(st.Pending, routing.Op{Stage: routing.StagePeers, Verb: routing.Replace, Route: r})
		}
	}
	for _, r := range st.Plan.Rules {
		if r.Priority == 1003 {
			st.Pending = append(st.Pending, routing.Op{Stage: routing.StageRules, Verb: routing.Add, Rule: r})
		}
	}
	st.Pending = append(st.Pending, routing.Op{Stage: routing.StageDropPeers, Verb: routing.Delete, Route: st.Kernel.Routes[len(st.Kernel.Routes)-1]})

	for i := range st.Peers {
		p := &st.Peers[i]
		switch {
		case p.Neighbor.Key.Peer == "k8s-3":
			p.Session.State, p.Session.Since, p.Session.EndOfRIB = routing.Active, Now.Add(-3*time.Second), false
			p.Session.Cause, p.Session.Detail = routing.CauseConnection, "read: connection reset by peer"
			p.Held, p.HeldTill = true, Now.Add(7*time.Second)
		case p.Neighbor.Key == routing.SessionKey{Peer: "udm", Family: routing.IPv6}:
			p.Session, p.Neighbor.Remote = routing.Session{Key: p.Neighbor.Key}, netip.Addr{}
			p.Reason = "node k8s-1 has no annotation net.renner.uno/egress-gw-v6"
		case p.Neighbor.Key == routing.SessionKey{Peer: "k8s-2", Family: routing.IPv4}:
			p.Session.Received, p.RefusedCount = 3, 2
			p.Refused = []routing.Refusal{
				{Path: routing.Path{Prefix: netip.MustParsePrefix("0.0.0.0/0"), NextHop: netip.MustParseAddr("10.48.0.2")}, Reason: "a default is never accepted"},
				{Path: routing.Path{Prefix: netip.MustParsePrefix("10.244.3.0/24"), NextHop: netip.MustParseAddr("10.48.0.2")}, Reason: "belongs to node k8s-3"},
			}
		}
	}
	st.Plan.Classes[1].Health, st.Plan.Classes[1].Reason = routing.Shared, "1 of 4 pod CIDRs uses node0"
	st.Plan.Classes[1].Separated, st.Plan.Classes[1].Fallback = 3, 1
	st.Plan.Classes[2].Health, st.Plan.Classes[2].Reason = routing.Waiting, "link ingress0 has no carrier"
	st.Kernel.Link("ingress0").Carrier = false
	st.Plan.Tables[0].Health, st.Plan.Tables[0].Reason = routing.Waiting, "ipv6 default: node k8s-1 has no annotation net.renner.uno/egress-gw-v6"
	st.Plan.Tables[0].Waiting = []string{st.Plan.Tables[0].Reason}
	st.Conditions = []routing.Condition{
		{Object: "config", Reason: "Invalid", Message: st.Config.Error, Since: Now.Add(-12 * time.Minute)},
		{Object: "class/world-pod", Reason: "NoCarrier", Message: "link ingress0 has no carrier", Since: Now.Add(-3 * time.Second)},
		{Object: "peer/k8s-3/ipv4", Reason: "Held", Message: "session lost; its routes are kept for 7s", Since: Now.Add(-3 * time.Second)},
		{Object: "kernel", Reason: "ApplyFailed", Message: st.Pass.Error, Since: Now.Add(-90 * time.Hour)},
	}
	return st
}

// Idle returns the state of a daemon without a configuration.
func Idle() *routing.State {
	return &routing.State{
		Version: "0.1.0", Node: "k8s-1", Now: Now, Started: Now.Add(-time.Minute), Sequence: 1, Health: routing.IdleState,
		Config: routing.ConfigStatus{Path: "/etc/netclassd/config.yaml"},
		Pass:   routing.PassStatus{Passes: 1, Dumps: 1, At: Now, Synced: true},
	}
}

// Large returns the healthy node with n routes more in its table.
func Large(n int) *routing.State {
	st := Healthy()
	for i := range n {
		r := routing.Route{
			Table: PodsID, Metric: routing.MetricPath, Protocol: routing.ProtocolNetclass, Link: "pod0",
			Dst: netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}), 32), Via: netip.MustParseAddr("10.48.0.2"),
		}
		if i%2 == 1 {
			r.Dst = netip.MustParsePrefix(fmt.Sprintf("fd01::%x:%x/128", i>>16, i&0xffff))
			r.Via = netip.MustParseAddr("fd00:48::2")
		}
		st.Plan.Routes = append(st.Plan.Routes, r)
		st.Kernel.Routes = append(st.Kernel.Routes, r)
	}
	return st
}
