package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
	"netclass.dev/server"
	"netclass.dev/server/servertest"
)

// drainAll reads a drain to its end.
func drainAll(ctx context.Context, a pb.NetClassServiceClient, req *pb.DrainNodeRequest) ([]*pb.DrainNodeResponse, error) {
	stream, err := a.DrainNode(ctx, req)
	if err != nil {
		return nil, err
	}
	return readOn(stream.Recv)
}

func readOn[M any](recv func() (M, error)) ([]M, error) {
	var all []M
	for {
		m, err := recv()
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, err
		}
		all = append(all, m)
	}
}

func step(req routing.DrainRequest, phase routing.DrainPhase, s routing.DrainStep, message string) routing.DrainStatus {
	return routing.DrainStatus{
		Request: req, Since: servertest.Now, Lock: "lease kube-system/netclass-drain",
		Progress: routing.DrainProgress{Phase: phase, Step: s, Message: message, At: servertest.Now},
	}
}

// A drain is told step by step, what it costs once and first, and its end is marked.
func TestDrainIsTold(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	var asked routing.DrainRequest
	source.OnDrain = func(_ context.Context, req routing.DrainRequest, validateOnly bool, report func(routing.DrainStatus) error) error {
		asked = req
		first := step(req, routing.DrainGoing, routing.DrainClaim, "the others are told")
		first.Progress.Costs = []string{"pod egress moves to mgmt0"}
		_ = report(first)
		again := step(req, routing.DrainGoing, routing.DrainShutdown, "told to \xff routers")
		again.Progress.Costs = first.Progress.Costs
		again.Progress.Rates = []routing.LinkRate{{Link: "pod0", Received: 12.5, Sent: 3}}
		_ = report(again)
		return report(step(req, routing.DrainDone, routing.DrainPaths, "DRAINED"))
	}
	a := api(t, servertest.Start(t, source))
	got, err := drainAll(t.Context(), a, &pb.DrainNodeRequest{
		Reason: "new firmware", Classes: []string{"world-pod", "pod-pod", "pod-pod"}, Grace: durationpb.New(0), Wait: durationpb.New(time.Minute), KeepEgress: true,
		Force: true, Holder: "k8s-2",
	})
	if err != nil || len(got) != 3 {
		t.Fatalf("%v, %v", got, err)
	}
	for i, want := range []struct {
		step  pb.DrainStep
		costs int
		rates int
		done  bool
	}{{pb.DrainStep_DRAIN_STEP_CLAIM, 1, 0, false}, {pb.DrainStep_DRAIN_STEP_GRACEFUL_SHUTDOWN, 0, 1, false}, {pb.DrainStep_DRAIN_STEP_PATHS, 0, 0, true}} {
		if r := got[i]; r.GetDrain().GetStep() != want.step || len(r.GetCosts()) != want.costs || len(r.GetDrain().GetRates()) != want.rates || r.GetDone() != want.done {
			t.Errorf("response %d: %v", i, r)
		}
	}
	d := got[2].GetDrain()
	if d.GetNode() != "k8s-1" || d.GetPhase() != pb.DrainPhase_DRAIN_PHASE_DRAINED || d.GetReason() != "new firmware" || !d.GetForced() || !d.GetKeepEgress() ||
		d.GetLock() != "lease kube-system/netclass-drain" || d.GetId() != asked.ID || !slices.Equal(d.GetClasses(), []string{"pod-pod", "world-pod"}) {
		t.Errorf("%v", d)
	}
	comm, _ := os.ReadFile("/proc/self/comm")
	by := fmt.Sprintf("uid %d (%s, pid %d)", os.Getuid(), strings.TrimSpace(string(comm)), os.Getpid())
	if asked.By != by || d.GetBy() != by || len(asked.ID) != 16 || *asked.Grace != 0 || *asked.Wait != time.Minute || asked.Holder != "k8s-2" || asked.At.IsZero() || asked.Undrain {
		t.Errorf("asked %+v, want by %q", asked, by)
	}
}

// Another node's name goes along with who asked where; an undrain is one.
func TestUndrainAnotherNode(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	source.Publish(func(st *routing.State) {
		plan := *st.Plan
		plan.Drained = []string{"gone"}
		st.Plan = &plan
	})
	var asked []routing.DrainRequest
	source.OnUndrain = func(_ context.Context, req routing.DrainRequest, _ func(routing.DrainStatus) error) error {
		asked = append(asked, req)
		return nil // which has said nothing
	}
	a := api(t, servertest.Start(t, source))
	for _, node := range []string{"k8s-3", "gone"} {
		stream, err := a.UndrainNode(t.Context(), &pb.UndrainNodeRequest{Node: node})
		if err != nil {
			t.Fatal(err)
		}
		got, err := readOn(stream.Recv)
		if err != nil || len(got) != 1 || !got[0].GetDone() || got[0].GetDrain().GetNode() != node {
			t.Errorf("%v, %v", got, err)
		}
	}
	if len(asked) != 2 || !asked[0].Undrain || !strings.HasSuffix(asked[0].By, " on k8s-1") || asked[0].ID == asked[1].ID {
		t.Errorf("asked %+v", asked)
	}
	stream, err := a.UndrainNode(t.Context(), &pb.UndrainNodeRequest{Node: "k8s-9"})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.NotFound {
		t.Errorf("a node that nobody knows: %v", err)
	}
}

