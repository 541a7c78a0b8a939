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
		Use:     "nodes [NAME]",
		Aliases: []string{"node"},
		Short:   "List the nodes that the inventory knows, or show one",
		Long: `List the nodes that the file or the Kubernetes API names, or show one. SESSIONS
are the BGP sessions with it that are Established, of those that there should
be; DRAIN is how far a drain of it is.`,
		Args: one,
		RunE: a.ask(func(ctx context.Context, c *client.Client, args []string) (err error) {
			var list *pb.ListNodesResponse
			if len(args) == 1 {
				list, err = c.Node(ctx, args[0])
			} else {
				list, err = c.ListNodes(ctx)
			}
			if err != nil {
				return err
			}
			if done, err := a.document(list); done {
				return err
			}
			if len(args) == 1 {
				a.nodeDetail(list.GetNodes()[0])
			} else {
				a.nodeTable(list.GetNodes())
			}
			if i := list.GetInventory(); i.GetStale() != "" {
				// Not a footer: a script that uses old nodes should say so as well.
				_, _ = fmt.Fprintf(a.env.Err, "%s: %s\n", a.age(i), clean(i.GetStale()))
			}
			if len(args) == 0 {
				a.nodeFooter(list.GetNodes())
			}
			return nil
		}),
		ValidArgsFunction: a.complete(nodeNames),
	}
}

func (a *app) nodeTable(list []*pb.Node) {
	var rows [][]cell
	for _, n := range list {
		rows = append(rows, row(n.GetName(), a.ofFamily(n.GetPodCidrs()), a.ofFamily(n.GetInternalIps()), strings.Join(a.linkAddresses(n), ","),
			nodeSessions(n), drainWord(n.GetDrain()), nodeStatus(n), map[bool]string{true: "yes", false: "no"}[n.GetSelf()]))
	}
	a.print(columns("NAME POD-CIDRS| INTERNAL-IPS| +LINK-ADDRESSES| SESSIONS> DRAIN +STATUS +SELF"), rows)
}

func (a *app) nodeFooter(list []*pb.Node) {
	self := ""
	for _, n := range list {
		if n.GetSelf() {
			self = "; this one is " + n.GetName()
		}
	}
	a.footer("%s%s", count(len(list), "node"), self)
}

func (a *app) nodeDetail(n *pb.Node) {
	a.pairs("", []pair{
		{"Name", cell{text: n.GetName()}},
		{"Self", cell{text: yes(n.GetSelf(), "netclassctl asks its daemon")}},
		{"Status", cell{nodeStatus(n), fair}},
		{"Pod CIDRs", cell{text: a.ofFamily(n.GetPodCidrs())}},
		{"InternalIPs", cell{text: a.ofFamily(n.GetInternalIps())}},
		{"Links", cell{text: strings.Join(a.linkAddresses(n), ", ")}},
		{"Sessions", nodeSessions(n)},
		{"Drain", a.drainLine(n.GetDrain(), n.GetSelf())},
		{"", cell{drainDetail(n.GetDrain()), plain}},
	})
}

// linkAddresses lists a node's addresses on class links; a question mark stands for
// one that it does not say.
func (a *app) linkAddresses(n *pb.Node) []string {
	var list []string
	for _, l := range n.GetLinkAddresses() {
		if a.family() == pb.Family_FAMILY_UNSPECIFIED || a.family() == l.GetFamily() {
			list = append(list, l.GetLink()+"="+either(l.GetAddress(), "?"))
		}
	}
	return list
}

func nodeSessions(n *pb.Node) cell {
	if n.GetSessions() == 0 {
		return cell{}
	}
	c := cell{text: fmt.Sprintf("%d/%d", n.GetSessionsEstablished(), n.GetSessions())}
	if n.GetSessionsEstablished() < n.GetSessions() {
		c.tone = bad
	}
	return c
}

// nodeStatus is what the Kubernetes API says of a node that is not as usual.
func nodeStatus(n *pb.Node) string {
	var list []string
	if n.GetNotReady() {
		list = append(list, "NotReady")
	}
	if n.GetCordoned() {
		list = append(list, "Cordoned")
	}
	return strings.Join(list, ",")
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
