package server

import (
	"context"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// ListClasses implements the service.
func (s *Server) ListClasses(_ context.Context, req *pb.ListClassesRequest) (*pb.ListClassesResponse, error) {
	v := s.view()
	list := listing[*pb.Class]{
		scope: "ListClasses", rows: len(v.plan.Classes), key: indexKey,
		convert: func(i int) *pb.Class { return v.class(&v.plan.Classes[i]) },
	}
	classes, next, err := list.page(req)
	if err != nil {
		return nil, err
	}
	return &pb.ListClassesResponse{Classes: classes, NextPageToken: next}, nil
}

// GetClass implements the service.
func (s *Server) GetClass(_ context.Context, req *pb.GetClassRequest) (*pb.GetClassResponse, error) {
	if req.GetName() == "" {
		return nil, badField("name", "is required")
	}
	v := s.view()
	for i := range v.plan.Classes {
		if c := &v.plan.Classes[i]; c.Class.Name == req.GetName() {
			return &pb.GetClassResponse{Class: v.class(c)}, nil
		}
	}
	return nil, notFound("class", req.GetName())
}

func (v *view) class(c *routing.ClassStatus) *pb.Class {
	m := &pb.Class{
		Name: c.Class.Name, Link: c.Class.Link, Vlan: uint32(max(c.Class.VLAN, 0)), Delegated: c.Class.Delegated, Gateway: c.Class.Gateway(),
		Health: healths[c.Health], Reason: clip(c.Reason, maxText), KernelVlan: uint32(max(c.KernelVLAN, 0)),
		Peers: uint32(c.Peers), PeersSeparated: uint32(c.Separated), PeersFallback: uint32(c.Fallback),
	}
	for _, t := range c.Class.Traffic {
		m.Traffic = append(m.Traffic, &pb.Traffic{From: t.From, To: t.To})
	}
	link := v.links[c.Class.Link]
	m.LinkState = linkState(link)
	if link != nil {
		m.Mtu = link.MTU
		for _, a := range link.Addrs {
			m.Addresses = append(m.Addresses, a.Prefix.String())
		}
	}
	return m
}

func linkState(l *routing.Link) pb.LinkState {
	switch {
	case l == nil:
		return pb.LinkState_LINK_STATE_ABSENT
	case !l.Up:
		return pb.LinkState_LINK_STATE_DOWN
	case !l.Carrier:
		return pb.LinkState_LINK_STATE_NO_CARRIER
	}
	return pb.LinkState_LINK_STATE_UP
}
