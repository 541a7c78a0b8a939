package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"netclass.dev/client/cli"
	"netclass.dev/routing"
	"netclass.dev/server/servertest"
	"netclass.dev/test/need"
)

// The JSON that netclassctl prints is what grpcurl prints with its defaults.
func TestSameAsGrpcurl(t *testing.T) {
	program := os.Getenv("NETCLASS_GRPCURL")
	if program == "" {
		program = "grpcurl"
	}
	program = need.Program(t, program)
	socket := servertest.Start(t, servertest.NewSource(servertest.Faulty()))
	for _, c := range []struct{ command, method, request string }{
		{"status", "GetStatus", "{}"},
		{"classes", "ListClasses", "{}"},
		{"classes pod-pod", "GetClass", `{"name": "pod-pod"}`},
		{"table", "ListTables", "{}"},
		{"table pods", "ShowTable", `{"table": "pods"}`},
		{"rules -6", "ListRules", `{"family": "FAMILY_IPV6"}`},
		{"peers", "ListPeers", "{}"},
		{"peers k8s-2", "ListPeers", `{"peer": "k8s-2", "view": "PEER_VIEW_FULL"}`},
		{"nodes", "ListNodes", "{}"},
		{"plan", "GetPlan", "{}"},
	} {
		want, err := exec.Command(program, "-unix", "-plaintext", "-emit-defaults", "-d", c.request, socket, "netclass.v1.NetClassService/"+c.method).CombinedOutput()
		if err != nil {
			t.Fatalf("grpcurl %s: %v: %s", c.method, err, want)
		}
		got, errs, _ := run(0, append([]string{"--socket", socket, "-o", "json"}, strings.Fields(c.command)...)...)
		if got != string(want) {
			t.Errorf("%s (stderr %q) differs from grpcurl:\n%s", c.command, errs, cmp.Diff(string(want), got))
		}
	}
	list, err := exec.Command(program, "-unix", "-plaintext", socket, "list").CombinedOutput()
	if err != nil || !strings.Contains(string(list), "netclass.v1.NetClassService") {
		t.Errorf("grpcurl list: %v: %s", err, list)
	}
}

// What -o yaml prints says the same as -o json.
func TestYAMLSaysWhatJSONSays(t *testing.T) {
	t.Parallel()
	st := servertest.Faulty()
	for _, name := range []string{"true", "null", "~", "- x", "a: b", "#c", " lead", "trail ", "1e3", "0x10", "1:30", "", "é", "a\nb", "\"q\"", "a'b", "no", "-", "?", "{}", "2026-03-01", ".5", "a #b", "a:"} {
		st.Conditions = append(st.Conditions, routing.Condition{Object: name, Reason: "R", Message: name})
	}
	socket := servertest.Start(t, servertest.NewSource(st))
	for _, command := range []string{"status", "classes", "table", "table pods", "rules", "peers k8s-2", "nodes", "plan", "version", "reload"} {
		args := append([]string{"--socket", socket}, strings.Fields(command)...)
		asJSON, _, _ := run(0, append(args, "-o", "json")...)
		asYAML, _, _ := run(0, append(args, "-o", "yaml")...)
		var want, got any
		if err := json.Unmarshal([]byte(asJSON), &want); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if err := yaml.Unmarshal([]byte(asYAML), &got); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, asYAML)
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(again, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-json +yaml):\n%s", command, diff)
		}
	}
}

// Texts from peers and files cannot move the cursor or add lines.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	st := servertest.Faulty()
	evil := "\x1b]0;owned\x07\x1b[2J\r\nroot# \u202e\u2028\u009b31m"
	st.Peers[0].Session.Detail, st.Peers[0].Reason = evil, evil
	st.Peers[0].Refused[0].Reason = evil
	st.Conditions[0].Message, st.Conditions[0].Object = evil, evil
	st.Plan.Classes[0].Reason, st.Plan.Tables[0].Reason = evil, evil
	st.Plan.Hold, st.Config.Error, st.Inventory.Source, st.Speaker.LastExit, st.Node = evil, evil, evil, evil, evil
	st.Pending[0].Route.Link = evil
	st.Kernel.Rules[0].Extra = evil
	drain := routing.DrainStatus{Request: routing.DrainRequest{Node: evil, Reason: evil, By: evil}, Lock: evil}
	drain.Progress = routing.DrainProgress{
		Phase: routing.DrainGoing, Message: evil, Error: evil, Costs: []string{evil}, Rates: []routing.LinkRate{{Link: evil, Received: math.Inf(1), Sent: math.NaN()}},
	}
	st.Drain, st.Plan.Drained = &drain, []string{evil}
	source := servertest.NewSource(st)
	source.OnDrain = func(_ context.Context, req routing.DrainRequest, _ bool, report func(routing.DrainStatus) error) error {
		_ = report(drain)
		if req.Force {
			return errors.New(evil)
		}
		return &routing.Refused{Reasons: []string{evil}}
	}
	source.OnReload = func(context.Context, bool) ([]routing.Problem, error) {
		return nil, &routing.Invalid{Problems: []routing.Problem{{File: evil, Message: evil}}}
	}
	socket := servertest.Start(t, source)
	for _, command := range []string{"status", "classes", "classes ceph-replication", "table", "table pods", "rules", "peers", "peers k8s-2", "nodes", "plan", "version", "reload", "drain", "drain --force", "classes " + "\x1b[2J"} {
		for _, format := range []string{"table", "wide", "json", "yaml"} {
			out, errs, _ := run(0, append([]string{"--socket", socket, "-o", format}, strings.Fields(command)...)...)
			if i := strings.IndexAny(out+errs, "\x1b\x07\r\u009b\u202e\u2028"); i >= 0 {
				t.Errorf("%s -o %s lets %q through", command, format, (out + errs)[i:i+3])
			}
			if strings.Contains(out+errs, "\nroot#") {
				t.Errorf("%s -o %s adds a line", command, format)
			}
		}
	}
}

func TestColourOnlyOnATerminal(t *testing.T) {
	t.Parallel()
	socket := servertest.Start(t, servertest.NewSource(servertest.Faulty()))
	for _, c := range []struct {
		width  int
		env    map[string]string
		colour bool
	}{{0, nil, false}, {80, nil, true}, {80, map[string]string{"NO_COLOR": "1"}, false}, {80, map[string]string{"TERM": "dumb"}, false}} {
		var out bytes.Buffer
		cli.Main([]string{"--socket", socket, "peers"}, cli.Env{Out: &out, Err: io.Discard, Width: c.width, Now: time.Now, Getenv: func(n string) string { return c.env[n] }})
		if got := strings.Contains(out.String(), "\x1b["); got != c.colour {
			t.Errorf("width %d, %v: coloured %v", c.width, c.env, got)
		}
	}
}

func TestLargeTable(t *testing.T) {
	t.Parallel()
	socket := servertest.Start(t, servertest.NewSource(servertest.Large(50000)))
	begin := time.Now()
	out, errs, code := run(0, "--socket", socket, "table", "pods", "--no-headers", "--timeout", "30s")
	if n := strings.Count(out, "\n"); code != 0 || n != 50034 {
		t.Errorf("exit %d, %d lines, %s", code, n, errs)
	}
	t.Logf("50,034 routes in %v", time.Since(begin))
}
