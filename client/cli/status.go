package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"netclass.dev/client"
	pb "netclass.dev/proto/netclass/v1"
)

func (a *app) status() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how the daemon stands; exit 3 when it is degraded",
		Long: `Show how the daemon stands: its configuration, the nodes, the kernel, the BGP
speaker and its sessions, classes and tables, whether a router can come to carry
packets of the cluster, a drain, and every condition: what is not as it should
be, and since when.

The health of a class or a table, and of the daemon, which is the worst:

  Ready      as configured
  Shared     some traffic of the class uses another link of the cluster
  Waiting    something that it needs is not there yet
  Draining   a drain of this node is taking it out, or putting it back
  Drained    a drain of this node has taken it out, and that is done
  Delegated  its link is in a pod's network namespace, as configured
  Degraded   a change or input failed, or the kernel sends traffic another way
  Idle       there is no configuration

docs/status.md, in packages /usr/share/doc/netclass/docs/status.md, says of each
REASON of a condition what it means and what to do.`,
		Args: none,
		RunE: a.ask(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			done, err := a.document(&pb.GetStatusResponse{Status: s})
			if err != nil {
				return err
			}
			if !done {
				a.dashboard(s)
			}
			if s.GetDaemon().GetHealth() == pb.Health_HEALTH_DEGRADED {
				return errDegraded
			}
			return nil
		}),
	}
}

func (a *app) dashboard(s *pb.Status) {
	d := s.GetDaemon()
	a.pairs("", []pair{
		{"Node", cell{text: d.GetNode()}},
		{"Version", cell{text: join(", ", d.GetVersion(), prefixed("running ", a.since(d.GetStarted())))}},
		{"Health", health(d.GetHealth())},
		{"Config", a.configLine(s.GetConfig())},
		{"Inventory", a.inventoryLine(s.GetInventory())},
		{"Kernel", a.kernelLine(s.GetPass())},
		{"Passes", a.passLine(s.GetPass())},
		{"Held back", cell{a.ifWide(s.GetPass().GetHold()), fair}},
		{"Speaker", a.speakerLine(s.GetSpeaker())},
		{"", cell{strings.Join(s.GetSpeaker().GetErrors(), "; "), bad}},
		{"Sessions", sessionsLine(s)},
		{"Classes", partLine(s.GetClassesReady(), s.GetClasses(), "ready")},
		{"Tables", partLine(s.GetTablesReady(), s.GetTables(), "ready")},
		{"Router", a.routerLine(s)},
		{"", cell{text: a.ifWide(prefixed("asked: ", strings.Join(s.GetRouter().GetCovers(), "; ")))}},
		{"Drain", a.drainLine(s.GetDrain(), true)},
		{"", cell{drainDetail(s.GetDrain()), plain}},
		{"Others", cell{join("; ", prefixed("draining: ", strings.Join(s.GetDrainingNodes(), ", ")), prefixed("drained: ", strings.Join(s.GetDrainedNodes(), ", "))), fair}},
	})
	if len(s.GetConditions()) == 0 {
		a.footer("no conditions")
		return
	}
	a.say("\n")
	var rows [][]cell
	for _, c := range s.GetConditions() {
		rows = append(rows, row(c.GetObject(), cell{c.GetReason(), fair}, a.since(c.GetSince()), c.GetMessage()))
	}
	a.print(columns("OBJECT REASON AGE MESSAGE|"), rows)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func (a *app) configLine(c *pb.ConfigStatus) cell {
	switch {
	case c.GetError() != "" && c.GetLoaded() == nil:
		return cell{c.GetPath() + ": none in force: " + c.GetError(), bad}
	case c.GetError() != "":
		return cell{fmt.Sprintf("%s of %s ago; the newest is refused", c.GetPath(), a.since(c.GetLoaded())), bad}
	case c.GetLoaded() == nil:
		return cell{c.GetPath() + ": not there yet, or empty", faint}
	}
	return cell{text: fmt.Sprintf("%s, loaded %s ago", c.GetPath(), a.since(c.GetLoaded()))}
}

func (a *app) inventoryLine(i *pb.InventoryStatus) cell {
	switch {
	case i.GetSource() == "" && i.GetNodes() == 0:
		return cell{}
	case i.GetStale() != "" && (i.GetSynced() || i.GetAsOf() != nil):
		return cell{join(", ", count(i.GetNodes(), "node")+" ("+a.age(i)+")", i.GetSource()), bad}
	case !i.GetSynced():
		return cell{"not read yet, " + i.GetSource(), fair}
	}
	return cell{text: join(", ", count(i.GetNodes(), "node"), i.GetSource())}
}

func (a *app) kernelLine(p *pb.PassStatus) cell {
	if p.GetPasses() == 0 {
		return cell{"not read yet", fair}
	}
	took := span(p.GetTook())
	if took == "" {
		took = "0s"
	}
	passes := fmt.Sprintf("%s, the last %s ago in %s", count(p.GetPasses(), "pass"), a.since(p.GetLast()), took)
	pending := count(p.GetPending(), "change") + " pending"
	switch {
	case p.GetError() != "":
		return cell{fmt.Sprintf("%s, %d failed; %s", pending, p.GetFailed(), passes), bad}
	case p.GetPending() > 0:
		return cell{pending + "; " + passes, fair}
	case !p.GetSynced():
		return cell{"as planned so far; " + passes, fair}
	}
	return cell{text: "as planned; " + passes}
}

// ifWide is a text in the wide view only.
func (a *app) ifWide(text string) string {
	if a.format != formatWide {
		return ""
	}
	return text
}

// passLine counts, in the wide view, what has been done since the daemon's start.
func (a *app) passLine(p *pb.PassStatus) cell {
	return cell{text: a.ifWide(fmt.Sprintf("%d since the start, %d of them read the whole kernel; %s made, %d failed",
		p.GetPasses(), p.GetDumps(), count(p.GetApplied(), "change"), p.GetFailed()))}
}

func (a *app) speakerLine(s *pb.SpeakerStatus) cell {
	restarts := ""
	if s.GetRestarts() > 0 {
		restarts = join(", last ended by ", count(s.GetRestarts(), "restart"), s.GetLastExit())
	}
	switch {
	case !s.GetWanted():
		return cell{"not configured", faint}
	case s.GetPid() == 0:
		return cell{join("; ", "not running", restarts), bad}
	}
	return cell{text: join("; ", fmt.Sprintf("pid %d for %s", s.GetPid(), a.since(s.GetSince())), restarts)}
}

func sessionsLine(s *pb.Status) cell {
	if s.GetSessions() == 0 {
		return cell{}
	}
	c := partLine(s.GetSessionsEstablished(), s.GetSessions(), "Established")
	if n := s.GetSessionsHeld(); n > 0 {
		c.text += fmt.Sprintf(", %d held", n)
	}
	return c
}

func partLine(part, whole uint32, what string) cell {
	if whole == 0 {
		return cell{}
	}
	c := cell{text: fmt.Sprintf("%d/%d %s", part, whole, what)}
	if part < whole {
		c.tone = fair
	}
	return c
}
