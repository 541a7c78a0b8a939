package server

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"strconv"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// routeRow is one line of a table: what is wanted, what the kernel has, or both.
type routeRow struct {
	want, have *routing.Route
	state      pb.ObjectState
}

// route is the route to show: what is wanted, else what is there.
func (r routeRow) route() *routing.Route {
	if r.want != nil {
		return r.want
	}
	return r.have
}

// key orders routes by family, destination and metric, then those wanted before
// those that only stand beside them.
func (r routeRow) key() string {
	route := r.route()
	addr := route.Dst.Addr().As16()
	b := append([]byte{byte(route.Family())}, addr[:]...)
	b = append(b, byte(route.Dst.Bits()))
	b = binary.BigEndian.AppendUint32(b, route.Metric)
	if r.want == nil {
		b = append(b, 1)
		b = append(b, route.String()...)
		b = append(b, byte(route.Protocol))
	}
	return string(b)
}

func compareRows(a, b routeRow) int {
	x, y := a.route(), b.route()
	if c := cmp.Or(
		cmp.Compare(x.Family(), y.Family()),
		x.Dst.Addr().Compare(y.Dst.Addr()),
		cmp.Compare(x.Dst.Bits(), y.Dst.Bits()),
		cmp.Compare(x.Metric, y.Metric),
	); c != 0 {
		return c
	}
	return cmp.Compare(a.key(), b.key()) // rare: costs an allocation each
}

// routeRows joins the plan with the kernel, table by table.
func (v *view) routeRows() map[routing.TableID][]routeRow {
	wanted := make(map[routing.RouteKey]*routing.Route, len(v.plan.Routes))
	for i := range v.plan.Routes {
		wanted[v.plan.Routes[i].Key()] = &v.plan.Routes[i]
	}
	rows := map[routing.TableID][]routeRow{}
	found := make(map[routing.RouteKey]*routing.Route, len(wanted))
	for i := range v.kernel.Routes {
		have := &v.kernel.Routes[i]
		want := wanted[have.Key()]
		if want != nil && want.Protocol == have.Protocol && (found[have.Key()] == nil || have.Wanted() == *want) {
			found[have.Key()] = have
			continue
		}
		rows[have.Table] = append(rows[have.Table], routeRow{have: have, state: v.unwanted(v.plan.Own.HasRoute(have))})
	}
	for i := range v.plan.Routes {
		want := &v.plan.Routes[i]
		row := routeRow{want: want, have: found[want.Key()]}
		row.state = v.wantedState(row)
		rows[want.Table] = append(rows[want.Table], row)
	}
	for _, r := range rows {
		slices.SortFunc(r, compareRows)
	}
	return rows
}

// unwanted is the state of what is in the kernel and not in the plan.
func (v *view) unwanted(ours bool) pb.ObjectState {
	switch {
	case !ours:
		return pb.ObjectState_OBJECT_STATE_FOREIGN
	case v.plan.Hold != "":
		return pb.ObjectState_OBJECT_STATE_HELD
	}
	return pb.ObjectState_OBJECT_STATE_LEFTOVER
}

func (v *view) wantedState(r routeRow) pb.ObjectState {
	switch {
	case r.have == nil && r.want.Link != "" && !v.linkUsable(r.want.Link):
		return pb.ObjectState_OBJECT_STATE_WAITING
	case r.have == nil:
		return pb.ObjectState_OBJECT_STATE_MISSING
	case r.have.Wanted() != *r.want:
		return pb.ObjectState_OBJECT_STATE_DIFFERENT
	case v.held[r.want.Via] && v.kind(r.want) == pb.RouteKind_ROUTE_KIND_CLASS_PATH:
		return pb.ObjectState_OBJECT_STATE_HELD
	}
	return pb.ObjectState_OBJECT_STATE_INSTALLED
}

