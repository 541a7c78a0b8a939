package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/test/fibprobe"
	"netclass.dev/test/lab"
)

// explained is one explanation of `netclassctl explain -o json`.
type explained struct {
	Verdict, Class, Reason, Disagreement string
	Failed                               bool
	Model, Kernel                        struct{ Outcome, Link, NextHop, Code string }
}

// explain asks and returns the one explanation, with the exit code.
func explain(ctx context.Context, d *lab.Netclassd, args ...string) (explained, int, error) {
	var doc struct{ Explanations []explained }
	exit, err := ctl(ctx, d, &doc, append([]string{"explain"}, args...)...)
	if err == nil && len(doc.Explanations) != 1 {
		err = fmt.Errorf("explain %v: %d explanations", args, len(doc.Explanations))
	}
	if err != nil {
		return explained{}, exit, err
	}
	return doc.Explanations[0], exit, nil
}

// line is the answer as the packet table writes it.
func (e *explained) line() string {
	switch {
	case e.Kernel.Outcome != "OUTCOME_FORWARD":
		return strings.ToLower(strings.TrimPrefix(e.Kernel.Outcome, "OUTCOME_"))
	case e.Kernel.NextHop != "":
		return e.Kernel.Link + " via " + e.Kernel.NextHop
	}
	return e.Kernel.Link
}

// TestExplain asks for every packet of the expectation in its three states.
func TestExplain(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{})
	one, d := c.Node(1), c.daemons[0]
	e := readExpectation(t)
	c.within(convergence, "the expected state", func() error { return e.matches(t.Context(), one) })
	for state, name := range e.file[0].States {
		switch state {
		case 1:
			c.must(one.LinkDown(lab.PodNet))
		case 2:
			c.must(one.LinkDown(lab.NodeNet))
		}
		for _, family := range e.file {
			for _, p := range family.Packets {
				c.within(noticing, fmt.Sprintf("%s, %s %s", name, p.Name, routing.FamilyOf(p.Flow.Dst)), func() error {
					return explains(t.Context(), d, p, state)
				})
			}
		}
	}
	c.routerSawNothing()
}

// explains returns nil when the answer to a packet is what the expectation says,
// model and kernel are of one mind, and the verdict fits.
func explains(ctx context.Context, d *lab.Netclassd, p fibprobe.Packet, state int) error {
	args := []string{p.Flow.Dst.String()}
	if p.Flow.Src.IsValid() {
		args = append(args, "--from", p.Flow.Src.String())
	}
	if p.Flow.IIF != "" {
		args = append(args, "--in", p.Flow.IIF)
	}
	got, exit, err := explain(ctx, d, args...)
	if err != nil {
		return err
	}
	want := verdictOf(p, state)
	// Somebody's address that nothing leads to is a fault; nobody's is stopped.
	failed := want == "UNREACHABLE" && p.Want[0].String() != "unreachable"
	if got.line() != p.Want[state].String() || got.Disagreement != "" || got.Verdict != "VERDICT_"+want || got.Failed != failed || exit == 3 != failed {
		return fmt.Errorf("got %+v, exit %d; want %s, %s, failed %v", got, exit, p.Want[state], want, failed)
	}
	return nil
}

func verdictOf(p fibprobe.Packet, state int) string {
	switch {
	case p.Want[state].String() == "unreachable":
		return "UNREACHABLE"
	case p.Want[state].Link != p.Want[0].Link:
		return "SHARED"
	}
	return "OK"
}

// TestExplainWords asks by words, and while somebody has put a rule in the way.
func TestExplainWords(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{})
	one, two, d := c.Node(1), c.Node(2), c.daemons[0]
	for _, q := range []struct{ ask, want, class string }{
		{"pod --from pod -4", "pod0 via " + two.Addr(lab.PodNet, routing.IPv4).String(), "pod-pod"},
		{"pod --from pod -6", "pod0 via " + two.Addr(lab.PodNet, routing.IPv6).String(), "pod-pod"},
		{"world --from pod -4", "ingress0 via 10.47.0.254", "world-pod"},
		{"world --from vip -6", "ingress0 via fd00:47::fe", "world-pod"},
		{"node -4", "node0", "node-node"},
		{"k8s-3 --from k8s-1 -6", "node0", "node-node"},
		{"pod --from node -4", "node0 via " + two.Addr(lab.NodeNet, routing.IPv4).String(), "node-node"},
		{"world -4", "mgmt0 via 10.40.0.254", "world-node"},
		{"k8s-1 -4", "local", ""},
		{one.PodAddr(routing.IPv4).String() + " --from world", "cilium_host", ""},
		{two.PodAddr(routing.IPv4).String() + " --from pod --mark 0x200", "pod0 via " + two.Addr(lab.PodNet, routing.IPv4).String(), "pod-pod"},
	} {
		c.within(noticing, q.ask, func() error {
			got, exit, err := explain(t.Context(), d, strings.Fields(q.ask)...)
			if err == nil && (exit != 0 || got.line() != q.want || got.Class != q.class || got.Verdict != "VERDICT_OK" || got.Disagreement != "") {
				err = fmt.Errorf("exit %d: %+v; want %s, class %q", exit, got, q.want, q.class)
			}
			return err
		})
	}
	c.ip(one, "-4 rule add priority 500 from 10.244.0.0/16 lookup main")
	wrong := func(ask string, verdict, want string) {
		t.Helper()
		c.within(noticing, ask, func() error {
			got, exit, err := explain(t.Context(), d, strings.Fields(ask)...)
			if err == nil && (exit != 3 || got.Verdict != verdict || got.line() != want || !strings.Contains(got.Reason, "500: from 10.244.0.0/16 lookup main")) {
				err = fmt.Errorf("exit %d: %+v", exit, got)
			}
			return err
		})
	}
	wrong("pod --from pod -4", "VERDICT_WRONG_LINK", "node0 via 10.46.0.2")
	wrong("world --from pod -4", "VERDICT_WRONG_LINK", "mgmt0 via 10.40.0.254")
	c.ip(one, "-4 rule del priority 500")

	// What the kernel refuses for other reasons than routes is a disagreement.
	c.must(one.Sysctl(map[string]string{"ipv4/conf/" + lab.CNILink + "/forwarding": "0"}))
	c.within(noticing, "forwarding off", func() error {
		got, exit, err := explain(t.Context(), d, "pod", "--from", "pod", "-4")
		if err == nil && (exit != 3 || !strings.Contains(got.Disagreement, "is forwarding on for "+lab.CNILink)) {
			err = fmt.Errorf("exit %d: %+v", exit, got)
		}
		return err
	})
	c.must(one.Sysctl(map[string]string{"ipv4/conf/" + lab.CNILink + "/forwarding": "1"}))
	if _, err := d.Ctl(t.Context(), "explain", "10.244.2.5", "--from", "nobody"); err == nil {
		t.Error("a source that nobody knows is taken")
	}
}
