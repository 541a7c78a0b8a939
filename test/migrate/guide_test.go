package migrate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"netclass.dev/test/lab"
	"netclass.dev/test/need"
)

var guideFile = filepath.Join("..", "..", "docs", "migrate-from-bird.md")

// block is a fenced block of the guide with commands and what they print.
type block struct {
	step     string // what the block is called; "": the lab does not run it
	line     int    // of the fence, from 1
	commands []command
}

// command is one command line, and what the guide says that it prints.
type command struct {
	line   string
	output string
}

// fence opens a block: ```console step=NAME. What follows the first word is not
// shown to a reader.
var fence = regexp.MustCompile("^ *```([a-z]*)(?: step=([a-z-]+))?$")

// readGuide returns the blocks of the guide, in order.
func readGuide(t *testing.T) []block {
	t.Helper()
	text, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := parseGuide(string(text))
	if err != nil {
		t.Fatalf("%s: %v", guideFile, err)
	}
	return blocks
}

func parseGuide(text string) ([]block, error) {
	var blocks []block
	var open *block
	inside := false
	for i, line := range strings.Split(text, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case inside && strings.TrimSpace(line) == "```":
			if open != nil {
				blocks = append(blocks, *open)
			}
			inside, open = false, nil
		case !inside && m != nil:
			inside = true
			if m[1] == "console" {
				open = &block{step: m[2], line: i + 1}
			} else if m[2] != "" {
				return nil, fmt.Errorf("line %d: a step that is no console", i+1)
			}
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			return nil, fmt.Errorf("line %d: %q opens nothing", i+1, line)
		case open == nil:
		case strings.HasPrefix(line, "$ "):
			open.commands = append(open.commands, command{line: line[2:]})
		case len(open.commands) == 0:
			return nil, fmt.Errorf("line %d: output before a command", i+1)
		default:
			open.commands[len(open.commands)-1].output += line + "\n"
		}
	}
	if inside {
		return nil, fmt.Errorf("the last block is not closed")
	}
	return blocks, nil
}

var rewriting sync.Mutex

// rewriteGuide puts what the commands of the steps have printed into the guide.
func rewriteGuide(t *testing.T, printed map[string][]command) {
	t.Helper()
	rewriting.Lock()
	defer rewriting.Unlock()
	text, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	skip := false
	for line := range strings.Lines(string(text)) {
		m := fence.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if skip && strings.HasPrefix(line, "```") {
			skip = false
			b.WriteString(line)
			continue
		}
		if !skip {
			b.WriteString(line)
		}
		if !skip && m != nil && printed[m[2]] != nil {
			skip = true
			for _, c := range printed[m[2]] {
				fmt.Fprintf(&b, "$ %s\n%s", c.line, c.output)
			}
		}
	}
	if err := os.WriteFile(guideFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// volatile is what differs from run to run: times, counts of work, processes,
// versions and, with them, the width of columns.
var volatile = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\.\d+\b`), "TIME"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(d|h|ms|m|µs|s))+\b`), "TIME"},
	{regexp.MustCompile(`\bpid \d+`), "pid N"},
	{regexp.MustCompile(`\b\d+ passes`), "N passes"},
	{regexp.MustCompile(`\b\d+ (of \d+ )?flows`), "N flows"},
	{regexp.MustCompile(`(?m)^(Version +)\S+,`), "${1}V,"},
	{regexp.MustCompile(`(?m)^BIRD \S+ ready`), "BIRD V ready"},
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(`(?m) +$`), ""},
}

// alike strips what differs from run to run.
func alike(output string) string {
	for _, v := range volatile {
		output = v.what.ReplaceAllString(output, v.by)
	}
	return strings.TrimSpace(output)
}

