package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
)

func (a *app) peers() *cobra.Command {
	return &cobra.Command{
		Use:     "peers [NAME]",
		Aliases: []string{"peer"},
		Short:   "List the BGP sessions, or show one peer's",
		Long: `List the BGP sessions, one line for a peer and a family, or show one peer's with
every prefix. STATE is that of RFC 4271. Of the prefixes that the peer announces

  RECEIVED  have come
  ACCEPTED  are used: a node's own pod CIDRs, or what is imported from a router
  REFUSED   are not: the view of one peer says why

and SENT are those that this node announces to the peer: its pod CIDRs to other
nodes, load balancers' addresses to routers.`,
		Args: one,
		RunE: a.ask(func(ctx context.Context, c *client.Client, args []string) error {
			name, view := "", pb.PeerView_PEER_VIEW_BASIC
			if len(args) == 1 {
				name, view = args[0], pb.PeerView_PEER_VIEW_FULL
			}
			list, err := client.Collect(c.Peers(ctx, name, a.family(), view))
			if err != nil {
				return err
			}
			if done, err := a.document(&pb.ListPeersResponse{Peers: list}); done {
				return err
			}
			if name == "" {
				a.peerTable(list)
				return nil
			}
			for i, p := range list {
				if i > 0 {
					a.say("\n")
				}
				a.peerDetail(p)
			}
			return nil
		}),
		ValidArgsFunction: a.complete(func(ctx context.Context, c *client.Client) ([]string, error) {
			return names(c.Peers(ctx, "", 0, 0), (*pb.Peer).GetName)
		}),
	}
}

func (a *app) peerTable(list []*pb.Peer) {
	var rows [][]cell
	established, held := 0, 0
	for _, p := range list {
		uptime, hold := "", ""
		if p.GetHeld() {
			held++
			hold = a.until(p.GetHeldTill())
		}
		if p.GetState() == pb.SessionState_SESSION_STATE_ESTABLISHED {
			established++
			uptime = a.since(p.GetSince())
		}
		rows = append(rows, row(p.GetName(), family(p.GetFamily()), p.GetRemoteAddress(), session(p), uptime,
			p.GetReceived(), p.GetAccepted(), refused(p), p.GetAnnounced(), hold, p.GetLink(), p.GetLocalAddress(), p.GetPeerAsn(), role(p), why(p)))
	}
	a.print(columns("NAME FAMILY ADDRESS STATE UPTIME> RECEIVED> ACCEPTED> REFUSED> SENT> +HELD> +LINK +LOCAL +ASN> +ROLE +REASON|"), rows)
	note := ""
	if held > 0 {
		note = fmt.Sprintf(", %d held", held)
	}
	a.footer("%s, %d Established%s", count(len(list), "session"), established, note)
}

// session is the state in RFC 4271's words; its colour tells whether its routes
// are held.
func session(p *pb.Peer) cell {
	c := cell{camel(p.GetState(), "SESSION_STATE_"), bad}
	switch {
	case p.GetState() == pb.SessionState_SESSION_STATE_ESTABLISHED:
		c.tone = good
	case p.GetHeld():
		c.tone = fair
	}
	return c
}

func refused(p *pb.Peer) cell {
	c := cell{text: fmt.Sprint(p.GetRefused())}
	if p.GetRefused() > 0 {
		c.tone = fair
	}
	return c
}

func role(p *pb.Peer) string { return strings.ToLower(camel(p.GetRole(), "PEER_ROLE_")) }

