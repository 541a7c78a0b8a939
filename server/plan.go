package server

import (
	"context"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// GetPlan implements the service. Its pages belong to one pass: the next pass
// may have other changes to make, in another order.
func (s *Server) GetPlan(_ context.Context, req *pb.GetPlanRequest) (*pb.GetPlanResponse, error) {
	if err := checkFamily(req.GetFamily()); err != nil {
		return nil, err
	}
	v := s.view()
	scope := "GetPlan/" + req.GetFamily().String()
	if token := req.GetPageToken(); token != "" {
		if key, ok := openToken(scope, token); ok && !samePass(key, v.Sequence) {
			return nil, withInfo(status.New(codes.Aborted, "the plan has changed; list it again"), "PLAN_CHANGED", nil)
		}
	}
	var ops []*routing.Op
	for i := range v.Pending {
		if inFamily(req.GetFamily(), v.Pending[i].Family()) {
			ops = append(ops, &v.Pending[i])
		}
	}
	list := listing[*pb.Op]{
		scope: scope, rows: len(ops),
		key:     func(i int) string { return passKey(v.Sequence) + indexKey(i) },
		convert: func(i int) *pb.Op { return v.op(ops[i]) },
	}
	messages, next, err := list.page(req)
	if err != nil {
		return nil, err
	}
	return &pb.GetPlanResponse{Ops: messages, NextPageToken: next, Hold: clip(v.plan.Hold, maxText)}, nil
}

// passKey is the part of a plan's keys that names the pass.
func passKey(sequence uint64) string { return strconv.FormatUint(sequence, 36) + "/" }

func samePass(key string, sequence uint64) bool {
	p := passKey(sequence)
	return len(key) >= len(p) && key[:len(p)] == p
}

func (v *view) op(o *routing.Op) *pb.Op {
	m := &pb.Op{Verb: pb.Verb(o.Verb) + pb.Verb_VERB_ADD, Stage: o.Stage.String(), Text: text(o.String())}
	wanted := o.Verb != routing.Delete
	if o.IsRule() {
		r := v.ruleMessage(&o.Rule)
		r.Ours, r.Kind, r.InPlan, r.InKernel = true, ruleKind(&o.Rule), wanted, !wanted
		r.State = opState(o.Verb)
		m.Object = &pb.Op_Rule{Rule: r}
		return m
	}
	r := v.routeMessage(&o.Route)
	r.Ours, r.Kind, r.InPlan, r.InKernel = true, v.kind(&o.Route), wanted, o.Verb != routing.Add
	r.Peer, r.State = v.peerOf[o.Route.Dst], opState(o.Verb)
	m.Object = &pb.Op_Route{Route: r}
	return m
}

// opState is the state that makes an op necessary.
func opState(v routing.Verb) pb.ObjectState {
	switch v {
	case routing.Add:
		return pb.ObjectState_OBJECT_STATE_MISSING
	case routing.Replace:
		return pb.ObjectState_OBJECT_STATE_DIFFERENT
	}
	return pb.ObjectState_OBJECT_STATE_LEFTOVER
}
