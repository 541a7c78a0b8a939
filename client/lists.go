package client

import (
	"context"
	"iter"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "netclass.dev/proto/netclass/v1"
)

// pages fetches page after page until the last.
func pages[Resp interface{ GetNextPageToken() string }](fetch func(token string) (Resp, error)) iter.Seq2[Resp, error] {
	return func(yield func(Resp, error) bool) {
		token := ""
		for {
			resp, err := fetch(token)
			if !yield(resp, err) || err != nil {
				return
			}
			if token = resp.GetNextPageToken(); token == "" {
				return
			}
		}
	}
}

// items gives the items of all pages one by one. An error is the last that it
// gives.
func items[Resp, Item any](all iter.Seq2[Resp, error], of func(Resp) []Item) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for resp, err := range all {
			if err != nil {
				var none Item
				yield(none, err)
				return
			}
			for _, item := range of(resp) {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// Classes lists the traffic classes.
func (c *Client) Classes(ctx context.Context) iter.Seq2[*pb.Class, error] {
	return items(pages(func(token string) (*pb.ListClassesResponse, error) {
		return call(ctx, c, c.api.ListClasses, &pb.ListClassesRequest{PageToken: token})
	}), (*pb.ListClassesResponse).GetClasses)
}

// Tables lists the routing tables that the daemon has routes in.
func (c *Client) Tables(ctx context.Context) iter.Seq2[*pb.Table, error] {
	return items(pages(func(token string) (*pb.ListTablesResponse, error) {
		return call(ctx, c, c.api.ListTables, &pb.ListTablesRequest{PageToken: token})
	}), (*pb.ListTablesResponse).GetTables)
}

// Routes lists the routes of a table, named or numbered, in one family or both.
func (c *Client) Routes(ctx context.Context, table string, family pb.Family) iter.Seq2[*pb.Route, error] {
	return items(c.tablePages(ctx, table, family), (*pb.ShowTableResponse).GetRoutes)
}

func (c *Client) tablePages(ctx context.Context, table string, family pb.Family) iter.Seq2[*pb.ShowTableResponse, error] {
	return pages(func(token string) (*pb.ShowTableResponse, error) {
		return call(ctx, c, c.api.ShowTable, &pb.ShowTableRequest{Table: table, Family: family, PageSize: largePage, PageToken: token})
	})
}

// largePage asks for as much as the server will put into one message.
const largePage = 10000

// ShowTable returns a table with all its routes.
func (c *Client) ShowTable(ctx context.Context, table string, family pb.Family) (*pb.ShowTableResponse, error) {
	whole := &pb.ShowTableResponse{}
	for resp, err := range c.tablePages(ctx, table, family) {
		if err != nil {
			return nil, err
		}
		whole.Table = resp.GetTable()
		whole.Routes = append(whole.Routes, resp.GetRoutes()...)
	}
	return whole, nil
}

// Rules lists the policy rules.
func (c *Client) Rules(ctx context.Context, family pb.Family) iter.Seq2[*pb.Rule, error] {
	return items(pages(func(token string) (*pb.ListRulesResponse, error) {
		return call(ctx, c, c.api.ListRules, &pb.ListRulesRequest{Family: family, PageToken: token})
	}), (*pb.ListRulesResponse).GetRules)
}

// Peers lists BGP sessions: of one peer, or of all when name is empty.
func (c *Client) Peers(ctx context.Context, name string, family pb.Family, view pb.PeerView) iter.Seq2[*pb.Peer, error] {
	return items(pages(func(token string) (*pb.ListPeersResponse, error) {
		return call(ctx, c, c.api.ListPeers, &pb.ListPeersRequest{Peer: name, Family: family, View: view, PageToken: token})
	}), (*pb.ListPeersResponse).GetPeers)
}

// Nodes lists the inventory.
func (c *Client) Nodes(ctx context.Context) iter.Seq2[*pb.Node, error] {
	return items(pages(func(token string) (*pb.ListNodesResponse, error) {
		return call(ctx, c, c.api.ListNodes, &pb.ListNodesRequest{PageToken: token})
	}), (*pb.ListNodesResponse).GetNodes)
}

// ListNodes returns all nodes with how the knowledge of them stands.
func (c *Client) ListNodes(ctx context.Context) (*pb.ListNodesResponse, error) {
	whole := &pb.ListNodesResponse{}
	for resp, err := range pages(func(token string) (*pb.ListNodesResponse, error) {
		return call(ctx, c, c.api.ListNodes, &pb.ListNodesRequest{PageToken: token})
	}) {
		if err != nil {
			return nil, err
		}
		whole.Inventory = resp.GetInventory()
		whole.Nodes = append(whole.Nodes, resp.GetNodes()...)
	}
	return whole, nil
}

// Node returns one node with how the knowledge of them stands.
func (c *Client) Node(ctx context.Context, name string) (*pb.ListNodesResponse, error) {
	whole, err := c.ListNodes(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(whole.GetNodes(), func(n *pb.Node) bool { return n.GetName() == name })
	if at < 0 {
		return nil, &Error{status.Newf(codes.NotFound, "there is no node %q", name)}
	}
	whole.Nodes = whole.GetNodes()[at : at+1]
	return whole, nil
}

// Plan returns what the next pass would do. It fails with Changed when a pass
// came between two pages of a long plan.
func (c *Client) Plan(ctx context.Context, family pb.Family) (*pb.GetPlanResponse, error) {
	whole := &pb.GetPlanResponse{}
	for resp, err := range pages(func(token string) (*pb.GetPlanResponse, error) {
		return call(ctx, c, c.api.GetPlan, &pb.GetPlanRequest{Family: family, PageSize: largePage, PageToken: token})
	}) {
		if err != nil {
			return nil, err
		}
		whole.Hold = resp.GetHold()
		whole.Ops = append(whole.Ops, resp.GetOps()...)
	}
	return whole, nil
}

// Watch tells of every object, then Synced, then of each change, until ctx is
// done or the daemon stops: an error is the last that it gives.
func (c *Client) Watch(ctx context.Context) iter.Seq2[*pb.WatchResponse, error] {
	return receive(ctx, c, func(ctx context.Context) (grpc.ServerStreamingClient[pb.WatchResponse], error) {
		return c.api.Watch(ctx, &pb.WatchRequest{})
	})
}

// Collect gathers a list.
func Collect[T any](all iter.Seq2[T, error]) ([]T, error) {
	var list []T
	for item, err := range all {
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}
