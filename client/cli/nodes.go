package cli

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
)

func (a *app) nodes() *cobra.Command {
	return &cobra.Command{
		Use:     "nodes",
		Aliases: []string{"node"},
		Short:   "List the nodes that the inventory knows",
		Args:    none,
		RunE: a.ask(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.ListNodes(ctx)
			if err != nil {
				return err
			}
			if done, err := a.document(list); done {
				return err
			}
			a.nodeTable(list)
			return nil
		}),
	}
}

func (a *app) nodeTable(list *pb.ListNodesResponse) {
	var rows [][]cell
	self := ""
	for _, n := range list.GetNodes() {
		sessions := cell{}
		if n.GetSessions() > 0 {
			sessions.text = fmt.Sprintf("%d/%d", n.GetSessionsEstablished(), n.GetSessions())
			if n.GetSessionsEstablished() < n.GetSessions() {
				sessions.tone = bad
			}
		}
		if n.GetSelf() {
			self = "; this one is " + n.GetName()
		}
		var addresses []string
		for _, l := range n.GetLinkAddresses() {
			if a.family() == pb.Family_FAMILY_UNSPECIFIED || a.family() == l.GetFamily() {
				address := l.GetAddress()
				if address == "" {
					address = "?"
				}
				addresses = append(addresses, l.GetLink()+"="+address)
			}
		}
		rows = append(rows, row(n.GetName(), a.ofFamily(n.GetPodCidrs()), a.ofFamily(n.GetInternalIps()), strings.Join(addresses, ","), sessions,
			map[bool]string{true: "yes", false: "no"}[n.GetSelf()]))
	}
	a.print(columns("NAME POD-CIDRS INTERNAL-IPS +LINK-ADDRESSES SESSIONS> +SELF"), rows)
	if i := list.GetInventory(); i.GetStale() != "" {
		// Not a footer: a script that uses old nodes should say so as well.
		fmt.Fprintf(a.env.Err, "%s: %s\n", a.age(i), i.GetStale())
	}
	a.footer("%s%s", count(len(list.GetNodes()), "node"), self)
}

// age says how old the nodes are.
func (a *app) age(i *pb.InventoryStatus) string {
	switch {
	case i.GetAsOf() == nil:
		return "stale"
	case !i.GetSynced():
		return "copy of " + a.since(i.GetAsOf()) + " ago"
	}
	return "stale for " + a.since(i.GetAsOf())
}

// ofFamily joins the prefixes or addresses that -4 and -6 let through.
func (a *app) ofFamily(texts []string) string {
	var some []string
	for _, t := range texts {
		is4 := strings.Contains(t, ".")
		if p, err := netip.ParsePrefix(t); err == nil {
			is4 = p.Addr().Is4()
		}
		if f := a.family(); f == pb.Family_FAMILY_UNSPECIFIED || (f == pb.Family_FAMILY_IPV4) == is4 {
			some = append(some, t)
		}
	}
	return strings.Join(some, ",")
}
