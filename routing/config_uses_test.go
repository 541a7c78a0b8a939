package routing_test

import (
	"slices"
	"testing"

	"netclass.dev/routing"
)

func TestDrainLinks(t *testing.T) {
	c := &routing.Config{
		Classes: []routing.Class{
			{Name: "pod-pod", Link: "pod0"}, {Name: "world-pod", Link: "ingress0"},
			{Name: "node-node", Link: "node0"}, {Name: "ceph", Link: "ceph-san", Delegated: true},
		},
		Tables: []routing.Table{
			{Name: "peers", ID: 47, Routes: routing.Sources{Peers: &routing.Peers{Link: "pod0", Fallback: routing.Fallback{Link: "node0"}}}},
			{Name: "egress", ID: 48, Routes: routing.Sources{Default: &routing.Default{Link: "mgmt0"}}},
		},
		BGP: &routing.BGP{Mesh: &routing.Mesh{Link: "pod0"}, Upstreams: []routing.Upstream{{Name: "udm", Link: "ingress0"}}},
	}
	for _, tc := range []struct{ classes, links, unknown []string }{
		{nil, []string{"ingress0", "mgmt0", "pod0"}, nil},
		{[]string{"world-pod", "pod-pod", "world-pod"}, []string{"ingress0", "pod0"}, nil},
		{[]string{"node-node", "pod-pod", "ceph", "pods"}, []string{"pod0"}, []string{"node-node", "ceph", "pods"}},
	} {
		links, unknown := c.DrainLinks(tc.classes)
		if !slices.Equal(links, tc.links) || !slices.Equal(unknown, tc.unknown) {
			t.Errorf("%v: links %v, unknown %v; want %v, %v", tc.classes, links, unknown, tc.links, tc.unknown)
		}
	}
	if links, _ := (&routing.Config{}).DrainLinks(nil); len(links) != 0 {
		t.Errorf("nothing configured: %v", links)
	}
}