// A caller who reads nothing holds nothing up, and is told every step in the end.
func TestDrainDoesNotWaitForItsCaller(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	done := make(chan struct{})
	source.OnDrain = func(_ context.Context, req routing.DrainRequest, _ bool, report func(routing.DrainStatus) error) error {
		defer close(done)
		for s := routing.DrainClaim; s <= routing.DrainPaths; s++ {
			for i := range 5000 {
				st := step(req, routing.DrainGoing, s, strings.Repeat("x", 900))
				st.Progress.Rates = []routing.LinkRate{{Link: "pod0", Received: float64(i)}}
				_ = report(st)
			}
		}
		return report(step(req, routing.DrainDone, routing.DrainPaths, "DRAINED"))
	}
	stream, err := api(t, servertest.Start(t, source)).DrainNode(t.Context(), &pb.DrainNodeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the drain waits for who does not read")
	}
	got, err := readOn(stream.Recv)
	if err != nil || len(got) == 0 || !got[len(got)-1].GetDone() || len(got) > 2000 {
		t.Fatalf("%d responses, %v", len(got), err)
	}
	var steps []pb.DrainStep
	var newest float64
	for _, r := range got[:len(got)-1] {
		if s := r.GetDrain().GetStep(); len(steps) == 0 || steps[len(steps)-1] != s {
			steps = append(steps, s)
		}
		newest = r.GetDrain().GetRates()[0].GetReceivedPacketsPerSecond()
	}
	if len(steps) != 6 || newest != 4999 {
		t.Errorf("steps %v, the newest figure %v", steps, newest)
	}
}

// The end of the caller or of the server ends the telling, at once and with the
// word that the drain goes on.
func TestDrainGoesOn(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	left := make(chan error, 2)
	source.OnDrain = func(ctx context.Context, req routing.DrainRequest, _ bool, report func(routing.DrainStatus) error) error {
		_ = report(step(req, routing.DrainGoing, routing.DrainClaim, ""))
		<-ctx.Done()
		left <- report(step(req, routing.DrainGoing, routing.DrainMesh, ""))
		return ctx.Err()
	}
	var log lockedBuffer
	socket := filepath.Join(t.TempDir(), "n.sock")
	l, err := server.Listen(socket, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- server.New(server.Config{Source: source, Drains: source, Log: slog.New(slog.NewTextHandler(&log, nil))}).Serve(ctx, l)
	}()
	a := api(t, socket)

	gone, cancel := context.WithCancel(t.Context())
	stream, err := a.DrainNode(gone, &pb.DrainNodeRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("a report to nobody: %v", err)
	}

	stream, err = a.DrainNode(t.Context(), &pb.DrainNodeRequest{Force: true, Holder: "k8s-2", Reason: "new disks"})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	stop()
	_, err = stream.Recv()
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "the drain of k8s-1 goes on") || time.Since(begin) > time.Second {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if forced := fmt.Sprintf("by=\"uid %d (", os.Getuid()); !strings.Contains(log.String(), "level=WARN msg=\"drain asked for\"") || !strings.Contains(log.String(), forced) ||
		!strings.Contains(log.String(), "holder=k8s-2") || !strings.Contains(log.String(), "new disks") {
		t.Errorf("log: %s", log.String())
	}
}

// One caller too many is refused, and a server without drains says so.
func TestDrainsAreBounded(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	source.OnDrain = func(ctx context.Context, req routing.DrainRequest, _ bool, report func(routing.DrainStatus) error) error {
		_ = report(step(req, routing.DrainGoing, routing.DrainClaim, ""))
		<-ctx.Done()
		return ctx.Err()
	}
	a := api(t, servertest.Start(t, source))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wait sync.WaitGroup
	for range 64 {
		wait.Go(func() {
			stream, err := a.DrainNode(ctx, &pb.DrainNodeRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if _, err := drainAll(t.Context(), a, &pb.DrainNodeRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the 65th: %v", err)
	}
	none := api(t, servertest.Start(t, struct{ server.Source }{source}))
	if _, err := drainAll(t.Context(), none, &pb.DrainNodeRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a server without drains: %v", err)
	}
}

// TestValidatedIsNotDone: of a drain that was only to be validated no response says
// that it is done, and each that nothing has been changed.
func TestValidatedIsNotDone(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	servertest.Draining(source)
	a := api(t, servertest.Start(t, source))
	got, err := drainAll(t.Context(), a, &pb.DrainNodeRequest{ValidateOnly: true})
	if err != nil || len(got) == 0 {
		t.Fatal(got, err)
	}
	for _, r := range got {
		if r.GetDone() || !r.GetValidateOnly() || r.GetDrain().GetPhase() == pb.DrainPhase_DRAIN_PHASE_DRAINED {
			t.Errorf("%v", r)
		}
	}
}
