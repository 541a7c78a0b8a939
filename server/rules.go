package server

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// ruleRow is one rule, wanted, in the kernel, or both.
type ruleRow struct {
	rule             *routing.Rule
	inPlan, inKernel bool
	state            pb.ObjectState
	priority         uint64
	place            uint32
}

// ruleRows joins plan and kernel: by family and priority, in the kernel's order,
// what is missing last.
func (v *view) ruleRows() []ruleRow {
	wanted := make(map[routing.Rule]bool, len(v.plan.Rules))
	for _, r := range v.plan.Rules {
		wanted[r] = true
	}
	var rows []ruleRow
	for i := range v.kernel.Rules {
		r := &v.kernel.Rules[i]
		row := ruleRow{rule: r, inPlan: wanted[*r], inKernel: true, state: pb.ObjectState_OBJECT_STATE_INSTALLED}
		if !row.inPlan {
			row.state = v.unwanted(v.plan.Own.HasRule(r))
		}
		wanted[*r] = false // a second one of the kind is too many
		rows = append(rows, row)
	}
	for i := range v.plan.Rules {
		if r := &v.plan.Rules[i]; wanted[*r] {
			rows = append(rows, ruleRow{rule: r, inPlan: true, state: pb.ObjectState_OBJECT_STATE_MISSING})
		}
	}
	for i := range rows {
		rows[i].priority = uint64(rows[i].rule.Family)<<32 | uint64(rows[i].rule.Priority)
	}
	slices.SortStableFunc(rows, func(a, b ruleRow) int { return cmp.Compare(a.priority, b.priority) })
	for i := 1; i < len(rows); i++ {
		if rows[i].priority == rows[i-1].priority {
			rows[i].place = rows[i-1].place + 1
		}
	}
	return rows
}

func (r ruleRow) key() string {
	b := binary.BigEndian.AppendUint64(nil, r.priority)
	return string(binary.BigEndian.AppendUint32(b, r.place))
}

// ruleMessage describes a rule without saying whether it is wanted.
func (v *view) ruleMessage(r *routing.Rule) *pb.Rule {
	m := &pb.Rule{
		Family: pb.Family(r.Family), Priority: r.Priority, From: prefix(r.From), To: prefix(r.To), Iif: text(r.IIF), Oif: text(r.OIF),
		Mark: r.Mark, Mask: r.Mask, Action: pb.RuleAction(r.Action) + pb.RuleAction_RULE_ACTION_LOOKUP,
		Protocol: uint32(r.Protocol), Invert: r.Invert, L3Mdev: r.L3MDev, Text: text(r.String()),
	}
	switch r.Action {
	case routing.ActionLookup:
		m.Table, m.TableName = uint32(r.Table), v.tables[r.Table]
	case routing.ActionGoto:
		m.GotoPriority = r.Goto
	}
	if r.SuppressPrefixLen != routing.NoSuppress {
		n := int32(r.SuppressPrefixLen)
		m.SuppressPrefixLength = &n
	}
	return m
}

func (v *view) ruleRowMessage(row ruleRow) *pb.Rule {
	m := v.ruleMessage(row.rule)
	m.InPlan, m.InKernel, m.State = row.inPlan, row.inKernel, row.state
	if m.Ours = row.inPlan || v.plan.Own.HasRule(row.rule); m.Ours {
		m.Kind = ruleKind(row.rule)
	}
	return m
}

func ruleKind(r *routing.Rule) pb.RuleKind {
	switch routing.RuleStage(*r) {
	case routing.StageGuardLookup:
		return pb.RuleKind_RULE_KIND_GUARD_LOOKUP
	case routing.StageGuard:
		return pb.RuleKind_RULE_KIND_GUARD
	}
	if r.Action == routing.ActionUnreachable {
		return pb.RuleKind_RULE_KIND_UNUSED_ADDRESS
	}
	return pb.RuleKind_RULE_KIND_SELECTOR
}

// ListRules implements the service.
func (s *Server) ListRules(_ context.Context, req *pb.ListRulesRequest) (*pb.ListRulesResponse, error) {
	if err := checkFamily(req.GetFamily()); err != nil {
		return nil, err
	}
	v := s.view()
	var rows []ruleRow
	for _, r := range v.rules() {
		if inFamily(req.GetFamily(), r.rule.Family) {
			rows = append(rows, r)
		}
	}
	list := listing[*pb.Rule]{
		scope: "ListRules/" + req.GetFamily().String(), rows: len(rows),
		key:     func(i int) string { return rows[i].key() },
		convert: func(i int) *pb.Rule { return v.ruleRowMessage(rows[i]) },
	}
	rules, next, err := list.page(req)
	if err != nil {
		return nil, err
	}
	return &pb.ListRulesResponse{Rules: rules, NextPageToken: next}, nil
}