func (a *app) peerDetail(p *pb.Peer) {
	state := session(p)
	if p.GetHeld() {
		state.text += " (held " + a.until(p.GetHeldTill()) + ")"
	}
	if p.GetSince() != nil {
		word := "down"
		if p.GetState() == pb.SessionState_SESSION_STATE_ESTABLISHED {
			word = "up"
		}
		state.text += ", " + word + " " + a.since(p.GetSince())
	}
	limit := "none may come"
	if p.GetMaxPrefixes() > 0 {
		limit = fmt.Sprintf("at most %d", p.GetMaxPrefixes())
	}
	prefixes := cell{text: fmt.Sprintf("%d received, %d accepted, %d refused; %s; %d announced", p.GetReceived(), p.GetAccepted(), p.GetRefused(), limit, p.GetAnnounced())}
	endOfRIB := "not received"
	if p.GetEndOfRib() {
		endOfRIB = "received"
	}
	a.say("%s %s\n", clean(p.GetName()), family(p.GetFamily()))
	a.pairs("  ", []pair{
		{"State", state},
		{"Reason", cell{reasonBeside(p), fair}},
		{"Role", cell{text: fmt.Sprintf("%s, AS %d", role(p), p.GetPeerAsn())}},
		{"Link", cell{text: p.GetLink()}},
		{"Local", cell{text: p.GetLocalAddress()}},
		{"Remote", cell{text: p.GetRemoteAddress()}},
		{"Prefixes", prefixes},
		{"End-of-RIB", cell{text: endOfRIB}},
		{"Timers", cell{text: join(", ", prefixed("hold ", span(p.GetHoldTime())), prefixed("keepalive ", span(p.GetKeepalive())), prefixed("connect-retry ", span(p.GetConnectRetry())))}},
		{"Restart", cell{text: join(", ", prefixed("ours ", span(p.GetRestartTime())), prefixed("peer's ", span(p.GetPeerRestartTime())))}},
		{"Security", cell{text: security(p)}},
		{"Dialled by", cell{text: map[bool]string{true: "the peer", false: "us"}[p.GetPassive()]}},
		{"Last error", cell{text: downError(p)}},
	})
	a.peerPrefixes("Announced", p.GetAnnounced(), texts(p.GetAnnouncements(), announcementText))
	a.peerPrefixes("Accepted", p.GetAccepted(), texts(p.GetAcceptedPaths(), pathText))
	a.peerPrefixes("Refused", p.GetRefused(), texts(p.GetRefusals(), func(r *pb.Refusal) string { return pathText(r.GetPath()) + ": " + r.GetReason() }))
}

// peerPrefixes lists prefixes under a heading. The daemon may list fewer than it
// counts.
func (a *app) peerPrefixes(heading string, number uint32, lines []string) {
	if len(lines) == 0 {
		return
	}
	a.say("  %s\n", heading)
	for _, line := range lines {
		a.say("    ")
		a.fold(cell{text: clean(line)}, 4)
	}
	if more := int(number) - len(lines); more > 0 {
		a.say("    and %d more\n", more)
	}
}

func texts[T any](list []T, text func(T) string) []string {
	lines := make([]string, len(list))
	for i, item := range list {
		lines[i] = text(item)
	}
	return lines
}

// announcementText is a prefix with the attributes that the peer is sent.
func announcementText(n *pb.Announcement) string {
	number := func(name string, value uint32) string {
		if value == 0 {
			return ""
		}
		return fmt.Sprintf("%s %d", name, value)
	}
	return join(", ", join(" via ", n.GetPrefix(), n.GetNextHop()), number("local preference", n.GetLocalPreference()), number("MED", n.GetMed()),
		number("prepended", n.GetPrepend()), prefixed("community ", strings.Join(n.GetCommunities(), " ")))
}

func security(p *pb.Peer) string {
	var list []string
	if p.GetPassword() {
		list = append(list, "TCP MD5")
	}
	if p.GetGtsm() {
		list = append(list, "GTSM")
	}
	if p.GetMultihop() > 0 {
		list = append(list, fmt.Sprintf("multihop, TTL %d", p.GetMultihop()))
	}
	return strings.Join(list, ", ")
}

func lastError(p *pb.Peer) string {
	causes := map[pb.DownCause]string{
		pb.DownCause_DOWN_CAUSE_CONNECTION: "connection lost", pb.DownCause_DOWN_CAUSE_HOLD_TIMER: "hold timer expired",
		pb.DownCause_DOWN_CAUSE_CEASE: "cease", pb.DownCause_DOWN_CAUSE_ERROR: "protocol error",
	}
	cause, text := causes[p.GetLastDownCause()], p.GetLastError()
	if strings.HasPrefix(strings.ToLower(text), cause) {
		return text // which says it already
	}
	return join(": ", cause, text)
}

// downError is the last error of a session that is down. Of one that is up, how the
// last one ended is no longer of interest.
func downError(p *pb.Peer) string {
	if p.GetState() == pb.SessionState_SESSION_STATE_ESTABLISHED {
		return ""
	}
	return lastError(p)
}

// reasonBeside is why there is no session, unless the last error says it.
func reasonBeside(p *pb.Peer) string {
	if p.GetReason() == p.GetLastError() {
		return ""
	}
	return p.GetReason()
}

// why joins all that is known of a session that is not up.
func why(p *pb.Peer) string {
	if p.GetState() == pb.SessionState_SESSION_STATE_ESTABLISHED {
		return p.GetReason()
	}
	return join("; ", reasonBeside(p), downError(p))
}

func pathText(p *pb.Path) string { return join(" via ", p.GetPrefix(), p.GetNextHop()) }
