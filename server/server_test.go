package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
	"netclass.dev/server/servertest"
)

func dial(t *testing.T, socket string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}),
	}, options...)
	conn, err := grpc.NewClient("passthrough:///x", options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func api(t *testing.T, socket string) pb.NetClassServiceClient {
	return pb.NewNetClassServiceClient(dial(t, socket))
}

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
IPV4 32767: from all lookup 253 FOREIGN
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

// Every bad argument is refused with the field's name, and none panics.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	a := api(t, servertest.Start(t, servertest.NewSource(servertest.Healthy())))
	ctx := t.Context()
	for name, c := range map[string]struct {
		call  func() error
		code  codes.Code
		field string
	}{
		"negative page":     {func() error { _, err := a.ListClasses(ctx, &pb.ListClassesRequest{PageSize: -1}); return err }, codes.InvalidArgument, "page_size"},
		"token not base64":  {func() error { _, err := a.ListNodes(ctx, &pb.ListNodesRequest{PageToken: "%%"}); return err }, codes.InvalidArgument, "page_token"},
		"token too short":   {func() error { _, err := a.ListRules(ctx, &pb.ListRulesRequest{PageToken: "AA"}); return err }, codes.InvalidArgument, "page_token"},
		"token of nobody":   {func() error { _, err := a.ListTables(ctx, &pb.ListTablesRequest{PageToken: "AAAAAAAAAA"}); return err }, codes.InvalidArgument, "page_token"},
		"plan token":        {func() error { _, err := a.GetPlan(ctx, &pb.GetPlanRequest{PageToken: "AAAAAAAAAA"}); return err }, codes.InvalidArgument, "page_token"},
		"family 5":          {func() error { _, err := a.ListRules(ctx, &pb.ListRulesRequest{Family: 5}); return err }, codes.InvalidArgument, "family"},
		"family -1":         {func() error { _, err := a.GetPlan(ctx, &pb.GetPlanRequest{Family: -1}); return err }, codes.InvalidArgument, "family"},
		"peers family":      {func() error { _, err := a.ListPeers(ctx, &pb.ListPeersRequest{Family: 10}); return err }, codes.InvalidArgument, "family"},
		"view 9":            {func() error { _, err := a.ListPeers(ctx, &pb.ListPeersRequest{View: 9}); return err }, codes.InvalidArgument, "view"},
		"no table":          {func() error { _, err := a.ShowTable(ctx, &pb.ShowTableRequest{}); return err }, codes.InvalidArgument, "table"},
		"table family":      {func() error { _, err := a.ShowTable(ctx, &pb.ShowTableRequest{Table: "pods", Family: 99}); return err }, codes.InvalidArgument, "family"},
		"no class":          {func() error { _, err := a.GetClass(ctx, &pb.GetClassRequest{}); return err }, codes.InvalidArgument, "name"},
		"unknown class":     {func() error { _, err := a.GetClass(ctx, &pb.GetClassRequest{Name: "x"}); return err }, codes.NotFound, ""},
		"unknown table":     {func() error { _, err := a.ShowTable(ctx, &pb.ShowTableRequest{Table: "x"}); return err }, codes.NotFound, ""},
		"table number":      {func() error { _, err := a.ShowTable(ctx, &pb.ShowTableRequest{Table: "48"}); return err }, codes.NotFound, ""},
		"huge table number": {func() error { _, err := a.ShowTable(ctx, &pb.ShowTableRequest{Table: "99999999999"}); return err }, codes.NotFound, ""},
		"unknown peer":      {func() error { _, err := a.ListPeers(ctx, &pb.ListPeersRequest{Peer: "x"}); return err }, codes.NotFound, ""},
		"request too large": {func() error {
			_, err := a.GetClass(ctx, &pb.GetClassRequest{Name: strings.Repeat("x", 1<<20)})
			return err
		}, codes.ResourceExhausted, ""},
		"strange class name": {func() error { _, err := a.GetClass(ctx, &pb.GetClassRequest{Name: "\x00/../"}); return err }, codes.NotFound, ""},
	} {
		err := c.call()
		if status.Code(err) != c.code {
			t.Errorf("%s: %v, want %v", name, err, c.code)
			continue
		}
		info, field, resource := details(err)
		if c.code == codes.ResourceExhausted {
			continue // gRPC's own
		}
		if info.GetDomain() != "netclass.dev" || info.GetReason() == "" {
			t.Errorf("%s: ErrorInfo %v", name, info)
		}
		if field != c.field {
			t.Errorf("%s: field %q, want %q", name, field, c.field)
		}
		if (c.code == codes.NotFound) != (resource != nil) {
			t.Errorf("%s: ResourceInfo %v", name, resource)
		}
	}
}

