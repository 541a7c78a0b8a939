package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"netclass.dev/client"
	"netclass.dev/version"
)

// versions is what `version -o json` prints; no RPC answers with it.
type versions struct {
	Client string `json:"client"`
	Daemon string `json:"daemon"`
	Node   string `json:"node"`
}

func (a *app) version() *cobra.Command {
	clientOnly := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of netclassctl and the daemon",
		Long: `Show the version of netclassctl and of the daemon that answers. A package's
version is the same, or ends in it.`,
		Args: none,
		RunE: a.ask(func(ctx context.Context, c *client.Client, _ []string) error {
			v := versions{Client: version.String()}
			reason := ""
			if !clientOnly {
				s, err := c.Status(ctx)
				v.Daemon, v.Node = s.GetDaemon().GetVersion(), s.GetDaemon().GetNode()
				if err != nil {
					reason = a.describe(err)
				}
			}
			if a.format == formatJSON || a.format == formatYAML {
				return a.versionDocument(v)
			}
			a.pairs("", []pair{
				{"netclassctl", cell{text: v.Client}},
				{"netclassd", cell{text: join(" on ", v.Daemon, v.Node)}},
				{"netclassd", cell{reason, faint}},
			})
			return nil
		}),
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "do not ask the daemon")
	return cmd
}

func (a *app) versionDocument(v versions) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	text = append(escape(text), '\n')
	if a.format == formatYAML {
		if text, err = toYAML(text); err != nil {
			return err
		}
	}
	a.say("%s", text)
	return nil
}