// kind says what a route of ours is for. Metrics tell most of it: they are
// distinct by source.
func (v *view) kind(r *routing.Route) pb.RouteKind {
	switch r.Metric {
	case routing.MetricHold:
		return pb.RouteKind_ROUTE_KIND_DEFAULT_HOLD
	case routing.MetricFallback:
		return pb.RouteKind_ROUTE_KIND_FALLBACK
	case routing.MetricImport:
		return pb.RouteKind_ROUTE_KIND_IMPORT
	}
	switch routing.RouteStage(*r) {
	case routing.StageGuard:
		return pb.RouteKind_ROUTE_KIND_GUARD
	case routing.StageFence:
		return pb.RouteKind_ROUTE_KIND_FENCE
	case routing.StageDefault:
		return pb.RouteKind_ROUTE_KIND_DEFAULT
	case routing.StagePeers:
		return pb.RouteKind_ROUTE_KIND_CLASS_PATH
	}
	if v.own[r.Dst] || r.Type != routing.Unicast {
		return pb.RouteKind_ROUTE_KIND_OWN
	}
	return pb.RouteKind_ROUTE_KIND_CONNECTED
}

// routeMessage describes a route without saying whether it is wanted.
func (v *view) routeMessage(r *routing.Route) *pb.Route {
	return &pb.Route{
		Table: uint32(r.Table), TableName: v.tables[r.Table], Family: pb.Family(r.Family()),
		Destination: r.Dst.String(), Type: routeType(r.Type), NextHop: addr(r.Via), Link: text(r.Link), Source: addr(r.Src),
		Metric: r.Metric, Mtu: r.MTU, OnLink: r.OnLink, Protocol: uint32(r.Protocol),
		LinkDown: r.LinkDown, Dead: r.Dead, Multipath: r.Multipath,
	}
}

func (v *view) rowMessage(row routeRow) *pb.Route {
	m := v.routeMessage(row.route())
	m.InPlan, m.InKernel, m.State = row.want != nil, row.have != nil, row.state
	if m.Ours = m.InPlan || v.plan.Own.HasRoute(row.have); m.Ours {
		m.Kind = v.kind(row.route())
	}
	if m.Kind == pb.RouteKind_ROUTE_KIND_CLASS_PATH || m.Kind == pb.RouteKind_ROUTE_KIND_FALLBACK {
		m.Peer = v.peerOf[row.route().Dst]
	}
	if row.have != nil {
		m.LinkDown, m.Dead = row.have.LinkDown, row.have.Dead
	}
	if row.state == pb.ObjectState_OBJECT_STATE_DIFFERENT {
		m.KernelText = text(row.have.String())
	}
	return m
}

// routeType follows the order of the values, which is the same.
func routeType(t routing.RouteType) pb.RouteType {
	return pb.RouteType(t) + pb.RouteType_ROUTE_TYPE_UNICAST
}

// findTable resolves a table by name, then by number. A number is known when it
// is configured or holds a route.
func (v *view) findTable(name string) (routing.TableID, bool) {
	for id, n := range v.tables {
		if n == name {
			return id, true
		}
	}
	n, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		return 0, false
	}
	id := routing.TableID(n)
	if _, named := v.tables[id]; named {
		return id, true
	}
	return id, len(v.rows()[id]) > 0
}

// ShowTable implements the service.
func (s *Server) ShowTable(_ context.Context, req *pb.ShowTableRequest) (*pb.ShowTableResponse, error) {
	if req.GetTable() == "" {
		return nil, badField("table", "is required: a name or a number")
	}
	if err := checkFamily(req.GetFamily()); err != nil {
		return nil, err
	}
	v := s.view()
	id, ok := v.findTable(req.GetTable())
	if !ok {
		return nil, notFound("table", req.GetTable())
	}
	rows := v.rows()[id]
	if f := req.GetFamily(); f != pb.Family_FAMILY_UNSPECIFIED {
		// IPv4 comes first.
		split, _ := slices.BinarySearchFunc(rows, routing.IPv6, func(r routeRow, f routing.Family) int {
			return cmp.Compare(r.route().Family(), f)
		})
		if f == pb.Family_FAMILY_IPV4 {
			rows = rows[:split]
		} else {
			rows = rows[split:]
		}
	}
	list := listing[*pb.Route]{
		scope: "ShowTable/" + strconv.Itoa(int(id)) + req.GetFamily().String(), rows: len(rows),
		key:     func(i int) string { return rows[i].key() },
		convert: func(i int) *pb.Route { return v.rowMessage(rows[i]) },
	}
	routes, next, err := list.page(req)
	if err != nil {
		return nil, err
	}
	return &pb.ShowTableResponse{Table: v.table(id), Routes: routes, NextPageToken: next}, nil
}
