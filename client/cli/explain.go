package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
)

func (a *app) explain() *cobra.Command {
	req := &pb.ExplainRequest{}
	cmd := &cobra.Command{
		Use:   "explain DST",
		Short: "Show where a packet goes and why; exit 3 when that is wrong",
		Long: `Show where a packet goes and why: each rule, the table, the route and what it
beat, the class that the packet belongs to, and beside it the kernel's own
answer. The daemon reads rules and routes anew for it, at most once a second.

DST and --from are addresses, names of nodes, or:
  pod    as a source a pod of this node, as DST one of the first other node
  node   this node's InternalIP, as DST that of the first other node
  world  an address outside the cluster that nobody uses
  vip    an address of a network of load balancers
The first node is the first by name, a sample the seventh address of its pod
CIDR or network or so. Without --from it is a packet that this node makes and
has chosen no address for yet. --in follows from --from: none for an address of
this node, the CNI's link for its pods, else the link that this node would
answer by.

Verdicts:
  OK           by the link of its class, or nothing is promised about it
  SHARED       by another link of the cluster: the class's own path is away
  WRONG LINK   by another link although the class's own is there, or a packet of
               the cluster by a router
  UNREACHABLE  nowhere

Exit code 3: WRONG LINK; UNREACHABLE although somebody has the address or a
route is planned (nobody's address is stopped by the fence or the guard: that
is 0); or the kernel answers something else than its rules and routes give.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return fmt.Errorf("explain takes one destination: an address, a node, pod, node, world or vip")
			}
			return nil
		},
		RunE: a.ask(func(ctx context.Context, c *client.Client, args []string) error {
			req.Destination, req.Family = args[0], a.family()
			resp, err := c.Explain(ctx, req)
			if err != nil {
				return err
			}
			done, err := a.document(resp)
			if err != nil {
				return err
			}
			failed := false
			for i, e := range resp.GetExplanations() {
				if !done {
					if i > 0 {
						a.say("\n")
					}
					a.explanation(e)
				}
				failed = failed || e.GetFailed()
			}
			if failed {
				return errDegraded
			}
			return nil
		}),
		ValidArgsFunction: a.complete(ends),
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Source, "from", "", "where the packet comes from, a `SRC` as DST is")
	flags.StringVar(&req.Iif, "in", "", "the `LINK` that it arrives by")
	flags.Var((*mark)(&req.Mark), "mark", "its fwmark, decimal or 0x…")
	a.completeFlag(cmd, "from", ends)
	a.completeFlag(cmd, "in", links)
	return cmd
}

// ends completes what a packet may come from or go to.
func ends(ctx context.Context, c *client.Client) ([]string, error) {
	nodes, err := nodeNames(ctx, c)
	return append([]string{"pod", "node", "world", "vip"}, nodes...), err
}

// links completes the links that a packet may arrive by: those of the classes.
func links(ctx context.Context, c *client.Client) ([]string, error) {
	return names(c.Classes(ctx), (*pb.Class).GetLink)
}

func verdict(v pb.Verdict) cell {
	tones := map[pb.Verdict]tone{
		pb.Verdict_VERDICT_OK: good, pb.Verdict_VERDICT_SHARED: fair, pb.Verdict_VERDICT_WRONG_LINK: bad, pb.Verdict_VERDICT_UNREACHABLE: bad,
	}
	return cell{capitals(v, "VERDICT_"), tones[v]}
}

// capitals writes "WRONG LINK" of VERDICT_WRONG_LINK.
func capitals(enum fmt.Stringer, prefix string) string {
	return strings.ReplaceAll(strings.TrimPrefix(enum.String(), prefix), "_", " ")
}

func (a *app) explanation(e *pb.Explanation) {
	f := e.GetFlow()
	from := f.GetSourceName()
	if f.GetSource() != "" {
		from = f.GetSource() + ", " + from
	}
	if f.GetIif() != "" {
		from += ", by " + f.GetIif()
	}
	mark := ""
	if f.GetMark() != 0 {
		mark = fmt.Sprintf("%#x", f.GetMark())
	}
	class := join("", e.GetClass(), prefixed(" (", join("->", e.GetTraffic().GetFrom(), e.GetTraffic().GetTo())))
	if e.GetClass() != "" {
		class += ") by " + e.GetLink()
	}
	state := verdict(e.GetVerdict())
	if !e.GetFailed() && e.GetVerdict() == pb.Verdict_VERDICT_UNREACHABLE {
		state.tone = faint
	}
	ebpf := ""
	if e.GetEbpf().GetText() != e.GetModel().GetText() {
		ebpf = e.GetEbpf().GetText() // where it differs
	}
	kernel := cell{text: way(e.GetKernel())}
	if e.GetDisagreement() != "" {
		kernel.tone = bad
	}
	a.pairs("", []pair{
		{"To", cell{text: f.GetDestination() + ", " + f.GetDestinationName()}},
		{"From", cell{text: from}},
		{"Mark", cell{text: mark}},
		{"Class", cell{text: either(class, "none")}},
		{"Verdict", state},
		{"Reason", cell{text: e.GetReason()}},
		{"Way", cell{text: way(e.GetModel())}},
		{"eBPF", cell{text: ebpf}},
		{"Kernel", kernel},
		{"Disagree", cell{e.GetDisagreement(), bad}},
	})
	a.say("\n")
	a.steps(e)
}

// way says in words where an answer leads.
func way(answer *pb.Answer) string {
	mtu := ""
	if answer.GetMtu() > 0 {
		mtu = fmt.Sprintf("MTU %d", answer.GetMtu())
	}
	table := answer.GetTableName()
	if table == "" && answer.GetTable() > 0 {
		table = fmt.Sprint(answer.GetTable())
	}
	if answer.GetOutcome() == pb.Outcome_OUTCOME_NO_ANSWER {
		return answer.GetText()
	}
	return join(", ", answer.GetText(), answer.GetCode(), prefixed("table ", table), prefixed("source ", answer.GetSource()), mtu)
}

// steps lists the rules on the way, then of each table that had an answer the
// routes that hold the destination.
func (a *app) steps(e *pb.Explanation) {
	var rules, routes [][]cell
	for _, s := range e.GetSteps() {
		_, rule, _ := strings.Cut(s.GetRule(), ": ")
		hit := cell{"no", faint}
		if s.GetMatch() {
			hit = cell{text: "yes"}
		}
		rules = append(rules, row(s.GetPriority(), rule, hit, s.GetWhy()))
		table := either(s.GetTableName(), fmt.Sprint(s.GetTable()))
		if s.GetRoute() != "" {
			routes = append(routes, row(table, cell{"taken", good}, kind(s.GetRouteKind()), s.GetRoute()))
		}
		for _, b := range s.GetBeat() {
			routes = append(routes, row(table, cell{"beaten", faint}, kind(b.GetKind()), b.GetText()))
		}
	}
	a.print(columns("PRIORITY> RULE| HIT WHY|"), rules)
	if len(routes) > 0 {
		a.say("\n")
		a.print(columns("TABLE RESULT KIND ROUTE|"), routes)
	}
}

// mark is a flag's value.
type mark uint32

// String implements flag.Value; the zero value is none.
func (m *mark) String() string {
	if *m == 0 {
		return ""
	}
	return fmt.Sprintf("%#x", uint32(*m))
}

// Set implements flag.Value.
func (m *mark) Set(s string) error {
	n, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		return fmt.Errorf("must be a number of 32 bits, decimal or 0x…")
	}
	*m = mark(n)
	return nil
}

// Type implements pflag.Value.
func (m *mark) Type() string { return "MARK" }
