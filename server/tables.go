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
		ours := func(r routeRow) bool { return r.want != nil || v.plan.Own.HasRoute(r.have) }
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
		m.Health, m.Reason = healths[st.Health], clip(st.Reason, maxText)
		m.Rules, m.Waiting = some(st.RulesText), some(st.Waiting)
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

// some returns the first of many texts, and how many more there are.
func some(texts []string) []string {
	var list []string
	for i, t := range texts {
		if i == maxTexts {
			return append(list, fmt.Sprintf("and %d more", len(texts)-i))
		}
		list = append(list, clip(t, maxText))
	}
	return list
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
