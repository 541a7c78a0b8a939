package server_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
	"netclass.dev/server"
	"netclass.dev/server/servertest"
)

func TestDrainArguments(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	source.OnDrain = func(_ context.Context, req routing.DrainRequest, _ bool, _ func(routing.DrainStatus) error) error {
		if req.Node == "k8s-2" {
			return nil
		}
		return errors.New("it was asked for")
	}
	a := api(t, servertest.Start(t, source))
	many := slices.Repeat([]string{"pod-pod"}, 65)
	for name, c := range map[string]struct {
		req   *pb.DrainNodeRequest
		code  codes.Code
		field string
	}{
		"unknown node":      {&pb.DrainNodeRequest{Node: "k8s-9"}, codes.NotFound, ""},
		"no node's name":    {&pb.DrainNodeRequest{Node: "../x"}, codes.InvalidArgument, "node"},
		"long node":         {&pb.DrainNodeRequest{Node: strings.Repeat("x", 254)}, codes.InvalidArgument, "node"},
		"long reason":       {&pb.DrainNodeRequest{Reason: strings.Repeat("x", 257)}, codes.InvalidArgument, "reason"},
		"two lines":         {&pb.DrainNodeRequest{Reason: "a\nb"}, codes.InvalidArgument, "reason"},
		"escape":            {&pb.DrainNodeRequest{Reason: "\x1b[2J"}, codes.InvalidArgument, "reason"},
		"many classes":      {&pb.DrainNodeRequest{Classes: many}, codes.InvalidArgument, "classes"},
		"unknown class":     {&pb.DrainNodeRequest{Classes: []string{"pods"}}, codes.NotFound, ""},
		"no class's name":   {&pb.DrainNodeRequest{Classes: []string{"Pod Pod"}}, codes.InvalidArgument, "classes"},
		"undrainable class": {&pb.DrainNodeRequest{Classes: []string{"ceph-replication"}}, codes.InvalidArgument, "classes"},
		"negative grace":    {&pb.DrainNodeRequest{Grace: durationpb.New(-1)}, codes.InvalidArgument, "grace"},
		"long grace":        {&pb.DrainNodeRequest{Grace: durationpb.New(time.Hour + 1)}, codes.InvalidArgument, "grace"},
		"no duration":       {&pb.DrainNodeRequest{Grace: &durationpb.Duration{Seconds: 1, Nanos: -1}}, codes.InvalidArgument, "grace"},
		"short wait":        {&pb.DrainNodeRequest{Wait: durationpb.New(time.Second - 1)}, codes.InvalidArgument, "wait"},
		"long wait":         {&pb.DrainNodeRequest{Wait: durationpb.New(24*time.Hour + 1)}, codes.InvalidArgument, "wait"},
		"wait below grace":  {&pb.DrainNodeRequest{Grace: durationpb.New(time.Minute), Wait: durationpb.New(time.Minute)}, codes.InvalidArgument, "wait"},
		"holder, no force":  {&pb.DrainNodeRequest{Holder: "k8s-2"}, codes.InvalidArgument, "holder"},
		"no holder's name":  {&pb.DrainNodeRequest{Holder: "-", Force: true}, codes.InvalidArgument, "holder"},
		"its own classes":   {&pb.DrainNodeRequest{Node: "k8s-2", Classes: []string{"of-its-own"}}, codes.OK, ""},
	} {
		_, err := drainAll(t.Context(), a, c.req)
		info, field, _ := details(err)
		if status.Code(err) != c.code || field != c.field || (err != nil && info.GetDomain() != "netclass.dev") {
			t.Errorf("%s: %v (%q)", name, err, field)
		}
	}
}

