package server

import (
	"context"
	"fmt"
	"slices"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// ListTables implements the service.
func (s *Server) ListTables(_ context.Context, req *pb.ListTablesRequest) (*pb.ListTablesResponse, error) {
	v := s.view()
	ids := v.tableIDs()
	list := listing[*pb.Table]{
		scope: "ListTables", rows: len(ids), key: indexKey,
		convert: func(i int) *pb.Table { return v.table(ids[i]) },
	}
	tables, next, err := list.page(req)
	if err != nil {
		return nil, err
	}
	return &pb.ListTablesResponse{Tables: tables, NextPageToken: next}, nil
}

// tableIDs lists the configured tables in their order, then by number those that
// only hold routes of ours: main with a guard, and what an older configuration
// left.
func (v *view) tableIDs() []routing.TableID {
	var ids, more []routing.TableID
	for _, t := range v.plan.Tables {
		ids = append(ids, t.ID)
	}
	for id, rows := range v.rows() {
		ours := func(r routeRow) bool { return r.want != nil || v.oursRoute(r.have) }
		if !slices.Contains(ids, id) && slices.ContainsFunc(rows, ours) {
			more = append(more, id)
		}
	}
	slices.Sort(more)
	return append(ids, more...)
}

// table summarises a table; its name is empty when it has none.
func (v *view) table(id routing.TableID) *pb.Table {
	m := &pb.Table{Name: v.tables[id], Id: uint32(id)}
	if t := v.config.Table(m.Name); t != nil {
		m.Fence = t.Fence
	}
	if st := v.tableStatus(id); st != nil {
		m.Health, m.Reason, m.Rules = healths[st.Health], clip(st.Reason, maxText), st.RulesText
		m.Waiting = st.Waiting
		if extra := len(st.Waiting) - maxWaiting; extra > 0 {
			m.Waiting = append(slices.Clone(st.Waiting[:maxWaiting]), fmt.Sprintf("and %d more", extra))
		}
	}
	m.Ipv4, m.Ipv6 = &pb.RouteCounts{}, &pb.RouteCounts{}
	for _, row := range v.rows()[id] {
		counts := m.Ipv4
		if row.route().Family() == routing.IPv6 {
			counts = m.Ipv6
		}
		count(counts, row)
	}
	return m
}

func count(c *pb.RouteCounts, row routeRow) {
	if row.want != nil {
		c.Planned++
	}
	switch row.state {
	case pb.ObjectState_OBJECT_STATE_INSTALLED:
		c.Installed++
	case pb.ObjectState_OBJECT_STATE_HELD:
		c.Held++
		if row.want != nil {
			c.Installed++
		}
	case pb.ObjectState_OBJECT_STATE_MISSING, pb.ObjectState_OBJECT_STATE_DIFFERENT, pb.ObjectState_OBJECT_STATE_WAITING:
		c.Missing++
	case pb.ObjectState_OBJECT_STATE_LEFTOVER:
		c.Leftover++
	case pb.ObjectState_OBJECT_STATE_FOREIGN:
		c.Foreign++
	}
}
