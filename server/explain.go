package server

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// Limits of what an explanation says of one rule, and of a name in a question.
const (
	maxBeaten = 32
	maxName   = 253 // a node's, RFC 1123
)

// Explain implements the service.
func (s *Server) Explain(ctx context.Context, req *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	if err := checkFamily(req.GetFamily()); err != nil {
		return nil, err
	}
	for field, name := range map[string]string{"destination": req.GetDestination(), "source": req.GetSource(), "iif": req.GetIif()} {
		if len(name) > maxName {
			return nil, badField(field, "is longer than %d bytes", maxName)
		}
	}
	if req.GetDestination() == "" {
		return nil, badField("destination", "is required")
	}
	list, err := s.source.Explain(ctx, routing.Question{
		Dst: req.GetDestination(), Src: req.GetSource(), In: req.GetIif(), Mark: req.GetMark(), Family: routing.Family(req.GetFamily()),
	})
	if err != nil {
		return nil, questionError(err)
	}
	v := s.view()
	resp := &pb.ExplainResponse{}
	if req.GetFamily() == pb.Family_FAMILY_UNSPECIFIED && len(list) > 1 {
		list = slices.DeleteFunc(slices.Clone(list), func(e *routing.Explanation) bool { return !v.configured(routing.FamilyOf(e.Flow.Dst)) })
	}
	for _, e := range list {
		resp.Explanations = append(resp.Explanations, v.explanation(e))
	}
	return resp, nil
}

// configured reports whether the configuration has networks of the family: in one
// that it does not speak of, nothing is promised and nobody asked. Without any
// networks it leaves both open.
func (v *view) configured(f routing.Family) bool {
	some := false
	for _, n := range v.config.Networks {
		for _, p := range n.Prefixes {
			if routing.FamilyOf(p.Addr()) == f {
				return true
			}
			some = true
		}
	}
	return !some
}

// questionError gives the error of Explain or Verify its status.
func questionError(err error) error {
	if code := contextCode(err); code != codes.OK {
		return status.Error(code, err.Error())
	}
	if bad, ok := errors.AsType[*routing.BadQuestion](err); ok {
		fields := map[string]string{"dst": "destination", "src": "source", "in": "iif"}
		return badField(fields[bad.Field], "%s", clip(bad.Problem, maxText))
	}
	return withInfo(status.New(codes.FailedPrecondition, clip(err.Error(), maxText)), "NOT_VERIFIABLE", nil)
}

var verdicts = map[routing.Verdict]pb.Verdict{
	routing.VerdictOK: pb.Verdict_VERDICT_OK, routing.VerdictWrongLink: pb.Verdict_VERDICT_WRONG_LINK,
	routing.VerdictUnreachable: pb.Verdict_VERDICT_UNREACHABLE, routing.VerdictShared: pb.Verdict_VERDICT_SHARED,
}

func (v *view) explanation(e *routing.Explanation) *pb.Explanation {
	m := &pb.Explanation{
		Flow: &pb.Flow{
			Family: pb.Family(routing.FamilyOf(e.Flow.Dst)), Destination: addr(e.Flow.Dst), Source: addr(e.Flow.Src), Iif: text(e.Flow.IIF),
			Mark: e.Flow.Mark, DestinationName: text(e.Dst), SourceName: text(e.Src),
		},
		Model: v.answer(e.Model), Kernel: v.answer(e.Kernel), Disagreement: clip(e.Disagreement, maxText),
		Class: e.Class, Link: e.Link, Verdict: verdicts[e.Verdict], Reason: clip(e.Reason, maxText), Failed: e.Failed,
	}
	if e.EBPF.Outcome != routing.OutcomeNoAnswer {
		m.Ebpf = v.answer(e.EBPF)
	}
	if e.Class != "" {
		m.Traffic = &pb.Traffic{From: e.Traffic.From, To: e.Traffic.To}
	}
	for i := range e.Steps {
		m.Steps = append(m.Steps, v.step(&e.Steps[i]))
	}
	return m
}

func (v *view) answer(a routing.Answer) *pb.Answer {
	return &pb.Answer{
		Outcome: pb.Outcome(a.Outcome) + pb.Outcome_OUTCOME_NO_ROUTE, Link: text(a.Link), NextHop: addr(a.Via), Source: addr(a.Src), Mtu: a.MTU,
		Table: uint32(a.Table), TableName: v.tables[a.Table], Code: a.Code, Text: text(a.String()),
	}
}

func (v *view) step(s *routing.LookupStep) *pb.LookupStep {
	m := &pb.LookupStep{Rule: text(s.Rule.String()), Priority: s.Rule.Priority, Match: s.Match, Why: clip(s.Why, maxText)}
	if s.Rule.Action == routing.ActionLookup {
		m.Table, m.TableName = uint32(s.Rule.Table), v.tables[s.Rule.Table]
	}
	if s.Route != nil {
		m.Route, m.RouteKind = text(s.Route.String()), v.kindOf(s.Route)
	}
	for i := range s.Beat[:min(len(s.Beat), maxBeaten)] {
		m.Beat = append(m.Beat, &pb.BeatenRoute{Text: text(s.Beat[i].String()), Kind: v.kindOf(&s.Beat[i])})
	}
	return m
}

// kindOf says what a route of ours is for.
func (v *view) kindOf(r *routing.Route) pb.RouteKind {
	if !v.plan.Own.HasRoute(r) {
		return pb.RouteKind_ROUTE_KIND_UNSPECIFIED
	}
	return v.kind(r)
}
