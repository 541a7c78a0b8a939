package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"netclass.dev/routing"
)

// checked is what `check` prints of a configuration and a nodes file beside it.
func checked(t *testing.T, config, nodes string, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	for name, text := range map[string]string{"config.yaml": config, "nodes.yaml": nodes} {
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := checkCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{file}, args...))
	err := cmd.Execute()
	return strings.ReplaceAll(out.String(), dir+"/", ""), err
}

func TestCheckSaysWhatIsNotBuilt(t *testing.T) {
	out, err := checked(t, "apiVersion: netclass.dev/v1alpha1\ndrain: {followCordon: true}\n", "")
	want := "config.yaml: valid, but this build of netclassd refuses to run it: 1 feature is not built\n"
	if err != nil || !strings.HasSuffix(out, want) {
		t.Errorf("%v, got\n%s", err, out)
	}
}

func TestLeftover(t *testing.T) {
	k := &routing.Kernel{
		Rules: []routing.Rule{
			{Priority: 0, Protocol: routing.ProtocolKernel}, {Priority: 1001, Protocol: routing.ProtocolNetclass},
			{Priority: 1003, Protocol: 150}, {Priority: 1003, Protocol: 151},
		},
		Routes: []routing.Route{{Table: 254, Protocol: routing.ProtocolBoot}},
	}
	if got, want := leftover(routing.Ownership{Protocols: []routing.Protocol{150}}, k), "2 rules at priorities 1001, 1003 of netclassd's protocol number"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	k.Routes = append(k.Routes, routing.Route{Table: 47, Protocol: routing.ProtocolNetclass}, routing.Route{Table: 47, Protocol: routing.ProtocolNetclass})
	if got, want := leftover(routing.Ownership{}, k), "1 rule at priority 1001 and 2 routes in table 47 of netclassd's protocol number"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := leftover(routing.Ownership{}, &routing.Kernel{}); got != "" {
		t.Errorf("got %q of nothing", got)
	}
}
