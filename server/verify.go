package server

import (
	"context"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// Verify implements the service.
func (s *Server) Verify(ctx context.Context, req *pb.VerifyRequest) (*pb.VerifyResponse, error) {
	if err := checkFamily(req.GetFamily()); err != nil {
		return nil, err
	}
	found, err := s.source.Verify(ctx, req.GetAll())
	if err != nil {
		return nil, questionError(err)
	}
	resp := &pb.VerifyResponse{
		Router: routerProof(found), Time: stamp(found.At), Took: duration(found.Took),
		Flows: uint32(found.Flows), Checked: uint32(found.Checked), Within: duration(found.Within),
	}
	for i := range found.Promises {
		if p := &found.Promises[i]; inFamily(req.GetFamily(), p.Family) {
			resp.Promises = append(resp.Promises, promise(p))
		}
	}
	return resp, nil
}

var promiseStates = map[routing.PromiseState]pb.PromiseState{
	routing.PromiseHeld: pb.PromiseState_PROMISE_STATE_HELD, routing.PromiseWaiting: pb.PromiseState_PROMISE_STATE_WAITING,
	routing.PromiseShared: pb.PromiseState_PROMISE_STATE_SHARED, routing.PromiseViolated: pb.PromiseState_PROMISE_STATE_VIOLATED,
}

func promise(p *routing.Promise) *pb.Promise {
	return &pb.Promise{
		Class: p.Class, Link: p.Link, Traffic: &pb.Traffic{From: p.Traffic.From, To: p.Traffic.To}, Family: pb.Family(p.Family),
		State: promiseStates[p.State], Reason: clip(p.Reason, maxText), Flows: uint32(p.Flows), Checked: uint32(p.Checked),
		Waiting: uint32(p.Waiting), Shared: uint32(p.Shared), Violated: uint32(p.Violated),
	}
}

// routerProof is nil for a daemon that has not looked yet.
func routerProof(found *routing.Verification) *pb.RouterProof {
	if found == nil {
		return nil
	}
	r := &found.Router
	return &pb.RouterProof{
		Proven: r.Proven, Reason: clip(r.Reason, maxText), Misrouted: r.Misrouted, ByChoice: r.ByChoice, Covers: some(r.Covers),
		Flows: uint32(r.Flows), Checked: uint32(r.Checked), Time: stamp(found.At),
	}
}
