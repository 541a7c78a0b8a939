package server

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
)

// ListNodes implements the service.
func (s *Server) ListNodes(_ context.Context, req *pb.ListNodesRequest) (*pb.ListNodesResponse, error) {
	v := s.view()
	rows := v.nodes()
	sessions := v.sessionsByPeer()
	list := listing[*pb.Node]{
		scope: "ListNodes", rows: len(rows),
		key:     func(i int) string { return rows[i].Name },
		convert: func(i int) *pb.Node { return v.node(rows[i], sessions) },
	}
	nodes, next, err := list.page(req)
	if err != nil {
		return nil, err
	}
	return &pb.ListNodesResponse{Nodes: nodes, NextPageToken: next, Inventory: v.inventory()}, nil
}

// nodes lists the inventory by name.
func (v *view) nodes() []*routing.Node {
	rows := make([]*routing.Node, len(v.Inventory.Nodes))
	for i := range v.Inventory.Nodes {
		rows[i] = &v.Inventory.Nodes[i]
	}
	slices.SortFunc(rows, func(a, b *routing.Node) int { return cmp.Compare(a.Name, b.Name) })
	return rows
}

// sessionCount counts sessions: wanted and Established.
type sessionCount struct{ wanted, established uint32 }

func (v *view) sessionsByPeer() map[string]sessionCount {
	counts := map[string]sessionCount{}
	for i := range v.Peers {
		if v.Peers[i].Neighbor.Upstream {
			continue
		}
		c := counts[v.Peers[i].Neighbor.Key.Peer]
		c.wanted++
		if v.Peers[i].Session.State == routing.Established {
			c.established++
		}
		counts[v.Peers[i].Neighbor.Key.Peer] = c
	}
	return counts
}

func (v *view) node(n *routing.Node, sessions map[string]sessionCount) *pb.Node {
	m := &pb.Node{
		Name: n.Name, Self: n.Name == v.Node,
		Sessions: sessions[n.Name].wanted, SessionsEstablished: sessions[n.Name].established,
		Drain: v.drainOf(n.Name), NotReady: n.NotReady, Cordoned: n.Cordoned,
	}
	for _, p := range n.PodCIDRs {
		m.PodCidrs = append(m.PodCidrs, prefix(p))
	}
	for _, a := range n.InternalIPs {
		m.InternalIps = append(m.InternalIps, addr(a))
	}
	if v.config.Cluster == nil {
		return m
	}
	for _, link := range v.config.Cluster.Addresses {
		for _, f := range routing.Families {
			if ref := link.Ref.Of(f); ref.Given() {
				m.LinkAddresses = append(m.LinkAddresses, &pb.LinkAddress{Link: link.Link, Family: pb.Family(f), Address: resolve(ref, n, f)})
			}
		}
	}
	return m
}

// resolve returns the address that a reference means on a node; empty when its
// annotation is missing or holds none of the family.
func resolve(ref routing.AddressRef, n *routing.Node, f routing.Family) string {
	a := ref.Addr
	if ref.Annotation != "" {
		a, _ = netip.ParseAddr(strings.TrimSpace(n.Annotations[ref.Annotation]))
	}
	if !a.IsValid() || routing.FamilyOf(a) != f {
		return ""
	}
	return a.String()
}
