package server_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
	"netclass.dev/server/servertest"
)

func TestShowsDesiredAndKernelStateSideBySide(t *testing.T) {
	t.Parallel()
	a := api(t, servertest.Start(t, servertest.NewSource(servertest.Faulty())))
	resp, err := a.ShowTable(t.Context(), &pb.ShowTableRequest{Table: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		kind                   pb.RouteKind
		state                  pb.ObjectState
		peer                   string
		inPlan, inKernel, ours bool
	}
	got := map[string]line{}
	for _, r := range resp.Routes {
		got[r.Destination+" "+r.Link] = line{r.Kind, r.State, r.Peer, r.InPlan, r.InKernel, r.Ours}
	}
	const (
		installed = pb.ObjectState_OBJECT_STATE_INSTALLED
		path      = pb.RouteKind_ROUTE_KIND_CLASS_PATH
		fallback  = pb.RouteKind_ROUTE_KIND_FALLBACK
	)
	for key, want := range map[string]line{
		"0.0.0.0/0 ingress0":             {pb.RouteKind_ROUTE_KIND_DEFAULT, installed, "", true, true, true},
		"10.48.0.0/24 pod0":              {pb.RouteKind_ROUTE_KIND_CONNECTED, installed, "", true, true, true},
		"10.244.1.0/24 cilium_host":      {pb.RouteKind_ROUTE_KIND_OWN, installed, "", true, true, true},
		"10.244.2.0/24 pod0":             {path, installed, "k8s-2", true, true, true},
		"10.244.3.0/24 pod0":             {path, pb.ObjectState_OBJECT_STATE_MISSING, "k8s-3", true, false, true},
		"10.244.3.0/24 node0":            {fallback, installed, "k8s-3", true, true, true},
		"fd00:10:244:3::/64 pod0":        {path, pb.ObjectState_OBJECT_STATE_HELD, "k8s-3", true, true, true},
		"fd00:10:244:2::/64 node0":       {fallback, pb.ObjectState_OBJECT_STATE_DIFFERENT, "k8s-2", true, true, true},
		"10.96.0.0/16 ":                  {pb.RouteKind_ROUTE_KIND_FENCE, installed, "", true, true, true},
		"10.99.0.0/16 mgmt0":             {0, pb.ObjectState_OBJECT_STATE_FOREIGN, "", false, true, false},
		"10.244.9.0/24 pod0":             {path, pb.ObjectState_OBJECT_STATE_LEFTOVER, "", false, true, true},
		"fd00:10:244::/48 ":              {pb.RouteKind_ROUTE_KIND_FENCE, installed, "", true, true, true},
		"fd00:10:244:1::/64 cilium_host": {pb.RouteKind_ROUTE_KIND_OWN, installed, "", true, true, true},
	} {
		if got[key] != want {
			t.Errorf("%s:\n got %+v\nwant %+v", key, got[key], want)
		}
	}
	if resp.Table.Ipv4.Planned != 17 || resp.Table.Ipv4.Missing != 1 || resp.Table.Ipv4.Foreign != 1 || resp.Table.Ipv4.Leftover != 1 {
		t.Errorf("IPv4 counts: %v", resp.Table.Ipv4)
	}
}

func TestGuardStandsInMain(t *testing.T) {
	t.Parallel()
	a := api(t, servertest.Start(t, servertest.NewSource(servertest.Healthy())))
	for _, name := range []string{"main", "254"} {
		resp, err := a.ShowTable(t.Context(), &pb.ShowTableRequest{Table: name, Family: pb.Family_FAMILY_IPV4})
		if err != nil {
			t.Fatal(err)
		}
		guards, foreign := 0, 0
		for _, r := range resp.Routes {
			switch {
			case r.Kind == pb.RouteKind_ROUTE_KIND_GUARD && r.State == pb.ObjectState_OBJECT_STATE_INSTALLED:
				guards++
			case r.State == pb.ObjectState_OBJECT_STATE_FOREIGN && r.Kind == pb.RouteKind_ROUTE_KIND_UNSPECIFIED:
				foreign++
			}
		}
		if guards != 3 || foreign != 2 || len(resp.Routes) != 5 {
			t.Errorf("table %s: %d guards, %d foreign of %d", name, guards, foreign, len(resp.Routes))
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	a := api(t, servertest.Start(t, servertest.NewSource(servertest.Faulty())))
	resp, err := a.ListRules(t.Context(), &pb.ListRulesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, r := range resp.Rules {
		lines = append(lines, r.Family.String()[7:]+" "+r.Text+" "+strings.TrimPrefix(r.State.String(), "OBJECT_STATE_"))
	}
	want := `IPV4 0: from all lookup local FOREIGN
IPV4 1001: from 10.244.0.0/16 lookup 47 INSTALLED
IPV4 1003: from 10.47.64.0/24 lookup 47 MISSING
IPV4 32766: from all lookup main FOREIGN
IPV4 32767: from all lookup default FOREIGN
IPV6 0: from all lookup local FOREIGN
IPV6 1000: from fd00:10:244::/48 lookup 47 INSTALLED
IPV6 1002: from fd00:47:64::/112 lookup 47 INSTALLED
IPV6 32766: from all lookup main FOREIGN`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A guard as rules, and a stranger's rule of the same text.
func TestRuleKinds(t *testing.T) {
	t.Parallel()
	st := servertest.Healthy()
	pods := netip.MustParsePrefix("10.244.0.0/16")
	guard := []routing.Rule{
		{Family: 4, Priority: 32762, To: pods, Table: routing.MainID, Protocol: 148, SuppressPrefixLen: 15},
		{Family: 4, Priority: 32763, To: pods, Action: routing.ActionUnreachable, Protocol: 148, SuppressPrefixLen: routing.NoSuppress},
		{Family: 4, Priority: 900, To: pods, IIF: "ingress0", Action: routing.ActionUnreachable, Protocol: 148, SuppressPrefixLen: routing.NoSuppress},
	}
	foreign := guard[1]
	foreign.Protocol = 4
	st.Plan.Rules, st.Kernel.Rules = guard, append([]routing.Rule{foreign, guard[1]}, guard...)
	resp, err := api(t, servertest.Start(t, servertest.NewSource(st))).ListRules(t.Context(), &pb.ListRulesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []pb.RuleKind
	for _, r := range resp.Rules {
		kinds = append(kinds, r.Kind)
	}
	// The second copy of the guard is too many; its priority is not listed as
	// ours, so it counts as a stranger's.
	want := []pb.RuleKind{pb.RuleKind_RULE_KIND_UNUSED_ADDRESS, pb.RuleKind_RULE_KIND_GUARD_LOOKUP, 0, pb.RuleKind_RULE_KIND_GUARD, 0}
	if len(kinds) != len(want) {
		t.Fatalf("kinds %v", kinds)
	}
	for i := range want {
		if kinds[i] != want[i] {
			t.Errorf("rule %d (%s): kind %v, want %v", i, resp.Rules[i].Text, kinds[i], want[i])
		}
	}
	if n := resp.Rules[1].SuppressPrefixLength; n == nil || *n != 15 {
		t.Errorf("suppress_prefix_length %v", n)
	}
}

// Names in the kernel and texts from peers may be any bytes.
func TestNotUTF8(t *testing.T) {
	t.Parallel()
	st := servertest.Faulty()
	bad := "x\xff"
	st.Kernel.Routes = append(st.Kernel.Routes, routing.Route{Table: servertest.PodsID, Dst: netip.MustParsePrefix("1.0.0.0/8"), Link: bad})
	st.Kernel.Rules = append(st.Kernel.Rules, routing.Rule{Family: 4, Priority: 5, IIF: bad, Extra: bad, SuppressPrefixLen: -1})
	st.Peers[0].Session.Detail, st.Peers[0].Reason = bad, bad
	st.Conditions = append(st.Conditions, routing.Condition{Object: "kernel", Reason: "X", Message: bad})
	st.Config.Error, st.Inventory.Stale, st.Pass.Error, st.Speaker.LastExit = bad, bad, bad, bad
	st.Plan.Tables[0].Waiting, st.Plan.Tables[0].RulesText = []string{bad}, []string{bad}
	st.Plan.Hold = bad
	a := api(t, servertest.Start(t, servertest.NewSource(st)))
	ctx := t.Context()
	for name, call := range map[string]func() (proto.Message, error){
		"status": func() (proto.Message, error) { return a.GetStatus(ctx, &pb.GetStatusRequest{}) },
		"tables": func() (proto.Message, error) { return a.ListTables(ctx, &pb.ListTablesRequest{}) },
		"pods":   func() (proto.Message, error) { return a.ShowTable(ctx, &pb.ShowTableRequest{Table: "pods"}) },
		"rules":  func() (proto.Message, error) { return a.ListRules(ctx, &pb.ListRulesRequest{}) },
		"peers":  func() (proto.Message, error) { return a.ListPeers(ctx, &pb.ListPeersRequest{}) },
		"plan":   func() (proto.Message, error) { return a.GetPlan(ctx, &pb.GetPlanRequest{}) },
	} {
		if _, err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIdleDaemonAnswersEverything(t *testing.T) {
	t.Parallel()
	socket := servertest.Start(t, servertest.NewSource(servertest.Idle()))
	a := api(t, socket)
	ctx := t.Context()
	for name, call := range map[string]func() (proto.Message, error){
		"status":  func() (proto.Message, error) { return a.GetStatus(ctx, &pb.GetStatusRequest{}) },
		"classes": func() (proto.Message, error) { return a.ListClasses(ctx, &pb.ListClassesRequest{}) },
		"tables":  func() (proto.Message, error) { return a.ListTables(ctx, &pb.ListTablesRequest{}) },
		"main":    func() (proto.Message, error) { return a.ShowTable(ctx, &pb.ShowTableRequest{Table: "main"}) },
		"rules":   func() (proto.Message, error) { return a.ListRules(ctx, &pb.ListRulesRequest{}) },
		"peers":   func() (proto.Message, error) { return a.ListPeers(ctx, &pb.ListPeersRequest{}) },
		"nodes":   func() (proto.Message, error) { return a.ListNodes(ctx, &pb.ListNodesRequest{}) },
		"plan":    func() (proto.Message, error) { return a.GetPlan(ctx, &pb.GetPlanRequest{}) },
	} {
		if _, err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	resp, err := healthpb.NewHealthClient(dial(t, socket)).Check(ctx, &healthpb.HealthCheckRequest{Service: "netclass.v1.NetClassService"})
	if err != nil || resp.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health of an idle daemon: %v, %v", resp, err)
	}
}

// What a peer says in vain is counted, also what never comes before the planner.
func TestRefusedIsWhatIsNotAccepted(t *testing.T) {
	st := servertest.Healthy()
	for i := range st.Peers {
		if st.Peers[i].Neighbor.Upstream {
			st.Peers[i].Session.Received = 5
		}
	}
	list, err := api(t, servertest.Start(t, servertest.NewSource(st))).ListPeers(t.Context(), &pb.ListPeersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, p := range list.GetPeers() {
		if p.GetState() == pb.SessionState_SESSION_STATE_ESTABLISHED && p.GetReceived() != p.GetAccepted()+p.GetRefused() {
			t.Errorf("%s: %d received, %d accepted, %d refused", p.GetName(), p.GetReceived(), p.GetAccepted(), p.GetRefused())
		}
		seen = seen || p.GetRefused() == 5
	}
	if !seen {
		t.Error("no router's prefixes were counted")
	}
}

// TestAsideIsNotRefused: what is left aside while the peer cannot be reached is not
// refused.
func TestAsideIsNotRefused(t *testing.T) {
	st := servertest.Healthy()
	p := &st.Peers[0]
	p.Session.State, p.Session.EndOfRIB, p.Session.Received = routing.Established, true, 3
	p.Accepted, p.RefusedCount, p.Aside = nil, 1, 2
	list, err := api(t, servertest.Start(t, servertest.NewSource(st))).ListPeers(t.Context(), &pb.ListPeersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, got := range list.GetPeers() {
		if got.GetName() == p.Neighbor.Key.Peer && got.GetFamily() == pb.Family(p.Neighbor.Key.Family) {
			if seen = true; got.GetRefused() != 1 {
				t.Errorf("%d refused", got.GetRefused())
			}
		}
	}
	if !seen {
		t.Error("the peer is not listed")
	}
}

// TestAnnounced: each peer is shown what it is told, and one whose session is down
// that it is told nothing.
func TestAnnounced(t *testing.T) {
	a := api(t, servertest.Start(t, servertest.NewSource(servertest.Faulty())))
	list, err := a.ListPeers(t.Context(), &pb.ListPeersRequest{View: pb.PeerView_PEER_VIEW_FULL})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range list.GetPeers() {
		line := fmt.Sprintf("%s %d %d", p.GetName(), p.GetFamily(), p.GetAnnounced())
		for _, n := range p.GetAnnouncements() {
			line += fmt.Sprintf(" %s via %s MED %d %v", n.GetPrefix(), n.GetNextHop(), n.GetMed(), n.GetCommunities())
		}
		got = append(got, line)
	}
	want := []string{
		"k8s-2 4 1 10.244.1.0/24 via 10.48.0.1 MED 0 []", "k8s-2 6 1 fd00:10:244:1::/64 via fd00:48::1 MED 0 []",
		"k8s-3 4 0", "k8s-3 6 0",
		"udm 4 1 10.47.64.0/24 via 10.47.0.1 MED 10 [64512:100]", "udm 6 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	list, err = a.ListPeers(t.Context(), &pb.ListPeersRequest{})
	if err != nil || list.GetPeers()[0].GetAnnounced() != 1 || list.GetPeers()[0].GetAnnouncements() != nil {
		t.Errorf("basic view: %v, %v", list.GetPeers()[0], err)
	}
}