func details(err error) (info *errdetails.ErrorInfo, field string, resource *errdetails.ResourceInfo) {
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.BadRequest:
			field = d.GetFieldViolations()[0].GetField()
		case *errdetails.ResourceInfo:
			resource = d
		}
	}
	return info, field, resource
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

func TestHealthFollowsTheState(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	check := healthpb.NewHealthClient(dial(t, servertest.Start(t, source)))
	wait := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
			resp, err := check.Check(t.Context(), &healthpb.HealthCheckRequest{})
			if err == nil && resp.Status == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("health %v, %v; want %v", resp, err, want)
			}
		}
	}
	wait(healthpb.HealthCheckResponse_SERVING)
	source.Publish(func(st *routing.State) { st.Health = routing.Degraded })
	wait(healthpb.HealthCheckResponse_NOT_SERVING)
	source.Publish(func(st *routing.State) { st.Health = routing.Waiting })
	wait(healthpb.HealthCheckResponse_SERVING)
}

func TestReflectionListsTheService(t *testing.T) {
	t.Parallel()
	stream, err := reflectionpb.NewServerReflectionClient(dial(t, servertest.Start(t, servertest.NewSource(servertest.Idle())))).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil || !strings.Contains(resp.String(), "netclass.v1.NetClassService") {
		t.Errorf("%v, %v", resp, err)
	}
}

// Clients of other languages send the socket's path, percent-encoded or not.
func TestAnyAuthority(t *testing.T) {
	t.Parallel()
	socket := servertest.Start(t, servertest.NewSource(servertest.Idle()))
	for _, authority := range []string{"localhost", "netclassd", "unix:" + socket, "%2Frun%2Fnetclassd.sock", "127.0.0.1:1"} {
		conn := dial(t, socket, grpc.WithAuthority(authority))
		if _, err := pb.NewNetClassServiceClient(conn).GetStatus(t.Context(), &pb.GetStatusRequest{}); err != nil {
			t.Errorf("authority %q: %v", authority, err)
		}
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	var answer error
	validated := false
	source.OnReload = func(_ context.Context, validateOnly bool) error {
		validated = validateOnly
		return answer
	}
	a := api(t, servertest.Start(t, source))
	resp, err := a.Reload(t.Context(), &pb.ReloadRequest{ValidateOnly: true})
	if err != nil || resp.Path != "/etc/netclassd/config.yaml" || !validated {
		t.Errorf("good: %v, %v, validated %v", resp, err, validated)
	}

	invalid := &routing.Invalid{}
	for range 500 {
		invalid.Problems = append(invalid.Problems, routing.Problem{File: "/etc/n.yaml", Line: 3, Column: 7, Message: strings.Repeat("é", 400)})
	}
	answer = errors.Join(errors.New("reload"), invalid)
	_, err = a.Reload(t.Context(), &pb.ReloadRequest{})
	info, field, _ := details(err)
	if status.Code(err) != codes.InvalidArgument || info.GetReason() != "CONFIG_INVALID" || field != "/etc/n.yaml:3:7" || validated {
		t.Errorf("bad file: %v, %v, %q", err, info, field)
	}

	answer = io.ErrUnexpectedEOF
	if _, err = a.Reload(t.Context(), &pb.ReloadRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("unreadable file: %v", err)
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

// A fault in what shows the state does not end the daemon that keeps it.
func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	st := servertest.Healthy()
	st.Peers = append(st.Peers, routing.PeerStatus{Session: routing.Session{State: 99}})
	st.Pending = []routing.Op{{Stage: 200}}
	a := api(t, servertest.Start(t, servertest.NewSource(st)))
	if _, err := a.GetPlan(t.Context(), &pb.GetPlanRequest{}); status.Code(err) != codes.Internal {
		t.Errorf("a plan with an unknown stage: %v", err)
	}
	if _, err := a.ListPeers(t.Context(), &pb.ListPeersRequest{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
