package sim_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// edit replaces one place of a file of the product, which must be there once.
type edit struct{ file, old, new string }

// mutation is a deliberate fault in the product. The simulation must find it, or
// it proves nothing.
type mutation struct {
	name  string
	edits []edit
}

var mutations = []mutation{
	{"stages in reverse order", []edit{{"routing/plan/diff.go",
		"int(a.Stage) - int(b.Stage); c != 0", "int(b.Stage) - int(a.Stage); c != 0"}}},
	{"break before make", []edit{{"routing/plan/diff.go",
		"if c := int(a.Stage) - int(b.Stage); c != 0 {", "if c := cmp.Or(int(b.Verb/2)-int(a.Verb/2), int(a.Stage)-int(b.Stage)); c != 0 {"}}},
	{"guard last", []edit{{"routing/plan.go",
		"case r.Metric == MetricGuard:\n\t\treturn StageGuard", "case r.Metric == MetricGuard:\n\t\treturn StageRules"}}},
	{"guard first out", []edit{{"routing/plan.go",
		"return StageDropGuard\n", "return StageDropRules\n"}}},
	{"no fence", []edit{{"routing/plan/fence.go",
		"range m.fenced(t.Fence, f, t.Routes.Connected...) {", "range m.fenced(t.Fence, f, t.Routes.Connected...)[:0] {"}}},
	{"fence without the class links", []edit{{"routing/plan/fence.go",
		"if link := m.cfg.Classes[i].Link; m.gatewayless(link) || slices.Contains(links, link) {", "if link := m.cfg.Classes[i].Link; false && m.gatewayless(link) {"}}},
	{"default before the fence", []edit{{"routing/plan.go",
		"case r.Dst.Bits() == 0:\n\t\treturn StageDefault", "case r.Dst.Bits() == 0:\n\t\treturn StageGuard"}}},
	{"fence out before the default", []edit{{"routing/plan.go",
		"return StageDropFence\n", "return StageDropRules\n"}}},
	{"one batch across stages", []edit{{"routing/engine/apply.go",
		"for len(ops) > 0 && ops[0].Stage == stage {", "for len(ops) > 0 && (ops[0].Stage == stage || true) {"}}},
	{"a failed stage stops nothing", []edit{{"routing/engine/apply.go",
		"stopped[scopeOf(op)] = true\n\t\t\t\trefused++", "stopped[scopeOf(op)] = false\n\t\t\t\trefused++"}}},
	{"a default stays beside a fence that is refused", []edit{{"routing/engine/apply.go",
		"if stage == routing.StageFence && errs != nil {", "if stage == routing.StageFence && errs == nil {"}}},
	{"a throw goes in where the guard is refused", []edit{{"routing/engine/apply.go",
		"op.Throws() && stopped[", "op.Verb > routing.Delete && stopped["}}},
	{"a default of an old table stays although its fence is lost", []edit{{"routing/plan/plan.go",
		"\tm.leftDefaults()\n", ""}}},
	{"half a guard stays", []edit{{"routing/plan/diff.go",
		"if routing.RuleStage(*r) != routing.StageGuard {", "if routing.RuleStage(*r) == routing.StageGuard {"}}},
	{"deletes before the inventory has been read", []edit{{"routing/plan/hold.go",
		`m.plan.Hold = "the inventory has not been read yet"`, `m.plan.Hold = ""`}}},
	{"deletes before the peers have said all", []edit{{"routing/engine/session.go",
		"s.held = s.holdTime() > 0", "s.held = false"}}},
	{"the protocol number of routes is ignored", []edit{{"routing/plan.go",
		"return slices.Contains(o.Protocols, r.Protocol) && slices.Contains(o.Tables, r.Table)", "return slices.Contains(o.Tables, r.Table)"}}},
	{"the protocol number of rules is ignored", []edit{{"routing/plan.go",
		"return slices.Contains(o.Protocols, r.Protocol) && slices.Contains(o.Priorities, r.Priority)", "return slices.Contains(o.Priorities, r.Priority)"}}},
	{"every object of our protocol number is ours", []edit{{"routing/plan.go",
		"return slices.Contains(o.Protocols, r.Protocol) && slices.Contains(o.Tables, r.Table)", "return slices.Contains(o.Protocols, r.Protocol)"}}},
	{"a foreign route is replaced", []edit{
		{"routing/plan/place.go", "if at, taken := m.foreign[k]; taken {", "if at, taken := m.foreign[k]; taken && at < 0 {"},
		{"routing/plan/diff.go", "Verb: routing.Add, Route: r}", "Verb: routing.Replace, Route: r}"}}},
	{"routes are taken to be there because the links are as they were", []edit{{"routing/engine/pass.go",
		"k, err := e.opt.Kernel.Dump(ctx)\n", `k, err := e.opt.Kernel.Dump(ctx)
	if err == nil && e.kernel != nil && slices.EqualFunc(e.kernel.Links, k.Links, func(a, b routing.Link) bool {
		return a.Name == b.Name && a.Up == b.Up && a.Carrier == b.Carrier && slices.Equal(a.Addrs, b.Addrs)
	}) {
		k = e.kernel
	}
`}}},
	{"tentative addresses are used", []edit{{"routing/plan/links.go",
		"case a.Tentative:", "case a.Tentative && a.DADFailed:"}}},
	{"next hops are not checked again when addresses change", []edit{{"routing/plan/links.go",
		"case !m.onLink(name, hop):", "case !m.onLink(name, hop) && m.links[name] == nil:"}}},
	{"the networks of links that are down are forgotten", []edit{{"routing/plan/links.go",
		"if len(now) == 0 && !c.Delegated {", "if len(now) == 0 && c.Delegated {"}}},
	{"paths outlive a CEASE", []edit{{"routing/engine/session.go",
		"if silent || cause == routing.CauseCease || cause == routing.CauseError || hold <= 0 {", "if silent || hold <= 0 {"}}},
	{"paths are held for ever", []edit{{"routing/engine/session.go",
		"if !s.up && !s.synced && !now.Before(s.until) {", "if !s.up && !s.synced && now.IsZero() {"}}},
	{"paths are held though the next hop is dead", []edit{{"routing/engine/probe.go",
		"v.of.drop()", "_ = v.of.held"}}},
	{"peers that are gone keep their paths until the hold timer", []edit{{"routing/engine/probe.go",
		"v.of.silent = true", "v.of.silent = false"}}},
	{"any prefix is accepted from any peer", []edit{{"routing/plan/peers.go",
		`return "not assigned to " + n.Name`, `return ""`},
		{"routing/plan/peers.go", "if other, ok := m.claims.other(node, dst); ok {", "if other, ok := m.claims.other(node, dst); ok && other < 0 {"}}},
	{"own pod CIDRs are announced before they are delivered", []edit{{"routing/engine/announce.go",
		"backed.has(o) {\n", "backed.has(o) || true {\n"}}},
	{"peers are not told that we restart", []edit{{"routing/engine/announce.go",
		"want.Restarting = e.ledger.adopted", "want.Restarting = false"}}},
	{"CEASE although everything is kept", []edit{{"routing/engine/stop.go",
		"return e.opt.Speaker.Close(false)", "return e.opt.Speaker.Close(true)"}}},
	{"flags of the kernel count as differences", []edit{{"routing/plan/diff.go",
		"case ok && *r == p.Routes[at] || ok && r.Wanted() == p.Routes[at]:", "case ok && *r == p.Routes[at]:"}}},
	{"a router is asked about the cluster's own", []edit{{"routing/plan/imports.go",
		`if what := m.reserved(dst); what != "" {`, `if what := m.reserved(dst); what == "?" {`}}},
	{"a drain takes class paths that nothing stands in for", []edit{{"routing/plan/drain.go",
		"if _, ok := m.planned[packed(t.ID, dst, routing.MetricFallback)]; !ok {", "if _, ok := m.planned[packed(t.ID, dst, routing.MetricFallback)]; !ok && dst.Bits() < 0 {"}}},
	{"a drain leaves the default", []edit{{"routing/plan/table.go",
		"|| m.egressOut(d.Link) {", "{"}}},
	{"a drain leaves what is imported", []edit{{"routing/plan/imports.go",
		"&& !m.egressOut(u.Link) {", "{"}}},
	{"a drain leaves the announcements to routers", []edit{{"routing/plan/advertise.go",
		`shut, unknown = "this node is drained", false`, `shut = ""`}}},
	{"routers are told of addresses before anything leads to pods", []edit{{"routing/plan/advertise.go",
		`if why := m.cannotDeliver(o.Link, f); why != "" {`, `if why := m.cannotDeliver(o.Link, f); why == "?" {`}}},
	{"a refused change is taken for done", []edit{{"routing/engine/apply.go",
		"if errs[i] == nil {", "if errs[i] == nil || true {"}}},
}

