package commands

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// say runs a command line, with commands that do nothing, and returns what it prints.
func say(t *testing.T, act Actions, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := New(act)
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		t.Errorf("netclassd %s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// TestHelpIsOfTheCommand: a command shows the flags that it needs, and no shell that
// Linux does not have is offered.
func TestHelpIsOfTheCommand(t *testing.T) {
	for _, command := range []string{"version", "speaker", "completion"} {
		if out := say(t, Actions{}, command, "--help"); strings.Contains(out, "--config") || strings.Contains(out, "--state-dir") {
			t.Errorf("netclassd %s --help:\n%s", command, out)
		}
	}
	if out := say(t, Actions{}, "completion", "--help"); strings.Contains(strings.ToLower(out), "powershell") || !strings.Contains(out, "bash") {
		t.Errorf("completion:\n%s", out)
	}
}

// TestFlagsAnywhere: the flags of a command may stand before its name too.
func TestFlagsAnywhere(t *testing.T) {
	var got []string
	act := Actions{
		Check: func(_ *cobra.Command, f Flags, file string) error { got = append(got, file+" "+f.Node); return nil },
		Flush: func(_ *cobra.Command, f Flags) error { got = append(got, f.StateDir); return nil },
	}
	say(t, act, "--config", "a.yaml", "check", "--node", "k8s-1")
	say(t, act, "check", "--config", "a.yaml", "--node=k8s-1")
	say(t, act, "--state-dir", "/x", "flush")
	if want := "a.yaml k8s-1;a.yaml k8s-1;/x"; strings.Join(got, ";") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFilesWhereFilesAreMeant: the shell offers files for these and nothing else.
func TestFilesWhereFilesAreMeant(t *testing.T) {
	for line, want := range map[string]string{
		"adopt --protocol": ":4", "adopt --table": ":4", "adopt": ":4", "flush": ":4", "version": ":4", "--node": ":4",
		"check": ":0", "--socket": ":0", "flush --socket": ":0", "--config": ":8", "--state-dir": ":16",
	} {
		out := say(t, Actions{}, append(append([]string{"__complete"}, strings.Fields(line)...), "")...)
		if !strings.Contains(out, want+"\n") {
			t.Errorf("%s: %q, want %s", line, out, want)
		}
	}
}
