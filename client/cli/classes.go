package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
)

func (a *app) classes() *cobra.Command {
	return &cobra.Command{
		Use:     "classes [NAME]",
		Aliases: []string{"class"},
		Short:   "List the traffic classes, or show one",
		Long: `List the traffic classes in the order of the configuration, or show one with its
addresses and peers. TRAFFIC is what the class promises its LINK to, STATE its
health as status explains it, REASON why it is not Ready.`,
		Args: one,
		RunE: a.ask(func(ctx context.Context, c *client.Client, args []string) error {
			if len(args) == 1 {
				class, err := c.Class(ctx, args[0])
				if err != nil {
					return err
				}
				if done, err := a.document(&pb.GetClassResponse{Class: class}); done {
					return err
				}
				a.classDetail(class)
				return nil
			}
			list, err := client.Collect(c.Classes(ctx))
			if err != nil {
				return err
			}
			if done, err := a.document(&pb.ListClassesResponse{Classes: list}); done {
				return err
			}
			a.classTable(list)
			return nil
		}),
		ValidArgsFunction: a.complete(classNames),
	}
}

func (a *app) classTable(list []*pb.Class) {
	var rows [][]cell
	ready := 0
	for _, c := range list {
		state := health(c.GetHealth())
		if state.tone == good {
			ready++
		}
		separated := ""
		if c.GetPeers() > 0 {
			separated = fmt.Sprintf("%d/%d", c.GetPeersSeparated(), c.GetPeers())
		}
		rows = append(rows, row(c.GetName(), a.traffic(c), c.GetLink(), number(c.GetVlan()), linkState(c.GetLinkState()),
			number(c.GetKernelVlan()), number(c.GetMtu()), separated, state, c.GetReason()))
	}
	a.print(columns("NAME TRAFFIC LINK VLAN> +LINK-STATE +KERNEL-VLAN> +MTU> +SEPARATED> STATE REASON~"), rows)
	a.footer("%s, %d ready", count(len(list), "class"), ready)
}

// traffic shows the first flow and how many more there are, all of them in the
// wide view.
func (a *app) traffic(c *pb.Class) string {
	all := flows(c)
	if len(all) > 1 && a.format != formatWide {
		return fmt.Sprintf("%s +%d", all[0], len(all)-1)
	}
	return strings.Join(all, ",")
}

func flows(c *pb.Class) []string {
	var all []string
	for _, t := range c.GetTraffic() {
		all = append(all, t.GetFrom()+"->"+t.GetTo())
	}
	return all
}

func (a *app) classDetail(c *pb.Class) {
	link := c.GetLink() + ", " + linkState(c.GetLinkState())
	if c.GetMtu() > 0 {
		link += fmt.Sprintf(", MTU %d", c.GetMtu())
	}
	vlan := number(c.GetVlan())
	if c.GetKernelVlan() != 0 && c.GetKernelVlan() != c.GetVlan() {
		vlan = join(", ", vlan, fmt.Sprintf("the kernel has %d", c.GetKernelVlan()))
	}
	peers := ""
	if c.GetPeers() > 0 {
		peers = fmt.Sprintf("%s: %d separated, %d by fallback", count(c.GetPeers(), "pod CIDR"), c.GetPeersSeparated(), c.GetPeersFallback())
	}
	a.pairs("", []pair{
		{"Name", cell{text: c.GetName()}},
		{"State", health(c.GetHealth())},
		{"Reason", cell{text: c.GetReason()}},
		{"Traffic", cell{text: strings.Join(flows(c), ", ")}},
		{"Link", cell{text: link}},
		{"Addresses", cell{text: strings.Join(c.GetAddresses(), ", ")}},
		{"VLAN", cell{text: vlan}},
		{"Gateway", cell{text: yes(c.GetGateway(), "carries traffic of the world")}},
		{"Delegated", cell{text: yes(c.GetDelegated(), "the link belongs to a pod")}},
		{"Peers", cell{text: peers}},
	})
}

func yes(is bool, meaning string) string {
	if is {
		return "yes: " + meaning
	}
	return ""
}