// mutantHistories bounds how long the simulation may take to find a mutation.
const mutantHistories = "1500"

// TestMutations builds the simulation with each deliberate fault and proves that
// it finds it.
func TestMutations(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the product once for each fault")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	slots := make(chan struct{}, 2)
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			dir := t.TempDir()
			binary := filepath.Join(dir, "sim.test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-p", "1", "-overlay", overlay(t, root, dir, m), "-o", binary, ".")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, out)
			}
			run := exec.CommandContext(t.Context(), binary, "-test.run=^TestHistories$", "-test.v", "-sim.histories="+mutantHistories)
			run.Env = append(os.Environ(), "GOMAXPROCS=1")
			out, err := run.CombinedOutput()
			found := regexp.MustCompile(`INVARIANT \d: .*`).FindString(string(out))
			var exit *exec.ExitError
			switch {
			case err == nil:
				t.Errorf("not found: %s", lastLines(string(out)))
			case !errors.As(err, &exit) || exit.ExitCode() != 1 || found == "" || strings.Contains(string(out), "panic:"):
				t.Errorf("it fails in another way than by an invariant: %v\n%s", err, lastLines(string(out)))
			default:
				t.Logf("%s; found after %s", found, regexp.MustCompile(`\d+ histories`).FindString(string(out)))
			}
		})
	}
}

// overlay writes the changed files and says to the go command what they stand
// for.
func overlay(t *testing.T, root, dir string, m mutation) string {
	t.Helper()
	texts := map[string]string{}
	for _, e := range m.edits {
		file := filepath.Join(root, e.file)
		if _, read := texts[file]; !read {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = string(text)
		}
		if n := strings.Count(texts[file], e.old); n != 1 {
			t.Fatalf("%s has %d places %q: the fault must be made elsewhere", e.file, n, e.old)
		}
		texts[file] = strings.Replace(texts[file], e.old, e.new, 1)
	}
	replace := map[string]string{}
	for file, text := range texts {
		patched := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(patched, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[file] = patched
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
