package cli

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
)

func (a *app) watch() *cobra.Command {
	return &cobra.Command{
		Use:   "watch",
		Short: "Show every object, then each change, until interrupted",
		Long: `Show every object, then each change, until interrupted.

With -o json each event is one line, with -o yaml one document. --timeout limits
the time until every object has been shown, not the watch.`,
		Args: none,
		RunE: a.askLong(func(ctx context.Context, c *client.Client, _ []string) error {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			var synced atomic.Bool
			if a.timeout > 0 {
				timer := time.AfterFunc(a.timeout, func() {
					if !synced.Load() {
						cancel(context.DeadlineExceeded)
					}
				})
				defer timer.Stop()
			}
			if !a.noHeaders && a.format != formatJSON && a.format != formatYAML {
				a.event("TIME", "EVENT", "OBJECT", cell{text: "STATE"}, "REASON")
			}
			for e, err := range c.Watch(ctx) {
				if err != nil {
					if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
						return context.DeadlineExceeded
					}
					return err
				}
				if err := a.show(e, synced.Load()); err != nil {
					return err
				}
				if e.GetSynced() != nil {
					synced.Store(true)
				}
			}
			return nil
		}),
	}
}

// show prints one event.
func (a *app) show(e *pb.WatchResponse, synced bool) error {
	switch a.format {
	case formatJSON:
		text, err := line(e)
		a.say("%s", text)
		return err
	case formatYAML:
		a.say("---\n")
		_, err := a.document(proto.Message(e))
		return err
	}
	at := e.GetTime().AsTime().In(a.env.Now().Location()).Format(time.TimeOnly)
	switch {
	case e.GetSynced() != nil:
		a.event(at, "synced", "-", cell{text: "-"}, "")
	case e.GetUpsert() != nil:
		event := "have"
		if synced {
			event = "change"
		}
		state, reason := a.objectLine(e.GetUpsert())
		a.event(at, event, e.GetUpsert().GetName(), state, reason)
	default:
		a.event(at, "gone", e.GetDelete(), cell{text: "-"}, "")
	}
	return nil
}

// event prints a line whose columns do not know what comes after it.
func (a *app) event(at, event, object string, state cell, reason string) {
	if reason = clean(reason); reason == "" {
		reason = "-"
	}
	if a.env.Width > 0 && a.format != formatWide {
		reason = shorten(reason, max(a.env.Width-8-2-6-2-max(28, len(object))-2-max(11, len(state.text))-2, 6))
	}
	if state.text == "" {
		state.text = "-"
	}
	pad := strings.Repeat(" ", max(11-len(state.text), 0))
	a.say("%-8s  %-6s  %-28s  %s%s  %s\n", at, event, object, a.paint(state), pad, reason)
}

// objectLine is an object's state and what there is to say about it.
func (a *app) objectLine(o *pb.Object) (cell, string) {
	switch v := o.GetValue().(type) {
	case *pb.Object_Daemon:
		return health(v.Daemon.GetHealth()), "node " + v.Daemon.GetNode()
	case *pb.Object_Class:
		return health(v.Class.GetHealth()), either(v.Class.GetReason(), "link "+v.Class.GetLink())
	case *pb.Object_Table:
		return health(v.Table.GetHealth()), join("; ", "ipv4 "+installed(v.Table.GetIpv4()).text+" ipv6 "+installed(v.Table.GetIpv6()).text, v.Table.GetReason())
	case *pb.Object_Peer:
		held := ""
		if v.Peer.GetHeld() {
			held = "routes held"
		}
		return session(v.Peer), join("; ", v.Peer.GetRemoteAddress(), held, why(v.Peer))
	case *pb.Object_Node:
		d := v.Node.GetDrain()
		state := drainWord(d)
		if d == nil {
			state.text = "Known"
		}
		return state, join("; ", nodeStatus(v.Node), d.GetError(), d.GetMessage(), d.GetReason(), join(",", v.Node.GetPodCidrs()...))
	case *pb.Object_Condition:
		return cell{v.Condition.GetReason(), fair}, v.Condition.GetMessage()
	}
	return cell{text: "-"}, ""
}

// either is the first text, or the other when it is empty.
func either(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