func TestParseGuide(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want string
		err  string
	}{
		"a step": {
			text: "Words\n```console step=beside\n$ ip rule\n0:\tlocal\n$ cp a b\n```\n`$ not this`\n",
			want: `[{beside 2 [{ip rule 0:	local
} {cp a b }]}]`,
		},
		"commands that are only shown": {text: "```console\n$ ip rule\n```\n```sh\nls\n```\n", want: "[{ 1 [{ip rule }]}]"},
		"output of nothing":            {text: "```console step=a\n0:\n```\n", err: "line 2: output before a command"},
		"a step in no console":         {text: "```sh step=a\nls\n```\n", err: "line 1: a step that is no console"},
		"left open":                    {text: "```console step=a\n$ ls\n", err: "the last block is not closed"},
		"a fence that is not read":     {text: "```console node=1\n$ ls\n```\n", err: "line 1: \"```console node=1\" opens nothing"},
	} {
		blocks, err := parseGuide(tt.text)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if said != tt.err || err == nil && fmt.Sprint(blocks) != tt.want {
			t.Errorf("%s: %v, %q; want %s, %q", name, blocks, said, tt.want, tt.err)
		}
	}
}

func TestAlike(t *testing.T) {
	for _, tt := range []struct{ a, b string }{
		{"Version    0.1.0, running 3h2m", "Version  v2-dirty, running 5s"},
		{"Kernel     as planned; 8 passes, the last 1m5s ago in 211µs", "Kernel     as planned; 12 passes, the last 5s ago in 1.5ms"},
		{"k8s-2  ipv4    10.48.0.2    Established      5s         1", "k8s-2  ipv4    10.48.0.2    Established   2h59m         1"},
		{"own4  up     13:14:32.200  \n", "own4  up     03:00:00.001\n"},
	} {
		if alike(tt.a) != alike(tt.b) {
			t.Errorf("%q and %q differ", alike(tt.a), alike(tt.b))
		}
	}
	for _, tt := range []struct{ a, b string }{
		{"10.244.2.0/24 via 10.48.0.2 dev pod0 metric 10", "10.244.2.0/24 via 10.48.0.2 dev pod0 metric 32"},
		{"Health  Ready", "Health  Degraded"},
		{"pod-pod  pods->pods  ipv4  pod0  2/2  HELD", "pod-pod  pods->pods  ipv4  pod0  1/2  HELD"},
	} {
		if alike(tt.a) == alike(tt.b) {
			t.Errorf("%q and %q are alike", tt.a, tt.b)
		}
	}
}

// commandIn finds what may be a command: a line of a block, or code in a line of
// text.
var commandIn = regexp.MustCompile("(?m)^\\$ (netclass(?:d|ctl) [^|<>\\n]+)|`(netclass(?:d|ctl) [^`|<>]+)`")

// TestCommands has every netclassd and netclassctl of the guide parsed, also those
// that the lab does not run.
func TestCommands(t *testing.T) {
	text, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	found := commandIn.FindAllStringSubmatch(string(text), -1)
	if len(found) < 20 {
		t.Fatalf("only %d commands found", len(found))
	}
	for _, m := range found {
		words := strings.Fields(m[1] + m[2])
		program := need.Program(t, lab.Built(words[0]))
		out, err := exec.Command(program, append(slices.Clone(words[1:]), "--help")...).CombinedOutput()
		if usage := fmt.Sprintf("Usage:\n  %s %s", words[0], words[1]); err != nil || !strings.Contains(string(out), usage) {
			t.Errorf("%q is no command: %v\n%s", strings.Join(words, " "), err, out)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noSlug  = regexp.MustCompile(`[^a-z0-9 -]`)
)

// TestLinks follows the guide's links to files and to its own headings.
func TestLinks(t *testing.T) {
	text, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]bool{"": true}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		places[strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	for _, m := range link.FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(guideFile), m[1])); err != nil {
			t.Errorf("link to %s: %v", m[1], err)
		}
		if m[1] == "" && !places[m[2]] {
			t.Errorf("link to the heading #%s, which is not there", m[2])
		}
	}
}
