package plan_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/plan"
)

// expected reads the example cluster's golden file: what the kernel of k8s-1
// shows of ours in IPv4, as text without the table.
func expected(t *testing.T) (rules, table47, main []string) {
	t.Helper()
	b, err := os.ReadFile("../../examples/seed/expected-k8s-1.txt")
	if err != nil {
		t.Fatal(err)
	}
	into := &rules
	for line := range strings.Lines(string(b)) {
		switch {
		case strings.HasPrefix(line, "# ip -4 rule"):
			into = &rules
		case strings.HasPrefix(line, "# ip -4 route show table 47"):
			into = &table47
		case strings.HasPrefix(line, "# ip -4 route show table main"):
			into = &main
		case strings.HasPrefix(line, "# and the same for IPv6"):
			return rules, table47, main
		}
		line, _, _ = strings.Cut(line, "#")
		line = strings.ReplaceAll(line, "scope link ", "")
		if line = strings.TrimSpace(line); line != "" {
			*into = append(*into, line)
		}
	}
	t.Fatal("the golden file has no end")
	return nil, nil, nil
}

// inIPv6 turns the golden file's text into IPv6's: the example's addresses follow one
// scheme in both families.
func inIPv6(line string) string {
	for _, s := range [][2]string{
		{`\b10\.244\.0\.0/16`, "fd00:10:244::/48"},
		{`\b10\.96\.0\.0/16`, "fd00:10:96::/112"},
		{`\b10\.47\.64\.0/24`, "fd00:47:64::/112"},
		{`\b10\.244\.(\d)\.0/24`, "fd00:10:244:$1::/64"},
		{`\b10\.47\.0\.254`, "fd00:47::fe"},
		{`\b10\.(4\d)\.0\.0/24`, "fd00:$1::/64"},
		{`\b10\.(4\d)\.0\.(\d)`, "fd00:$1::$2"},
		{`^1001:`, "1000:"},
		{`^1003:`, "1002:"},
	} {
		line = regexp.MustCompile(s[0]).ReplaceAllString(line, s[1])
	}
	return line
}

