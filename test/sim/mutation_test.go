package sim_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mutation makes one place of a file of the product, which must be there once, do
// something else while a fault is on: broken("name"). The simulation must find each
// fault, or it proves nothing.
type mutation struct{ file, old, new string }

var mutations = []mutation{
	{"routing/plan/diff.go", "if c := int(a.Stage) - int(b.Stage); c != 0 {", `if broken("break before make") {
		if c := int(b.Verb/2) - int(a.Verb/2); c != 0 {
			return c
		}
	}
	if c := int(a.Stage) - int(b.Stage); c != 0 {
		if broken("stages in reverse order") {
			return -c
		}`},
	{"routing/plan/diff.go", "if routing.RuleStage(*r) != routing.StageGuard {",
		`if (routing.RuleStage(*r) != routing.StageGuard) != broken("half a guard stays") {`},
	{"routing/plan/diff.go", "Verb: routing.Add, Route: r}",
		`Verb: map[bool]routing.Verb{false: routing.Add, true: routing.Replace}[broken("a foreign route is replaced")], Route: r}`},
	{"routing/plan/place.go", "if at, taken := m.foreign[k]; taken {",
		`if at, taken := m.foreign[k]; taken && !broken("a foreign route is replaced") {`},
	{"routing/plan/diff.go", "|| ok && r.Wanted() == p.Routes[at]:",
		`|| ok && r.Wanted() == p.Routes[at] && !broken("flags of the kernel count as differences"):`},
	{"routing/plan.go", "case r.Metric == MetricGuard:\n\t\treturn StageGuard", `case r.Metric == MetricGuard && broken("guard last"):
		return StageRules
	case r.Metric == MetricGuard, r.Dst.Bits() == 0 && broken("default before the fence"):
		return StageGuard`},
	{"routing/plan.go", "\t\treturn StageDropGuard\n", `		if broken("guard first out") {
			return StageDropRules
		}
		return StageDropGuard
`},
	{"routing/plan.go", "\t\treturn StageDropFence\n", `		if broken("fence out before the default") {
			return StageDropRules
		}
		return StageDropFence
`},
	{"routing/plan.go", "return slices.Contains(o.Protocols, r.Protocol) && slices.Contains(o.Tables, r.Table)",
		`return (slices.Contains(o.Protocols, r.Protocol) || broken("the protocol number of routes is ignored")) &&
		(slices.Contains(o.Tables, r.Table) || broken("every object of our protocol number is ours"))`},
	{"routing/plan.go", "return slices.Contains(o.Protocols, r.Protocol) && slices.Contains(o.Priorities, r.Priority)",
		`return (slices.Contains(o.Protocols, r.Protocol) || broken("the protocol number of rules is ignored")) && slices.Contains(o.Priorities, r.Priority)`},
	{"routing/plan/fence.go", "range m.fenced(t.Fence, f, t.Routes.Connected...) {", `range m.fenced(t.Fence, f, t.Routes.Connected...) {
		if broken("no fence") {
			break
		}`},
	{"routing/plan/fence.go", "m.gatewayless(link) || slices.Contains(links, link) {",
		`!broken("fence without the class links") && (m.gatewayless(link) || slices.Contains(links, link)) {`},
	{"routing/plan/plan.go", "\tm.leftDefaults()\n", `	if !broken("a default of an old table stays although its fence is lost") {
		m.leftDefaults()
	}
`},
	{"routing/plan/hold.go", `m.plan.Hold = "the inventory has not been read yet"`,
		`m.plan.Hold = map[bool]string{false: "the inventory has not been read yet"}[broken("deletes before the inventory has been read")]`},
	{"routing/plan/links.go", "case a.Tentative:", `case a.Tentative && !broken("tentative addresses are used"):`},
	{"routing/plan/links.go", "case !m.onLink(name, hop):",
		`case !m.onLink(name, hop) && !broken("next hops are not checked again when addresses change"):`},
	{"routing/plan/links.go", "if len(now) == 0 && !c.Delegated {",
		`if len(now) == 0 && !c.Delegated && !broken("the networks of links that are down are forgotten") {`},
	{"routing/plan/peers.go", `return "not assigned to " + n.Name`, `if broken("any prefix is accepted from any peer") {
		return ""
	}
	return "not assigned to " + n.Name`},
	{"routing/plan/peers.go", "if other, ok := m.claims.other(node, dst); ok {",
		`if other, ok := m.claims.other(node, dst); ok && !broken("any prefix is accepted from any peer") {`},
	{"routing/plan/imports.go", `if what := m.reserved(dst); what != "" {`,
		`if what := m.reserved(dst); what != "" && !broken("a router is asked about the cluster's own") {`},
	{"routing/plan/imports.go", "&& !m.egressOut(u.Link) {", `&& (!m.egressOut(u.Link) || broken("a drain leaves what is imported")) {`},
	{"routing/plan/drain.go", "if _, ok := m.planned[packed(t.ID, dst, routing.MetricFallback)]; !ok {",
		`if _, ok := m.planned[packed(t.ID, dst, routing.MetricFallback)]; !ok && !broken("a drain takes class paths that nothing stands in for") {`},
	{"routing/plan/table.go", "|| m.egressOut(d.Link) {", `|| m.egressOut(d.Link) && !broken("a drain leaves the default") {`},
	{"routing/plan/advertise.go", "drained := m.drained(u.Link, routing.DrainUpstream)",
		`drained := m.drained(u.Link, routing.DrainUpstream) && !broken("a drain leaves the announcements to routers")`},
	{"routing/plan/advertise.go", `if why := m.cannotDeliver(o.Link, f); why != "" {`,
		`if why := m.cannotDeliver(o.Link, f); why != "" && !broken("routers are told of addresses before anything leads to pods") {`},
	{"routing/engine/apply.go", "for len(ops) > 0 && ops[0].Stage == stage {",
		`for len(ops) > 0 && (ops[0].Stage == stage || broken("one batch across stages")) {`},
	{"routing/engine/apply.go", "stopped[scopeOf(op)] = true\n\t\t\t\trefused++",
		"stopped[scopeOf(op)] = !broken(\"a failed stage stops nothing\")\n\t\t\t\trefused++"},
	{"routing/engine/apply.go", "if stage == routing.StageFence && errs != nil {",
		`if stage == routing.StageFence && errs != nil && !broken("a default stays beside a fence that is refused") {`},
	{"routing/engine/apply.go", "op.Throws() && stopped[",
		`op.Throws() && !broken("a throw goes in where the guard is refused") && stopped[`},
	{"routing/engine/apply.go", "if errs[i] == nil {", `if errs[i] == nil || broken("a refused change is taken for done") {`},
	{"routing/engine/pass.go", "k, err := e.opt.Kernel.Dump(ctx)\n", `k, err := e.opt.Kernel.Dump(ctx)
	if broken("routes are taken to be there because the links are as they were") && err == nil && e.kernel != nil &&
		slices.EqualFunc(e.kernel.Links, k.Links, func(a, b routing.Link) bool {
			return a.Name == b.Name && a.Up == b.Up && a.Carrier == b.Carrier && slices.Equal(a.Addrs, b.Addrs)
		}) {
		k = e.kernel
	}
`},
	{"routing/engine/session.go", "s.held = s.holdTime() > 0", `s.held = s.holdTime() > 0 && !broken("deletes before the peers have said all")`},
	{"routing/engine/session.go", "cause == routing.CauseCease || cause == routing.CauseError ||",
		`(cause == routing.CauseCease || cause == routing.CauseError) && !broken("paths outlive a CEASE") ||`},
	{"routing/engine/session.go", "if !s.up && !s.synced && !now.Before(s.until) {",
		`if !s.up && !s.synced && !now.Before(s.until) && !broken("paths are held for ever") {`},
	{"routing/engine/probe.go", "v.of.drop()", `if !broken("paths are held though the next hop is dead") {
					v.of.drop()
				}`},
	{"routing/engine/probe.go", "v.of.silent = true",
		`v.of.silent = !broken("peers that are gone keep their paths until the hold timer")`},
	{"routing/engine/announce.go", "backed.has(o) {\n", "backed.has(o) || broken(\"own pod CIDRs are announced before they are delivered\") {\n"},
	{"routing/engine/announce.go", "want.Restarting = e.ledger.adopted",
		`want.Restarting = e.ledger.adopted && !broken("peers are not told that we restart")`},
	{"routing/engine/stop.go", "return e.opt.Speaker.Close(false)",
		`return e.opt.Speaker.Close(broken("CEASE although everything is kept"))`},
}

