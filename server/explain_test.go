package server_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
	"netclass.dev/server/servertest"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	var asked routing.Question
	route := routing.Route{Table: servertest.PodsID, Dst: netip.MustParsePrefix("10.244.2.0/24"), Metric: routing.MetricPath, Link: "pod\xff0", Protocol: routing.ProtocolNetclass, Via: netip.MustParseAddr("10.48.0.2")}
	source.OnExplain = func(_ context.Context, q routing.Question) ([]*routing.Explanation, error) {
		asked = q
		rule := routing.Rule{Family: routing.IPv4, Priority: 1001, Table: servertest.PodsID, SuppressPrefixLen: routing.NoSuppress}
		e := &routing.Explanation{
			Flow:  routing.Flow{Dst: netip.MustParseAddr("10.244.2.5"), Src: netip.MustParseAddr("10.244.1.7"), IIF: "cilium_host", Mark: 3},
			Steps: []routing.LookupStep{{Rule: rule, Match: true, Why: "decides", Route: &route, Beat: make([]routing.Route, 1000)}},
			Model: routing.Answer{Outcome: routing.OutcomeForward, Link: "pod0", Via: netip.MustParseAddr("10.48.0.2"), Table: servertest.PodsID},
			EBPF:  routing.Answer{Outcome: routing.OutcomeNoAnswer}, Kernel: routing.Answer{Outcome: routing.OutcomeUnreachable, Code: "EHOSTUNREACH"},
			Disagreement: "they differ", Class: "pod-pod", Link: "pod0", Traffic: routing.Traffic{From: "pods", To: "pods"},
			Verdict: routing.VerdictUnreachable, Reason: strings.Repeat("long ", 1000), Failed: true,
		}
		return []*routing.Explanation{e}, nil
	}
	a := api(t, servertest.Start(t, source))
	resp, err := a.Explain(t.Context(), &pb.ExplainRequest{Destination: "k8s-2", Source: "pod", Iif: "pod0", Mark: 3, Family: pb.Family_FAMILY_IPV4})
	if err != nil {
		t.Fatal(err)
	}
	if want := (routing.Question{Dst: "k8s-2", Src: "pod", In: "pod0", Mark: 3, Family: routing.IPv4}); asked != want {
		t.Errorf("asked %+v, want %+v", asked, want)
	}
	e := resp.GetExplanations()[0]
	if e.GetModel().GetText() != "pod0 via 10.48.0.2" || e.GetModel().GetTableName() != "pods" || e.GetModel().GetOutcome() != pb.Outcome_OUTCOME_FORWARD ||
		e.GetEbpf() != nil || e.GetKernel().GetOutcome() != pb.Outcome_OUTCOME_UNREACHABLE || e.GetVerdict() != pb.Verdict_VERDICT_UNREACHABLE || !e.GetFailed() {
		t.Errorf("%v", e)
	}
	if s := e.GetSteps()[0]; len(s.GetBeat()) > 32 || s.GetRouteKind() != pb.RouteKind_ROUTE_KIND_CLASS_PATH || len(e.GetReason()) > 1010 {
		t.Errorf("%v", s)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	st := servertest.Healthy()
	st.Verified = &routing.Verification{At: servertest.Now, Router: routing.RouterProof{Reason: "there is no guard for pods", Flows: 10, Checked: 4}}
	source := servertest.NewSource(st)
	source.OnVerify = func(_ context.Context, all bool) (*routing.Verification, error) {
		found := *st.Verified
		found.Flows, found.Checked, found.Within = 10000, 200, 25*time.Minute
		if all {
			found.Checked, found.Within = 10000, 0
		}
		for _, f := range routing.Families {
			found.Promises = append(found.Promises, routing.Promise{Class: "pod-pod", Family: f, State: routing.PromiseShared, Shared: 2})
		}
		return &found, nil
	}
	a := api(t, servertest.Start(t, source))
	resp, err := a.Verify(t.Context(), &pb.VerifyRequest{Family: pb.Family_FAMILY_IPV6})
	if err != nil || len(resp.GetPromises()) != 1 || resp.GetPromises()[0].GetState() != pb.PromiseState_PROMISE_STATE_SHARED || resp.GetWithin().AsDuration() != 25*time.Minute {
		t.Errorf("%v %v", resp, err)
	}
	resp, err = a.Verify(t.Context(), &pb.VerifyRequest{All: true})
	if err != nil || len(resp.GetPromises()) != 2 || resp.GetChecked() != 10000 || resp.GetWithin() != nil {
		t.Errorf("%v %v", resp, err)
	}
	got, err := a.GetStatus(t.Context(), &pb.GetStatusRequest{})
	if r := got.GetStatus().GetRouter(); err != nil || r.GetProven() || r.GetReason() != "there is no guard for pods" || r.GetChecked() != 4 {
		t.Errorf("%v %v", r, err)
	}
}

