package cli

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
)

func (a *app) watch() *cobra.Command {
	return &cobra.Command{
		Use:   "watch",
		Short: "Show every object, then each change, until interrupted",
		Long: `Show every object, then each change, until interrupted. A condition has the name
of the object that it is of, and its reason as the state.

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
			t := &ticker{app: a, known: map[string]string{}}
			defer t.flush()
			for e, err := range c.Watch(ctx) {
				if err != nil {
					if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
						return context.DeadlineExceeded
					}
					return err
				}
				if err := t.show(e); err != nil {
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