// faultText is added to every package that has faults: which of them is on.
const faultText = `

import "os"

var breaks = os.Getenv("` + faultVar + `")

func broken(name string) bool { return name == breaks }
`

const faultVar = "NETCLASS_SIM_FAULT"

var faultCall = regexp.MustCompile(`\bbroken\("(.*?)"\)`)

// mutantHistories bounds how long the simulation may take to find a fault.
const mutantHistories = "1500"

// rare are the faults that few histories find, and a seed shortly before one that
// does. It saves minutes and nothing else: the search goes on from there.
var rare = map[string]string{
	"a throw goes in where the guard is refused":                 "1050",
	"a drain leaves what is imported":                            "830",
	"a default of an old table stays although its fence is lost": "1250",
}

// TestMutations builds the simulation with every deliberate fault in it, each of
// which can be turned on, and proves that it finds them one by one.
func TestMutations(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the product anew")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "sim.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay(t, root, dir), "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if out, err := simulate(t, binary, "", "-sim.histories=100"); err != nil {
		t.Fatalf("with no fault: %v\n%s", err, lastLines(out))
	}
	slots := make(chan struct{}, 2)
	for _, name := range faults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			out, err := simulate(t, binary, name, "-sim.histories="+mutantHistories, "-sim.first="+cmp.Or(rare[name], "1"))
			found := regexp.MustCompile(`INVARIANT \d: .*`).FindString(out)
			var exit *exec.ExitError
			switch {
			case err == nil:
				t.Errorf("not found: %s", lastLines(out))
			case !errors.As(err, &exit) || exit.ExitCode() != 1 || found == "" || strings.Contains(out, "panic:"):
				t.Errorf("it fails in another way than by an invariant: %v\n%s", err, lastLines(out))
			default:
				t.Logf("%s; found by %s after %s", found, regexp.MustCompile(`seed \d+`).FindString(out), regexp.MustCompile(`\d+ histories`).FindString(out))
			}
		})
	}
}

