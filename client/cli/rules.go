package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
)

func (a *app) rules() *cobra.Command {
	return &cobra.Command{
		Use:     "rules",
		Aliases: []string{"rule"},
		Short:   "List the policy rules",
		Long: `List the policy rules of this node by priority, ours and those of others. OWNER
is the protocol that each bears, STATE as netclassctl table explains it. "from
all" is left out where a rule says more; -o wide shows rules as ip rule does.`,
		Args: none,
		RunE: a.ask(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := client.Collect(c.Rules(ctx, a.family()))
			if err != nil {
				return err
			}
			if done, err := a.document(&pb.ListRulesResponse{Rules: list}); done {
				return err
			}
			var rows [][]cell
			ours := 0
			for _, r := range list {
				if r.GetOurs() {
					ours++
				}
				rows = append(rows, row(r.GetPriority(), family(r.GetFamily()), a.ruleText(r), r.GetTableName(), ruleKind(r.GetKind()),
					protocol(r.GetProtocol()), objectState(r.GetState())))
			}
			a.print(columns("PRIORITY> FAMILY RULE| +TABLE +KIND OWNER STATE"), rows)
			a.footer("%s, %d ours", count(len(list), "rule"), ours)
			return nil
		}),
	}
}

// ruleText is a rule as `ip rule` shows it without its priority; but in the wide view
// also without "from all" where something else says what it is for.
func (a *app) ruleText(r *pb.Rule) string {
	_, text, _ := strings.Cut(r.GetText(), ": ")
	rest, all := strings.CutPrefix(text, "from all ")
	switch word, _, _ := strings.Cut(rest, " "); word {
	case "to", "iif", "oif", "fwmark", "tos", "dsfield", "ipproto", "sport", "dport", "uidrange":
		if all && a.format != formatWide {
			return rest
		}
	}
	return text
}

func ruleKind(k pb.RuleKind) string {
	if k == pb.RuleKind_RULE_KIND_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(k.String(), "RULE_KIND_"), "_", "-"))
}
