package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

// noticing is how soon the daemon tells of a promise that somebody else breaks,
// and that it is kept again.
const noticing = 5 * time.Second

// verified is what `netclassctl verify -o json` says.
type verified struct {
	Promises []struct {
		Class, Family, State, Reason string
		Traffic                      struct{ From, To string }
		Flows, Checked               int
	}
	Router struct {
		Proven, Misrouted bool
		Reason            string
		Checked           int
	}
}

// ctl runs netclassctl for its answer and its exit code.
func ctl(ctx context.Context, d *lab.Netclassd, into any, args ...string) (exit int, err error) {
	out, err := d.Ctl(ctx, append(args, "-o", "json")...)
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		exit, err = ended.ExitCode(), nil
	}
	if err != nil || exit != 0 && exit != 3 {
		return exit, fmt.Errorf("netclassctl %s: exit %d: %w: %s", strings.Join(args, " "), exit, err, out)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return exit, fmt.Errorf("netclassctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return exit, nil
}

// states returns the state of each promise: "pod-pod pods->pods ipv4" → "HELD".
func (v *verified) states() map[string]string {
	all := map[string]string{}
	for _, p := range v.Promises {
		name := fmt.Sprintf("%s %s->%s %s", p.Class, p.Traffic.From, p.Traffic.To, strings.ToLower(strings.TrimPrefix(p.Family, "FAMILY_")))
		all[name] = strings.TrimPrefix(p.State, "PROMISE_STATE_")
	}
	return all
}

// seedPromises are the seed's, by class and traffic.
var seedPromises = []string{
	"pod-pod pods->pods", "world-pod pods->world", "world-pod loadBalancers->world",
	"node-node nodes->nodes", "node-node nodes->pods", "world-node nodes->world",
}

// stand returns nil when verify says the given of the promises named, HELD of
// all others, and that the router is proven or not.
func stand(ctx context.Context, d *lab.Netclassd, proven bool, other map[string]string) error {
	var v verified
	exit, err := ctl(ctx, d, &v, "verify", "--all")
	if err != nil {
		return err
	}
	var wrong []string
	said, violated := v.states(), !v.Router.Proven
	for _, promise := range seedPromises {
		for _, f := range routing.Families {
			name := promise + " " + f.String()
			want := other[name]
			if want == "" {
				want = other[promise]
			}
			if want == "" {
				want = "HELD"
			}
			if said[name] != want {
				wrong = append(wrong, fmt.Sprintf("%s is %s, not %s", name, said[name], want))
			}
			violated = violated || said[name] == "VIOLATED"
		}
	}
	if len(said) != 2*len(seedPromises) {
		wrong = append(wrong, fmt.Sprintf("%d promises", len(said)))
	}
	if v.Router.Proven != proven {
		wrong = append(wrong, fmt.Sprintf("proven is %v: %s", v.Router.Proven, v.Router.Reason))
	}
	if (exit == 3) != violated {
		wrong = append(wrong, fmt.Sprintf("exit code %d", exit))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s\n%+v", strings.Join(wrong, "\n"), v)
	}
	return nil
}

// shown returns nil when the status, without being asked to look, shows the proof
// and the condition of a class or the router, or no such condition at all.
func shown(ctx context.Context, d *lab.Netclassd, proven bool, conditions ...string) error {
	var doc struct {
		Status struct {
			Router struct {
				Proven bool
				Reason string
			}
			Conditions []struct{ Object, Reason, Message string }
		}
	}
	exit, err := ctl(ctx, d, &doc, "status")
	if err != nil {
		return err
	}
	var found []string
	for _, c := range doc.Status.Conditions {
		if c.Reason == "PromiseViolated" || c.Object == "router" {
			if name := c.Object + " " + c.Reason; !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, conditions) || doc.Status.Router.Proven != proven || (exit == 3) != (len(conditions) > 0) {
		return fmt.Errorf("status: proven %v, conditions %v, exit %d; want %v, %v\n%+v", doc.Status.Router.Proven, found, exit, proven, conditions, doc)
	}
	return nil
}

// TestVerify holds the promises on the real kernel: converged, with links down,
// and while somebody breaks them.
func TestVerify(t *testing.T) {
	t.Parallel()
	c := start(t, lab.NetclassdOptions{})
	one, d := c.Node(1), c.daemons[0]
	e := readExpectation(t)
	c.within(convergence, "the expected state", func() error { return e.matches(t.Context(), one) })
	c.sessionsUp(convergence)
	check := func(limit time.Duration, what string, proven bool, other map[string]string) {
		t.Helper()
		c.within(limit, what, func() error { return stand(t.Context(), d, proven, other) })
	}
	check(convergence, "every promise held", true, nil)
	c.within(noticing, "shown as proven", func() error { return shown(t.Context(), d, true) })

	for _, b := range []struct {
		what       string
		add, del   []string
		other      map[string]string
		conditions []string
	}{
		{
			what: "pods sent to main",
			add:  []string{"-4 rule add priority 500 from 10.244.0.0/16 lookup main", "-6 rule add priority 500 from fd00:10:244::/48 lookup main"},
			del:  []string{"-4 rule del priority 500", "-6 rule del priority 500"},
			// Main has a guard, but no fence for what was never translated.
			other:      map[string]string{"pod-pod pods->pods": "VIOLATED", "world-pod pods->world": "VIOLATED"},
			conditions: []string{"class/pod-pod PromiseViolated", "class/world-pod PromiseViolated", "router Misrouted"},
		},
		{
			what:       "half a peer's pods sent to the router",
			add:        []string{"-4 route add 10.244.2.0/25 via 10.47.0.254 table 47", "-6 route add fd00:10:244:2::/80 via fd00:47::fe table 47"},
			del:        []string{"-4 route del 10.244.2.0/25 via 10.47.0.254 table 47", "-6 route del fd00:10:244:2::/80 via fd00:47::fe table 47"},
			other:      map[string]string{"pod-pod pods->pods": "VIOLATED"},
			conditions: []string{"class/pod-pod PromiseViolated", "router Misrouted"},
		},
		{
			what:       "an unused pod CIDR sent to the router in main",
			add:        []string{"-4 route add 10.244.128.0/17 via 10.40.0.254"},
			del:        []string{"-4 route del 10.244.128.0/17 via 10.40.0.254"},
			conditions: []string{"router Misrouted"},
		},
	} {
		for _, line := range b.add {
			c.ip(one, line)
		}
		check(noticing, b.what, false, b.other)
		took := c.within(noticing, b.what+": shown", func() error { return shown(t.Context(), d, false, b.conditions...) })
		t.Logf("%s: shown after %v more", b.what, took.Round(time.Millisecond))
		for _, line := range b.del {
			c.ip(one, line)
		}
		check(noticing, b.what+" no more", true, nil)
		c.within(noticing, b.what+" no more: shown", func() error { return shown(t.Context(), d, true) })
	}
	c.routerSawNothing()

	// What is down is shared or waits, and still never goes to the router.
	c.must(one.LinkDown(lab.PodNet))
	check(noticing, "pod0 down", true, map[string]string{"pod-pod pods->pods": "SHARED"})
	c.within(noticing, "pod0 down: shown", func() error { return proven(t.Context(), d) })
	c.must(one.LinkDown(lab.NodeNet))
	check(noticing, "node0 down too", true, map[string]string{
		"pod-pod pods->pods": "WAITING", "node-node nodes->nodes": "WAITING", "node-node nodes->pods": "WAITING",
	})
	c.within(noticing, "node0 down too: shown", func() error { return proven(t.Context(), d) })
	c.must(one.LinkDown(lab.Ingress))
	check(noticing, "ingress0 down too", true, map[string]string{
		"pod-pod pods->pods": "WAITING", "node-node nodes->nodes": "WAITING", "node-node nodes->pods": "WAITING",
		"world-pod pods->world": "SHARED", "world-pod loadBalancers->world": "SHARED",
	})
	c.must(errors.Join(one.LinkUp(lab.PodNet), one.LinkUp(lab.NodeNet), one.LinkUp(lab.Ingress)))
	check(convergence, "everything up again", true, nil)
	c.routerSawNothing()
}

// proven returns nil when the status shows the proof.
func proven(ctx context.Context, d *lab.Netclassd) error {
	out, err := d.Ctl(ctx, "status")
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return err
	}
	if !strings.Contains(out, "never carries cluster traffic: PROVEN") || strings.Contains(out, "PromiseViolated") {
		return errors.New(out)
	}
	return nil
}

// TestNoGuard wants the daemon to say that nothing is proven without a guard.
func TestNoGuard(t *testing.T) {
	t.Parallel()
	config, err := lab.SeedConfig()
	if err != nil {
		t.Fatal(err)
	}
	bare := strings.Replace(config, "guard: {networks: [pods, nodes]}\n", "", 1)
	if bare == config {
		t.Fatal("the seed has no guard to leave out")
	}
	c := start(t, lab.NetclassdOptions{Config: bare})
	c.within(noticing, "not proven", func() error {
		out, err := c.daemons[0].Ctl(t.Context(), "status")
		if err == nil && !strings.Contains(out, "NOT PROVEN (there is no guard for pods, nodes)") {
			err = errors.New(out)
		}
		return err
	})
}