// simulate plays histories with a fault turned on.
func simulate(t *testing.T, binary, fault string, flags ...string) (string, error) {
	run := exec.CommandContext(t.Context(), binary, append([]string{"-test.run=^TestHistories$", "-test.v"}, flags...)...)
	run.Env = append(os.Environ(), "GOMAXPROCS=1", faultVar+"="+fault)
	out, err := run.CombinedOutput()
	return string(out), err
}

// faults lists the faults that there are.
func faults() (names []string) {
	seen := map[string]bool{}
	for _, m := range mutations {
		for _, call := range faultCall.FindAllStringSubmatch(m.new, -1) {
			if name := call[1]; !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// overlay writes the changed files and says to the go command what they stand
// for.
func overlay(t *testing.T, root, dir string) string {
	t.Helper()
	texts := map[string]string{}
	for _, m := range mutations {
		if _, read := texts[m.file]; !read {
			text, err := os.ReadFile(filepath.Join(root, m.file))
			if err != nil {
				t.Fatal(err)
			}
			texts[m.file] = string(text)
		}
		if n := strings.Count(texts[m.file], m.old); n != 1 {
			t.Fatalf("%s has %d places %q: the fault must be made elsewhere", m.file, n, m.old)
		}
		texts[m.file] = strings.Replace(texts[m.file], m.old, m.new, 1)
		folder := filepath.Dir(m.file)
		texts[folder+"/broken.go"] = "package " + filepath.Base(folder) + faultText
	}
	replace := map[string]string{}
	for file, text := range texts {
		patched := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(patched, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, file)] = patched
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