// What went wrong, and how far it had come, is in the code.
func TestDrainErrors(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	var answer error
	var reported []routing.DrainStatus
	source.OnDrain = func(_ context.Context, req routing.DrainRequest, _ bool, report func(routing.DrainStatus) error) error {
		for _, st := range reported {
			_ = report(st)
		}
		return answer
	}
	a := api(t, servertest.Start(t, source))
	going := step(routing.DrainRequest{Node: "k8s-1"}, routing.DrainGoing, routing.DrainMesh, "withdrawn")
	back := step(routing.DrainRequest{Node: "k8s-1"}, routing.DrainEnded, routing.DrainNone, "")
	back.Progress.Error = "session udm/ipv4 does not drain its queue"
	for name, c := range map[string]struct {
		err      error
		reported []routing.DrainStatus
		code     codes.Code
		reason   string
	}{
		"not possible":  {errors.New("run it there: there is no Kubernetes API"), nil, codes.FailedPrecondition, "NOT_POSSIBLE"},
		"classes":       {&routing.BadQuestion{Field: "classes", Problem: "there is nothing of x"}, nil, codes.InvalidArgument, "BAD_ARGUMENT"},
		"class":         {&routing.BadQuestion{Field: "classes", Problem: "there is no class x", Missing: "x"}, nil, codes.NotFound, "NOT_FOUND"},
		"node":          {&routing.BadQuestion{Field: "node", Problem: "it is not in the inventory", Missing: "k8s-9"}, nil, codes.NotFound, "NOT_FOUND"},
		"field unknown": {&routing.BadQuestion{Field: "kind", Problem: "it is odd", Missing: "x"}, nil, codes.InvalidArgument, "BAD_ARGUMENT"},
		"half-way":      {errors.New("broken"), []routing.DrainStatus{going}, codes.Aborted, "FAILED_HALF_WAY"},
		"rolled back":   {errors.New("broken"), []routing.DrainStatus{back}, codes.Aborted, "FAILED_HALF_WAY"},
		"took too long": {fmt.Errorf("wait: %w", context.DeadlineExceeded), []routing.DrainStatus{going, back}, codes.Aborted, "TOOK_TOO_LONG"},
	} {
		answer, reported = c.err, c.reported
		got, err := drainAll(t.Context(), a, &pb.DrainNodeRequest{})
		info, _, _ := details(err)
		if status.Code(err) != c.code || info.GetReason() != c.reason || len(got) != len(c.reported) {
			t.Errorf("%s: %v (%v), %d responses", name, err, info, len(got))
		}
		for _, r := range got {
			if r.GetDone() {
				t.Errorf("%s: marked as done", name)
			}
		}
	}
}

// A refusal names every reason, and is bounded.
func TestDrainRefused(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	refused := &routing.Refused{Reasons: []string{"k8s-2 is drained: undrain it first", "k8s-3 is not Ready: wait for it"}}
	source.OnDrain = func(context.Context, routing.DrainRequest, bool, func(routing.DrainStatus) error) error {
		return fmt.Errorf("drain: %w", refused)
	}
	a := api(t, servertest.Start(t, source))
	violations := func() []*errdetails.PreconditionFailure_Violation {
		t.Helper()
		_, err := drainAll(t.Context(), a, &pb.DrainNodeRequest{})
		if info, _, _ := details(err); status.Code(err) != codes.FailedPrecondition || info.GetReason() != "NOT_SAFE" || info.GetMetadata()["node"] != "k8s-1" {
			t.Fatalf("%v, %v", err, info)
		}
		for _, d := range status.Convert(err).Details() {
			if p, ok := d.(*errdetails.PreconditionFailure); ok {
				return p.GetViolations()
			}
		}
		return nil
	}
	if v := violations(); len(v) != 2 || v[0].GetDescription() != refused.Reasons[0] || v[1].GetSubject() != "netclass.dev/node/k8s-1" {
		t.Errorf("%v", v)
	}
	refused.Reasons = slices.Repeat([]string{strings.Repeat("é", 1000)}, 100)
	if v := violations(); len(v) != 13 || v[12].GetDescription() != "and 88 more" || len(v[0].GetDescription()) > 310 {
		t.Errorf("%d reasons, the last %q", len(v), v[len(v)-1].GetDescription())
	}
}

// Who carries out drains may know of the end before the server does, and then says it
// in words of its own.
func TestDrainerThatStopsFirst(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	socket := filepath.Join(t.TempDir(), "n.sock")
	l, err := server.Listen(socket, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	source.OnDrain = func(context.Context, routing.DrainRequest, bool, func(routing.DrainStatus) error) error {
		stop()
		return errors.New("it goes on with the next run")
	}
	served := make(chan error, 1)
	go func() { served <- server.New(server.Config{Source: source, Drains: source}).Serve(ctx, l) }()
	if _, err := drainAll(t.Context(), api(t, socket), &pb.DrainNodeRequest{}); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
