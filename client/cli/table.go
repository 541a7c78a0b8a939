package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
)

func (a *app) table() *cobra.Command {
	return &cobra.Command{
		Use:     "table [NAME|ID]",
		Aliases: []string{"tables"},
		Short:   "List the routing tables, or the routes of one",
		Long: `List the routing tables, or show the routes of one, those that are planned
beside those in the kernel. KIND is what a route of ours is for; STATE is one of

  Installed  planned, and in the kernel
  Missing    planned, and not in the kernel
  Different  in the kernel with other attributes: -o wide shows them
  Waiting    planned, but its link is absent or down
  Held       kept although its session is down, or an input is not read yet
  Leftover   ours and no longer planned: the next pass deletes it
  Foreign    somebody else's, never changed`,
		Args: one,
		RunE: a.ask(func(ctx context.Context, c *client.Client, args []string) error {
			if len(args) == 1 {
				return a.routes(ctx, c, args[0])
			}
			list, err := client.Collect(c.Tables(ctx))
			if err != nil {
				return err
			}
			if done, err := a.document(&pb.ListTablesResponse{Tables: list}); done {
				return err
			}
			a.tableTable(list)
			return nil
		}),
		ValidArgsFunction: a.complete(func(ctx context.Context, c *client.Client) ([]string, error) {
			return names(c.Tables(ctx), tableName)
		}),
	}
}

// tableName is what a table is called: its number when it has no name.
func tableName(t *pb.Table) string {
	if t.GetName() == "" {
		return fmt.Sprint(t.GetId())
	}
	return t.GetName()
}

func (a *app) tableTable(list []*pb.Table) {
	cols := "NAME ID> STATE RULES>"
	filter := a.family()
	if filter != pb.Family_FAMILY_IPV6 {
		cols += " IPV4>"
	}
	if filter != pb.Family_FAMILY_IPV4 {
		cols += " IPV6>"
	}
	var rows [][]cell
	for _, t := range list {
		rules := ""
		if t.GetHealth() != pb.Health_HEALTH_UNSPECIFIED { // else it is not a configured one
			rules = fmt.Sprint(len(t.GetRules()))
		}
		r := row(t.GetName(), t.GetId(), health(t.GetHealth()), rules)
		var foreign, leftover, held uint32
		for f, c := range map[pb.Family]*pb.RouteCounts{pb.Family_FAMILY_IPV4: t.GetIpv4(), pb.Family_FAMILY_IPV6: t.GetIpv6()} {
			if filter == pb.Family_FAMILY_UNSPECIFIED || filter == f {
				foreign, leftover, held = foreign+c.GetForeign(), leftover+c.GetLeftover(), held+c.GetHeld()
			}
		}
		if filter != pb.Family_FAMILY_IPV6 {
			r = append(r, installed(t.GetIpv4()))
		}
		if filter != pb.Family_FAMILY_IPV4 {
			r = append(r, installed(t.GetIpv6()))
		}
		r = append(r, row(held, leftover, foreign, strings.Join(t.GetFence(), ","), a.waits(t))...)
		rows = append(rows, r)
	}
	a.print(columns(cols+" +HELD> +LEFTOVER> FOREIGN> +FENCE| REASON~"), rows)
	a.footer("%s; IPV4 and IPV6 are routes installed/planned", count(len(list), "table"))
}

// waits is why a table waits: the summary, or in the wide view everything it waits
// for.
func (a *app) waits(t *pb.Table) string {
	if a.format == formatWide && len(t.GetWaiting()) > 0 {
		return strings.Join(t.GetWaiting(), "; ")
	}
	return t.GetReason()
}

// installed shows how many of the planned routes are there.
func installed(c *pb.RouteCounts) cell {
	text := fmt.Sprintf("%d/%d", c.GetInstalled(), c.GetPlanned())
	if c.GetInstalled() < c.GetPlanned() {
		return cell{text, bad}
	}
	return cell{text: text}
}

func (a *app) routes(ctx context.Context, c *client.Client, name string) error {
	resp, err := c.ShowTable(ctx, name, a.family())
	if err != nil {
		return err
	}
	if done, err := a.document(resp); done {
		return err
	}
	var rows [][]cell
	states := map[pb.ObjectState]int{}
	for _, r := range resp.GetRoutes() {
		states[r.GetState()]++
		rows = append(rows, row(destination(r), via(r), r.GetLink(), r.GetMetric(), r.GetSource(), number(r.GetMtu()), flags(r),
			kind(r.GetKind()), r.GetPeer(), protocol(r.GetProtocol()), objectState(r.GetState()), r.GetKernelText()))
	}
	a.print(columns("DESTINATION VIA LINK METRIC> +SOURCE +MTU> +FLAGS KIND PEER +PROTOCOL STATE +KERNEL|"), rows)
	parts := []string{count(len(rows), "route")}
	for s := pb.ObjectState_OBJECT_STATE_INSTALLED; s <= pb.ObjectState_OBJECT_STATE_FOREIGN; s++ {
		if states[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", states[s], strings.ToLower(objectState(s).text)))
		}
	}
	a.footer("%s", strings.Join(parts, ", "))
	return nil
}

// destination is as `ip route` writes it.
func destination(r *pb.Route) string {
	if strings.HasSuffix(r.GetDestination(), "/0") {
		return "default"
	}
	return r.GetDestination()
}

// via is the next hop, or the answer that the route itself gives.
func via(r *pb.Route) string {
	switch r.GetType() {
	case pb.RouteType_ROUTE_TYPE_UNICAST, pb.RouteType_ROUTE_TYPE_UNSPECIFIED:
		return r.GetNextHop()
	}
	return strings.ToLower(camel(r.GetType(), "ROUTE_TYPE_"))
}

// kind is "path" for the class path, which every other kind stands beside.
func kind(k pb.RouteKind) string {
	switch k {
	case pb.RouteKind_ROUTE_KIND_UNSPECIFIED:
		return ""
	case pb.RouteKind_ROUTE_KIND_CLASS_PATH:
		return "path"
	case pb.RouteKind_ROUTE_KIND_DEFAULT_HOLD:
		return "hold"
	}
	return strings.ToLower(camel(k, "ROUTE_KIND_"))
}

// flags are the kernel's and ours, as `ip route` writes them.
func flags(r *pb.Route) string {
	var list []string
	for _, f := range []struct {
		set  bool
		name string
	}{{r.GetOnLink(), "onlink"}, {r.GetLinkDown(), "linkdown"}, {r.GetDead(), "dead"}, {r.GetMultipath(), "multipath"}} {
		if f.set {
			list = append(list, f.name)
		}
	}
	return strings.Join(list, ",")
}
