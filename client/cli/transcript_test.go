package cli_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"netclass.dev/client/cli"
	"netclass.dev/routing"
	"netclass.dev/server/servertest"
)

var update = flag.Bool("update", false, "write what the commands print into testdata")

// run runs netclassctl at no terminal, or at one of that width.
func run(width int, args ...string) (out, errs string, code int) {
	var stdout, stderr bytes.Buffer
	code = cli.Main(args, cli.Env{
		Out: &stdout, Err: &stderr, Width: width,
		Now:    func() time.Time { return servertest.Now },
		Getenv: func(name string) string { return map[string]string{"NO_COLOR": "1"}[name] },
	})
	return stdout.String(), stderr.String(), code
}

// Each file of testdata is a session: a line "$ netclassctl …" and what it
// prints, errors behind "! ". The file's name says the daemon's state and, after
// a dash, the width of the terminal if there is one.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	states := map[string]*routing.State{
		"healthy": servertest.Healthy(), "faulty": servertest.Faulty(), "violated": violated(), "idle": servertest.Idle(),
		"drained": servertest.Drained(),
	}
	for name, st := range states {
		if name != "idle" {
			source := servertest.NewSource(st)
			answers(source)
			st.Verified, _ = source.OnVerify(t.Context(), true)
			if r := &st.Verified.Router; !r.Proven && !r.ByChoice { // the engine says so as well
				st.Conditions = append(st.Conditions, routing.Condition{Object: "router", Reason: "Misrouted", Message: r.Reason, Since: servertest.Now})
			}
		}
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			name, variant, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".txt"), "-")
			width := 0
			if _, err := fmt.Sscanf(variant, "terminal%d", &width); err != nil {
				width = 0
			}
			source := servertest.NewSource(states[name])
			source.OnReload = reload(name)
			answers(source)
			servertest.Draining(source)
			socket := servertest.Start(t, source)
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for line := range strings.Lines(string(want)) {
				command, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ netclassctl")
				if !ok {
					continue
				}
				out, errs, code := run(width, append([]string{"--socket", socket}, strings.Fields(command)...)...)
				// A line that is written over ends in an arrow.
				fmt.Fprintf(&got, "$ netclassctl%s\n%s", command, strings.ReplaceAll(out, "\r\x1b[K", "↵\n"))
				for line := range strings.Lines(errs) {
					got.WriteString("! " + strings.ReplaceAll(line, socket, "SOCKET"))
				}
				if code != 0 {
					fmt.Fprintf(&got, "[exit %d]\n", code)
				}
				got.WriteString("\n")
			}
			if *update {
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("output differs (-want +got); -update writes it:\n%s", diff)
			}
			for line := range strings.Lines(got.String()) {
				if width == 80 && !strings.HasPrefix(line, "!") && utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > width {
					t.Errorf("wider than the terminal: %s", line)
				}
			}
		})
	}
}

func reload(state string) func(context.Context, bool) ([]routing.Problem, error) {
	return func(context.Context, bool) ([]routing.Problem, error) {
		switch state {
		case "violated":
			return []routing.Problem{{File: "/etc/netclassd/config.yaml", Line: 12, Column: 9, Message: "class pod-pod: no table uses link pod0"}}, nil
		case "faulty":
		default:
			return nil, nil
		}
		return nil, &routing.Invalid{Problems: []routing.Problem{
			{File: "/etc/netclassd/config.yaml", Line: 12, Column: 9, Message: "there is no network \"podz\""},
			{File: "/etc/netclassd/config.yaml", Line: 30, Column: 3, Message: "unknown key \"tabels\""},
		}}
	}
}
