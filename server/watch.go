package server

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// object is one thing that Watch tells of. Its bytes tell whether it changed.
type object struct {
	message *pb.Object
	bytes   string
}

// objects is everything that Watch shows of a state. It is shared by all who are
// told of that state, and holds nothing else of it.
type objects struct {
	sequence uint64
	time     *timestamppb.Timestamp

	list  []object
	bytes map[string]string // by name
}

// watchObjects lists everything that Watch shows of a state: the daemon first,
// then what depends on what less.
func (v *view) watchObjects() *objects {
	var list []object
	seen := map[string]int{}
	add := func(m *pb.Object) {
		// Names are unique; a condition may be there twice.
		if seen[m.Name]++; seen[m.Name] > 1 {
			m.Name = fmt.Sprintf("%s#%d", m.Name, seen[m.Name])
		}
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			return // only a text that is not UTF-8 can do this; it is not shown then
		}
		list = append(list, object{m, string(b)})
	}
	add(&pb.Object{Name: "daemon", Value: &pb.Object_Daemon{Daemon: v.daemon()}})
	for i := range v.plan.Classes {
		c := v.class(&v.plan.Classes[i])
		add(&pb.Object{Name: "classes/" + c.Name, Value: &pb.Object_Class{Class: c}})
	}
	for _, id := range v.tableIDs() {
		add(&pb.Object{Name: fmt.Sprintf("tables/%d", id), Value: &pb.Object_Table{Table: v.table(id)}})
	}
	for _, p := range v.peers(func(*routing.PeerStatus) bool { return true }) {
		add(&pb.Object{Name: "peers/" + p.Neighbor.Key.String(), Value: &pb.Object_Peer{Peer: v.peer(p, false)}})
	}
	sessions := v.sessionsByPeer()
	for _, n := range v.nodes() {
		add(&pb.Object{Name: "nodes/" + n.Name, Value: &pb.Object_Node{Node: v.node(n, sessions)}})
	}
	for i := range v.Conditions {
		c := v.condition(&v.Conditions[i])
		add(&pb.Object{Name: "conditions/" + c.Object + "/" + c.Reason, Value: &pb.Object_Condition{Condition: c}})
	}
	all := &objects{sequence: v.Sequence, time: stamp(v.Now), list: list, bytes: make(map[string]string, len(list))}
	for _, o := range list {
		all.bytes[o.message.Name] = o.bytes
	}
	return all
}

// watchPause is the least time between two looks at the state: a burst of passes
// costs one comparison.
const watchPause = 50 * time.Millisecond

// Watch implements the service. Each client is told the difference between the
// state it was last told and the newest one. A client that reads slowly blocks
// in Send, skips the states of that time, and costs no memory for them.
func (s *Server) Watch(_ *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
	select {
	case s.watches <- struct{}{}:
		defer func() { <-s.watches }()
	default:
		return withInfo(status.Newf(codes.ResourceExhausted, "%d clients watch already", maxWatches), "TOO_MANY_WATCHES", nil)
	}
	ctx, cancel := s.untilStop(stream.Context())
	defer cancel()
	pause := time.NewTicker(watchPause)
	defer pause.Stop()
	told, err := s.tell(ctx, stream, s.source.State(), &objects{})
	if err != nil {
		return s.watchEnd(err)
	}
	if err := stream.Send(&pb.WatchResponse{Sequence: told.sequence, Time: told.time, Event: &pb.WatchResponse_Synced{Synced: &pb.Synced{}}}); err != nil {
		return s.watchEnd(err)
	}
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return s.watchEnd(ctx.Err())
		}
		next, err := s.source.Wait(ctx, told.sequence)
		if err != nil {
			return s.watchEnd(err)
		}
		if told, err = s.tell(ctx, stream, next, told); err != nil {
			return s.watchEnd(err)
		}
	}
}

// tell sends what differs from what the client has been told, and returns what
// it has been told then.
func (s *Server) tell(ctx context.Context, stream grpc.ServerStreamingServer[pb.WatchResponse], st *routing.State, told *objects) (*objects, error) {
	now := s.views.of(st).objects() // which does not hold the state while Send blocks
	for _, o := range now.list {
		if bytes, known := told.bytes[o.message.Name]; known && bytes == o.bytes {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := stream.Send(&pb.WatchResponse{Sequence: now.sequence, Time: now.time, Event: &pb.WatchResponse_Upsert{Upsert: o.message}}); err != nil {
			return nil, err
		}
	}
	for _, o := range told.list {
		if _, still := now.bytes[o.message.Name]; still {
			continue
		}
		if err := stream.Send(&pb.WatchResponse{Sequence: now.sequence, Time: now.time, Event: &pb.WatchResponse_Delete{Delete: o.message.Name}}); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// watchEnd gives the end of a stream its status.
func (s *Server) watchEnd(err error) error {
	select {
	case <-s.stop:
		return status.Error(codes.Unavailable, "netclassd is stopping")
	default:
	}
	if code := contextCode(err); code != codes.OK {
		return status.Error(code, "watch ended: "+plainly(err.Error()))
	}
	return err
}
