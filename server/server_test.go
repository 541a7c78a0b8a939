package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
	"netclass.dev/server"
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
	warnings := []routing.Problem{{File: "/etc/n.yaml", Line: 12, Column: 9, Message: "class a: no table uses link b"}}
	source.OnReload = func(_ context.Context, validateOnly bool) ([]routing.Problem, error) {
		validated = validateOnly
		return warnings, answer
	}
	a := api(t, servertest.Start(t, source))
	resp, err := a.Reload(t.Context(), &pb.ReloadRequest{ValidateOnly: true})
	if err != nil || resp.Path != "/etc/netclassd/config.yaml" || !validated {
		t.Errorf("good: %v, %v, validated %v", resp, err, validated)
	}
	if want := []string{"/etc/n.yaml:12:9: class a: no table uses link b"}; !slices.Equal(resp.GetWarnings(), want) {
		t.Errorf("warnings %q, want %q", resp.GetWarnings(), want)
	}
	warnings = slices.Repeat(warnings, 5000)
	if resp, err = a.Reload(t.Context(), &pb.ReloadRequest{}); err != nil || len(resp.GetWarnings()) != 101 {
		t.Errorf("many warnings: %d, %v", len(resp.GetWarnings()), err)
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

// A connection that never says a word does not hold up the end: gRPC would wait
// out the time it grants the handshake.
func TestSilentConnectionsDoNotDelayTheEnd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := server.Listen(socket, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- server.New(server.Config{Source: servertest.NewSource(servertest.Idle())}).Serve(ctx, l)
	}()
	for range 5 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if _, err := api(t, socket).GetStatus(t.Context(), &pb.GetStatusRequest{}); err != nil {
		t.Fatal(err) // and the silent ones, which came before, are accepted
	}
	cancel()
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Second):
		t.Error("still serving after 2 s")
	}
}
