package server_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
	"netclass.dev/server"
	"netclass.dev/server/servertest"
)

func TestWatchSendsSnapshotThenChanges(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	stream, err := api(t, servertest.Start(t, source)).Watch(t.Context(), &pb.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func() string {
		t.Helper()
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		switch e := m.Event.(type) {
		case *pb.WatchResponse_Upsert:
			return "+" + e.Upsert.Name
		case *pb.WatchResponse_Delete:
			return "-" + e.Delete
		}
		return "synced"
	}
	var snapshot []string
	for {
		line := next()
		if line == "synced" {
			break
		}
		snapshot = append(snapshot, line)
	}
	want := "+daemon +classes/ceph-replication +classes/pod-pod +classes/world-pod +classes/node-node +classes/world-node +tables/47 +tables/254 " +
		"+peers/k8s-2/ipv4 +peers/k8s-2/ipv6 +peers/k8s-3/ipv4 +peers/k8s-3/ipv6 +peers/udm/ipv4 +peers/udm/ipv6 +nodes/k8s-1 +nodes/k8s-2 +nodes/k8s-3"
	if got := strings.Join(snapshot, " "); got != want {
		t.Errorf("snapshot\n got %s\nwant %s", got, want)
	}

	source.Publish(func(*routing.State) {}) // a pass that changed nothing says nothing
	source.Publish(func(st *routing.State) {
		st.Conditions = []routing.Condition{{Object: "kernel", Reason: "X"}, {Object: "kernel", Reason: "X"}}
	})
	if got := []string{next(), next()}; !slices.Equal(got, []string{"+conditions/kernel/X", "+conditions/kernel/X#2"}) {
		t.Errorf("new conditions: %v", got)
	}
	source.Publish(func(st *routing.State) {
		st.Conditions = nil
		st.Peers = slices.Clone(st.Peers)
		st.Peers[0].Session.State = routing.Active
	})
	got := []string{next(), next(), next(), next()}
	slices.Sort(got)
	if want := []string{"+nodes/k8s-2", "+peers/k8s-2/ipv4", "-conditions/kernel/X", "-conditions/kernel/X#2"}; !slices.Equal(got, want) {
		t.Errorf("changes: %v, want %v", got, want)
	}
}

// Clients that do not read cost no memory for what they miss, do not disturb
// those that do, are sent the newest state once they read, and do not keep the
// server from ending.
func TestSlowWatchers(t *testing.T) {
	source := servertest.NewSource(servertest.Healthy())
	socket := filepath.Join(t.TempDir(), "n.sock")
	l, err := server.Listen(socket, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- server.New(server.Config{Source: source, Log: slog.New(slog.DiscardHandler)}).Serve(ctx, l)
	}()

	const clients = 200
	var streams []grpc.ServerStreamingClient[pb.WatchResponse]
	for range clients {
		stream, err := api(t, socket).Watch(t.Context(), &pb.WatchRequest{})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	reader := streams[0]
	untilSynced(t, reader)
	heap := heapInUse()
	const passes = 300
	last := strings.Repeat("y", 500)
	for i := range passes {
		message := strings.Repeat("x", 500)
		if i == passes-1 {
			message = last
		}
		source.Publish(func(st *routing.State) {
			st.Conditions = nil
			for object := range 20 {
				st.Conditions = append(st.Conditions, routing.Condition{
					Object: "kernel", Reason: string(rune('A' + object)), Message: message, Since: servertest.Now.Add(time.Duration(i) * time.Second),
				})
			}
		})
	}
	// Unbounded, this would be 200 × 300 × 20 × 500 bytes: 600 MB.
	waitFor(t, reader, "T", last)
	if grown := heapInUse() - heap; grown > 100<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	waitFor(t, streams[clients-1], "T", last)

	begin := time.Now()
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if took := time.Since(begin); took > 10*time.Second { // not for ever
		t.Errorf("Serve ended after %v", took)
	}
	for {
		if _, err := reader.Recv(); err != nil {
			if status.Code(err) != codes.Unavailable {
				t.Errorf("stream ended with %v", err)
			}
			break
		}
	}
}

func untilSynced(t *testing.T, stream grpc.ServerStreamingClient[pb.WatchResponse]) {
	t.Helper()
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetSynced() != nil {
			return
		}
	}
}

func waitFor(t *testing.T, stream grpc.ServerStreamingClient[pb.WatchResponse], reason, message string) {
	t.Helper()
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if c := m.GetUpsert().GetCondition(); c.GetReason() == reason && c.GetMessage() == message {
			return
		}
	}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// One watcher too many is refused; a place that becomes free is given again.
func TestWatchersAreBounded(t *testing.T) {
	socket := servertest.Start(t, servertest.NewSource(servertest.Idle()))
	var conns []pb.NetClassServiceClient
	for range 4 {
		conns = append(conns, api(t, socket))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for i := range 256 {
		wait.Go(func() {
			stream, err := conns[i%4].Watch(ctx, &pb.WatchRequest{})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := stream.Recv(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	over := func() error {
		stream, err := conns[0].Watch(t.Context(), &pb.WatchRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	if err := over(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the 257th: %v", err)
	}
	cancel()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if err := over(); err == nil {
			return
		} else if time.Now().After(end) {
			t.Fatalf("after the others left: %v", err)
		}
	}
}
