package server_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "netclass.dev/proto/netclass/v1"
	"netclass.dev/routing"
	"netclass.dev/server/servertest"
)

// A table of 50,000 routes comes in pages that clients accept without being told
// to, whole and in order, in both families and in each.
func TestLargeTablePages(t *testing.T) {
	t.Parallel()
	const n = 50000
	st := servertest.Large(n)
	a := api(t, servertest.Start(t, servertest.NewSource(st)))
	for family, want := range map[pb.Family]int{0: n + 34, pb.Family_FAMILY_IPV4: n/2 + 17, pb.Family_FAMILY_IPV6: n/2 + 17} {
		start := time.Now()
		seen := map[string]bool{}
		var order []netip.Prefix
		token, count := "", 0
		for {
			resp, err := a.ShowTable(t.Context(), &pb.ShowTableRequest{Table: "47", Family: family, PageSize: 1 << 30, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			if size := proto.Size(resp); size > 4<<20 {
				t.Fatalf("a page of %d bytes", size)
			}
			for _, r := range resp.Routes {
				if key := r.Destination + r.Link + r.Type.String(); seen[key] {
					t.Fatalf("%s twice", key)
				} else {
					seen[key] = true
				}
				order = append(order, netip.MustParsePrefix(r.Destination))
			}
			count++
			if token = resp.NextPageToken; token == "" {
				break
			}
		}
		if len(seen) != want {
			t.Errorf("family %v: %d routes, want %d", family, len(seen), want)
		}
		if !slices.IsSortedFunc(order, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) }) {
			t.Errorf("family %v: not in order", family)
		}
		t.Logf("family %v: %d pages in %v", family, count, time.Since(start))
	}
}

// A page begins behind the last row that was shown, whatever came or went.
func TestPagesSurviveChange(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Healthy())
	a := api(t, servertest.Start(t, source))
	first, err := a.ShowTable(t.Context(), &pb.ShowTableRequest{Table: "pods", PageSize: 5})
	if err != nil {
		t.Fatal(err)
	}
	last := first.Routes[4]
	source.Publish(func(st *routing.State) {
		p, k := *st.Plan, *st.Kernel
		gone := func(r routing.Route) bool { return r.Dst.String() == last.Destination }
		p.Routes, k.Routes = slices.DeleteFunc(slices.Clone(p.Routes), gone), slices.DeleteFunc(slices.Clone(k.Routes), gone)
		st.Plan, st.Kernel = &p, &k
	})
	second, err := a.ShowTable(t.Context(), &pb.ShowTableRequest{Table: "pods", PageSize: 5, PageToken: first.NextPageToken})
	if err != nil {
		t.Fatal(err)
	}
	before, after := netip.MustParsePrefix(last.Destination), netip.MustParsePrefix(second.Routes[0].Destination)
	if before.Addr().Compare(after.Addr()) >= 0 {
		t.Errorf("after %v comes %v", before, after)
	}
	if _, err := a.ShowTable(t.Context(), &pb.ShowTableRequest{Table: "main", PageToken: first.NextPageToken}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("another table's token: %v", err)
	}
}

