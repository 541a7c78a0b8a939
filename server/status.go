package server

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// Bounds of what one answer lists without pages.
const (
	maxText  = 1000
	maxTexts = 100
	maxPaths = 1000
)

// GetStatus implements the service.
func (s *Server) GetStatus(context.Context, *pb.GetStatusRequest) (*pb.GetStatusResponse, error) {
	v := s.view()
	m := v.status()
	if s.unloaded != nil {
		if text := s.unloaded(); text != "" {
			m.Conditions = append(m.Conditions, v.condition(&routing.Condition{Object: "config", Reason: "Changed", Message: text}))
		}
	}
	return &pb.GetStatusResponse{Status: m}, nil
}

func (v *view) status() *pb.Status {
	m := &pb.Status{
		Daemon:    v.daemon(),
		Config:    &pb.ConfigStatus{Path: v.Config.Path, Loaded: stamp(v.Config.LoadedAt), Error: clip(v.Config.Error, maxText)},
		Inventory: v.inventory(),
		Pass:      v.pass(),
		Speaker: &pb.SpeakerStatus{
			Wanted: v.Speaker.Wanted, Pid: uint32(max(v.Speaker.PID, 0)), Since: v.since(v.Speaker.Since),
			Restarts: v.Speaker.Restarts, LastExit: clip(v.Speaker.LastExit, maxText), Errors: some(v.Speaker.Errors),
		},
		Router: routerProof(v.Verified), Drain: v.drain(v.Drain),
		Sessions: uint32(len(v.Peers)), Classes: uint32(len(v.plan.Classes)), Tables: uint32(len(v.plan.Tables)),
	}
	for i := range v.Peers {
		if v.Peers[i].Session.State == routing.Established {
			m.SessionsEstablished++
		} else if v.Peers[i].Held {
			m.SessionsHeld++
		}
	}
	for i := range v.plan.Classes {
		if h := v.plan.Classes[i].Health; h == routing.Ready || h == routing.Delegated {
			m.ClassesReady++
		}
	}
	for i := range v.plan.Tables {
		if h := v.plan.Tables[i].Health; h == routing.Ready || h == routing.Delegated {
			m.TablesReady++
		}
	}
	for _, node := range v.plan.Drained {
		switch {
		case node == v.Node:
		case v.plan.DrainPhase(node) == routing.DrainDone:
			m.DrainedNodes = append(m.DrainedNodes, node)
		default:
			m.DrainingNodes = append(m.DrainingNodes, node)
		}
	}
	m.DrainedNodes, m.DrainingNodes = some(m.DrainedNodes), some(m.DrainingNodes)
	m.Conditions = v.conditions()
	return m
}

// conditions are those of the state, and one for each class and table that is not
// counted as ready and that none of them is about.
func (v *view) conditions() []*pb.Condition {
	list := slices.Clone(v.Conditions)
	explain := func(object string, health routing.Health, reason string) {
		about := func(c routing.Condition) bool { return c.Object == object }
		if health != routing.Ready && health != routing.Delegated && !slices.ContainsFunc(v.Conditions, about) {
			list = append(list, routing.Condition{Object: object, Reason: string(health), Message: reason})
		}
	}
	for i := range v.plan.Classes {
		c := &v.plan.Classes[i]
		explain("class/"+c.Class.Name, c.Health, c.Reason)
	}
	for i := range v.plan.Tables {
		t := &v.plan.Tables[i]
		explain("table/"+t.Name, t.Health, t.Reason)
	}
	var shown []*pb.Condition
	bytes := 0
	for i := range list {
		c := v.condition(&list[i])
		if bytes += proto.Size(c) + 8; bytes > pageBytes {
			break
		}
		shown = append(shown, c)
	}
	return shown
}

func (v *view) daemon() *pb.Daemon {
	return &pb.Daemon{Version: v.Version, Node: v.Node, Health: healths[v.Health], Started: v.since(v.Started)}
}

func (v *view) inventory() *pb.InventoryStatus {
	return &pb.InventoryStatus{
		Source: v.Inventory.Source, Nodes: uint32(len(v.Inventory.Nodes)), Synced: v.Inventory.Synced, Stale: clip(v.Inventory.Stale, maxText),
		AsOf: v.since(v.Inventory.AsOf),
	}
}

func (v *view) pass() *pb.PassStatus {
	return &pb.PassStatus{
		Passes: v.Pass.Passes, Dumps: v.Pass.Dumps, Applied: v.Pass.Applied, Failed: v.Pass.Failed,
		Last: stamp(v.Pass.At), Took: duration(v.Pass.Took), Changes: uint32(v.Pass.Ops), Error: clip(v.Pass.Error, maxText),
		Synced: v.Pass.Synced, Pending: uint32(len(v.Pending)), Hold: clip(v.plan.Hold, maxText),
	}
}

func (v *view) condition(c *routing.Condition) *pb.Condition {
	return &pb.Condition{Object: c.Object, Reason: c.Reason, Message: clip(c.Message, maxText), Since: v.since(c.Since)}
}