func TestSeedIsTheGoldenFile(t *testing.T) {
	rules, table47, main := expected(t)
	w := seed()
	p := w.make()
	for _, f := range routing.Families {
		var gotRules, got47, gotMain []string
		for _, line := range text(p, f) {
			switch {
			case regexp.MustCompile(`^\d+: `).MatchString(line):
				gotRules = append(gotRules, line)
			case strings.Contains(line, " table 47"):
				got47 = append(got47, strings.Replace(line, " table 47", "", 1))
			default:
				gotMain = append(gotMain, line)
			}
		}
		vips := map[routing.Family]string{
			routing.IPv4: "32761: from all to 10.47.64.0/24 iif ingress0 unreachable",
			routing.IPv6: "32761: from all to fd00:47:64::/112 iif ingress0 unreachable",
		}
		same := func(what string, got, want []string) {
			want = slices.Clone(want)
			if f == routing.IPv6 {
				for i := range want {
					want[i] = inIPv6(want[i])
				}
			}
			if what == "rules" { // the golden file lists the seed's own
				want = append(want, vips[f])
			}
			slices.Sort(got)
			slices.Sort(want)
			wantText(t, f.String()+" "+what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		same("rules", gotRules, rules)
		same("table 47", got47, table47)
		same("main", gotMain, main)
	}
	if s := said(p); s != "" {
		t.Errorf("a healthy node has something to say:\n%s", s)
	}
	for _, r := range p.Routes {
		if r.Protocol != routing.ProtocolNetclass {
			t.Errorf("%s has protocol %d", r, r.Protocol)
		}
	}
}

func TestSeedClasses(t *testing.T) {
	p := seed().make()
	for name, want := range map[string]routing.Health{
		"ceph-replication": routing.Delegated,
		"pod-pod":          routing.Ready,
		"world-pod":        routing.Ready,
		"node-node":        routing.Ready,
		"world-node":       routing.Ready,
	} {
		if c := class(t, p, name); c.Health != want {
			t.Errorf("%s is %s (%s), want %s", name, c.Health, c.Reason, want)
		}
	}
	if c := class(t, p, "pod-pod"); c.Peers != 4 || c.Separated != 4 || c.Fallback != 0 {
		t.Errorf("pod-pod has %d peers' CIDRs, %d separated, %d on the fallback; want 4, 4, 0", c.Peers, c.Separated, c.Fallback)
	}
	if len(p.Tables) != 1 || p.Tables[0].Health != routing.Ready {
		t.Errorf("tables: %+v", p.Tables)
	}
	wantText(t, "rules of the table", strings.Join(p.Tables[0].RulesText, "\n"), `
		1001: from 10.244.0.0/16 lookup 47
		1000: from fd00:10:244::/48 lookup 47
		1003: from 10.47.64.0/24 lookup 47
		1002: from fd00:47:64::/112 lookup 47`)
}

// The first pass on an empty kernel: make before break, stage by stage.
func TestSeedOps(t *testing.T) {
	w := seed()
	ops := plan.Diff(w.make(), w.Kernel)
	var v4 []routing.Op
	for _, op := range ops {
		if op.Family() == routing.IPv4 {
			v4 = append(v4, op)
		}
	}
	wantText(t, "ops", opsText(v4), `
		guard: add route unreachable 10.46.0.0/24 metric 4294967295
		guard: add route unreachable 10.48.0.0/24 metric 4294967295
		guard: add route unreachable 10.244.0.0/16 metric 4294967295
		fence: add route unreachable 10.40.0.0/24 table 47 metric 4000
		fence: add route unreachable 10.46.0.0/24 table 47 metric 4000
		fence: add route unreachable 10.47.0.0/24 table 47 metric 4000
		fence: add route unreachable 10.47.64.0/24 table 47 metric 4000
		fence: add route unreachable 10.48.0.0/24 table 47 metric 4000
		fence: add route unreachable 10.96.0.0/16 table 47 metric 4000
		fence: add route unreachable 10.244.0.0/16 table 47 metric 4000
		connected and own: add route 10.40.0.0/24 dev mgmt0 table 47 metric 10
		connected and own: add route 10.46.0.0/24 dev node0 table 47 metric 10
		connected and own: add route 10.47.0.0/24 dev ingress0 table 47 metric 10
		connected and own: add route 10.48.0.0/24 dev pod0 table 47 metric 10
		connected and own: add route 10.244.1.0/24 dev cilium_host table 47 metric 10
		peers: add route 10.244.2.0/24 via 10.48.0.2 dev pod0 table 47 metric 10
		peers: add route 10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 2000
		peers: add route 10.244.3.0/24 via 10.48.0.3 dev pod0 table 47 metric 10
		peers: add route 10.244.3.0/24 via 10.46.0.3 dev node0 table 47 metric 2000
		default: add route default via 10.47.0.254 dev ingress0 table 47 metric 10
		rules: add rule 1001: from 10.244.0.0/16 lookup 47
		rules: add rule 1003: from 10.47.64.0/24 lookup 47
		rules: add rule 32761: from all to 10.47.64.0/24 iif ingress0 unreachable`)
}

func TestFlushIsTheReverse(t *testing.T) {
	w := seed()
	before := w.Kernel
	p := w.settle()
	k := w.Kernel
	ops := plan.Flush(p.Own, k)
	var stages []string
	for _, op := range ops {
		if s := op.Stage.String(); len(stages) == 0 || stages[len(stages)-1] != s {
			stages = append(stages, s)
		}
		k = applied(k, op)
	}
	wantText(t, "stages", strings.Join(stages, "\n"), `
		drop rules
		drop default
		drop fence
		drop peers
		drop connected and own
		drop guard`)
	if !slices.Equal(k.Routes, before.Routes) || !slices.Equal(k.Rules, before.Rules) {
		t.Error("the kernel is not as it was before")
	}
}

func TestSteadyStateHasNoOps(t *testing.T) {
	w := seed()
	w.settle()
	for i := range w.Kernel.Routes { // flags of the kernel's own are no difference
		w.Kernel.Routes[i].LinkDown = true
	}
	if ops := plan.Diff(w.make(), w.Kernel); len(ops) != 0 {
		t.Errorf("a second pass writes:\n%s", opsText(ops))
	}
}