func TestEveryListPages(t *testing.T) {
	t.Parallel()
	a := api(t, servertest.Start(t, servertest.NewSource(servertest.Faulty())))
	ctx := t.Context()
	for name, c := range map[string]struct {
		want int
		page func(token string) (int, string, error)
	}{
		"classes": {5, func(token string) (int, string, error) {
			r, err := a.ListClasses(ctx, &pb.ListClassesRequest{PageSize: 1, PageToken: token})
			return len(r.GetClasses()), r.GetNextPageToken(), err
		}},
		"tables": {2, func(token string) (int, string, error) {
			r, err := a.ListTables(ctx, &pb.ListTablesRequest{PageSize: 1, PageToken: token})
			return len(r.GetTables()), r.GetNextPageToken(), err
		}},
		"rules": {9, func(token string) (int, string, error) {
			r, err := a.ListRules(ctx, &pb.ListRulesRequest{PageSize: 1, PageToken: token})
			return len(r.GetRules()), r.GetNextPageToken(), err
		}},
		"peers": {6, func(token string) (int, string, error) {
			r, err := a.ListPeers(ctx, &pb.ListPeersRequest{PageSize: 1, PageToken: token, View: pb.PeerView_PEER_VIEW_FULL})
			return len(r.GetPeers()), r.GetNextPageToken(), err
		}},
		"nodes": {3, func(token string) (int, string, error) {
			r, err := a.ListNodes(ctx, &pb.ListNodesRequest{PageSize: 1, PageToken: token})
			return len(r.GetNodes()), r.GetNextPageToken(), err
		}},
		"plan": {4, func(token string) (int, string, error) {
			r, err := a.GetPlan(ctx, &pb.GetPlanRequest{PageSize: 1, PageToken: token})
			return len(r.GetOps()), r.GetNextPageToken(), err
		}},
	} {
		total, pages, token := 0, 0, ""
		for {
			n, next, err := c.page(token)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			total, pages, token = total+n, pages+1, next
			if token == "" {
				break
			}
		}
		if total != c.want || pages != c.want {
			t.Errorf("%s: %d items on %d pages, want %d", name, total, pages, c.want)
		}
	}
}

// The pages of a plan belong to one pass.
func TestPlanPagesEndWithThePass(t *testing.T) {
	t.Parallel()
	source := servertest.NewSource(servertest.Faulty())
	a := api(t, servertest.Start(t, source))
	first, err := a.GetPlan(t.Context(), &pb.GetPlanRequest{PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	source.Publish(func(*routing.State) {})
	if _, err := a.GetPlan(t.Context(), &pb.GetPlanRequest{PageSize: 1, PageToken: first.NextPageToken}); status.Code(err) != codes.Aborted {
		t.Errorf("%v, want Aborted", err)
	}
}

// Sessions with as many paths and refusals as are shown, and conditions without
// number, fit into messages too.
func TestLargePeersAndConditions(t *testing.T) {
	t.Parallel()
	st := servertest.Healthy()
	long := strings.Repeat("long ", 400)
	st.Peers = nil
	for i := range 100 {
		p := routing.PeerStatus{Neighbor: routing.Neighbor{Key: routing.SessionKey{Peer: fmt.Sprintf("node-%03d", i), Family: routing.IPv4}}}
		for j := range 3000 {
			path := routing.Path{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i), byte(j >> 8), byte(j)}), 32), NextHop: netip.MustParseAddr("10.48.0.2")}
			p.Accepted = append(p.Accepted, path)
			p.Refused = append(p.Refused, routing.Refusal{Path: path, Reason: "belongs to another node"})
		}
		st.Peers = append(st.Peers, p)
	}
	for range 20000 {
		st.Conditions = append(st.Conditions, routing.Condition{Object: "kernel", Reason: "X", Message: long})
	}
	a := api(t, servertest.Start(t, servertest.NewSource(st)))
	status, err := a.GetStatus(t.Context(), &pb.GetStatusRequest{})
	if err != nil || proto.Size(status) > 4<<20 || len(status.GetStatus().GetConditions()) < 1000 {
		t.Errorf("status: %d bytes, %v", proto.Size(status), err)
	}
	names, token := map[string]bool{}, ""
	for {
		resp, err := a.ListPeers(t.Context(), &pb.ListPeersRequest{View: pb.PeerView_PEER_VIEW_FULL, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range resp.Peers {
			names[p.Name] = true
			if p.Accepted != 3000 || len(p.AcceptedPaths) != 1000 || len(p.Refusals) != 1000 {
				t.Fatalf("%s: %d accepted, %d shown, %d refusals", p.Name, p.Accepted, len(p.AcceptedPaths), len(p.Refusals))
			}
		}
		if token = resp.NextPageToken; token == "" {
			break
		}
	}
	if len(names) != 100 {
		t.Errorf("%d peers", len(names))
	}
}