func TestQuestionsThatHaveNoAnswer(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	source.OnExplain = func(ctx context.Context, q routing.Question) ([]*routing.Explanation, error) {
		switch q.Dst {
		case "slow":
			<-ctx.Done()
			return nil, ctx.Err()
		case "idle":
			return nil, errors.New("there is nothing configured")
		}
		return nil, &routing.BadQuestion{Field: "src", Problem: "who is that?"}
	}
	a := api(t, servertest.Start(t, source))
	for _, c := range []struct {
		name   string
		req    *pb.ExplainRequest
		code   codes.Code
		reason string
		field  string
	}{
		{"no destination", &pb.ExplainRequest{}, codes.InvalidArgument, "BAD_ARGUMENT", "destination"},
		{"a long destination", &pb.ExplainRequest{Destination: strings.Repeat("x", 300)}, codes.InvalidArgument, "BAD_ARGUMENT", "destination"},
		{"a long link", &pb.ExplainRequest{Destination: "pod", Iif: strings.Repeat("x", 300)}, codes.InvalidArgument, "BAD_ARGUMENT", "iif"},
		{"no such family", &pb.ExplainRequest{Destination: "pod", Family: 5}, codes.InvalidArgument, "BAD_ARGUMENT", "family"},
		{"a source that nobody knows", &pb.ExplainRequest{Destination: "pod", Source: "x"}, codes.InvalidArgument, "BAD_ARGUMENT", "source"},
		{"nothing configured", &pb.ExplainRequest{Destination: "idle"}, codes.FailedPrecondition, "NOT_VERIFIABLE", ""},
		{"too slow", &pb.ExplainRequest{Destination: "slow"}, codes.DeadlineExceeded, "", ""},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := a.Explain(ctx, c.req)
		cancel()
		reason, field := "", ""
		for _, d := range status.Convert(err).Details() {
			switch d := d.(type) {
			case *errdetails.ErrorInfo:
				reason = d.GetReason()
			case *errdetails.BadRequest:
				field = d.GetFieldViolations()[0].GetField()
			}
		}
		if status.Code(err) != c.code || reason != c.reason || field != c.field {
			t.Errorf("%s: %v (%s, %s)", c.name, err, reason, field)
		}
	}
	if _, err := a.Verify(t.Context(), &pb.VerifyRequest{Family: 7}); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}

// Of a family that the configuration has no networks of nobody is told, unless it is
// asked for.
func TestExplainOnlyConfiguredFamilies(t *testing.T) {
	t.Parallel()
	st := servertest.Healthy()
	config := *st.Config.Config
	config.Networks = []routing.Network{{Name: "pods", Prefixes: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}}
	st.Config.Config = &config
	source := servertest.NewSource(st)
	source.OnExplain = func(_ context.Context, q routing.Question) (list []*routing.Explanation, err error) {
		for _, a := range routing.WorldSamples[2:4] { // one of each family
			if q.Family == 0 || q.Family == routing.FamilyOf(a) {
				list = append(list, &routing.Explanation{Flow: routing.Flow{Dst: a}})
			}
		}
		return list, nil
	}
	a := api(t, servertest.Start(t, source))
	ask := func(family pb.Family) (families []pb.Family) {
		t.Helper()
		resp, err := a.Explain(t.Context(), &pb.ExplainRequest{Destination: "world", Family: family})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range resp.GetExplanations() {
			families = append(families, e.GetFlow().GetFamily())
		}
		return families
	}
	if got := ask(0); !slices.Equal(got, []pb.Family{pb.Family_FAMILY_IPV4}) {
		t.Errorf("both families open: %v", got)
	}
	if got := ask(pb.Family_FAMILY_IPV6); !slices.Equal(got, []pb.Family{pb.Family_FAMILY_IPV6}) {
		t.Errorf("IPv6 asked for: %v", got)
	}
	source.Publish(func(st *routing.State) {
		none := config
		none.Networks = nil
		st.Config.Config = &none
	})
	if got := ask(0); len(got) != 2 {
		t.Errorf("without any networks: %v", got)
	}
}
