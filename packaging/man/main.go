// Command man writes the manual pages and shell completions of netclassd and
// netclassctl, made from their commands, as packages want them:
//
//	man DIR
//
// leaves DIR/man/man1, DIR/man/man8 and DIR/completion/{bash,zsh,fish}. Dates in
// them are SOURCE_DATE_EPOCH's, so that the same source gives the same bytes.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"netclass.dev/client/cli"
	"netclass.dev/cmd/netclassd/commands"
	"netclass.dev/version"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: man DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "man: %v\n", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	date, err := sourceDate()
	if err != nil {
		return err
	}
	env := cli.Env{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }, Now: time.Now}
	for _, program := range []struct {
		root    *cobra.Command
		section string
	}{
		{commands.New(commands.Actions{}), "8"},
		{cli.Commands(env), "1"},
	} {
		if err := pages(program.root, filepath.Join(dir, "man", "man"+program.section), program.section, date); err != nil {
			return err
		}
		if err := completions(program.root, filepath.Join(dir, "completion")); err != nil {
			return err
		}
	}
	return nil
}

// sourceDate is the time that what is made here bears.
func sourceDate() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Now().UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// pages writes the page of a command and those of its subcommands, but for what
// cobra adds to every program.
func pages(cmd *cobra.Command, dir, section string, date time.Time) error {
	if cmd.Hidden || cmd.Name() == "help" {
		return nil
	}
	for _, sub := range cmd.Commands() {
		if err := pages(sub, dir, section, date); err != nil {
			return err
		}
	}
	cmd.DisableAutoGenTag = true // it has the day of the build
	cmd.Long = literal(cmd.Long)
	var page bytes.Buffer
	header := &doc.GenManHeader{Section: section, Date: &date, Source: "netclass " + version.String(), Manual: "netclass"}
	if err := doc.GenMan(cmd, header, &page); err != nil {
		return fmt.Errorf("write page of %s: %w", cmd.CommandPath(), err)
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + "." + section + ".gz"
	return writeFile(dir, name, compressed(page.Bytes()))
}

// literal is a command's help with its tables, lines that begin with two spaces, as
// Markdown wants what is not to be filled: four spaces, and an empty line before and
// after.
func literal(help string) string {
	var out strings.Builder
	inside := false
	for line := range strings.Lines(help) {
		if table := strings.HasPrefix(line, "  "); line != "\n" && table != inside {
			out.WriteString("\n")
			inside = table
		}
		if inside && line != "\n" {
			out.WriteString("  ")
		}
		out.WriteString(line)
	}
	return out.String()
}

// compressed is data by gzip, without a name or a time.
func compressed(data []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is a valid one
	_, _ = z.Write(data)                                    // to memory
	_ = z.Close()
	return out.Bytes()
}

// completions writes the completion of a program for each shell.
func completions(root *cobra.Command, dir string) error {
	for _, shell := range []struct {
		name, file string
		generate   func(io.Writer) error
	}{
		{"bash", root.Name(), func(w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
		{"zsh", "_" + root.Name(), root.GenZshCompletion},
		{"fish", root.Name() + ".fish", func(w io.Writer) error { return root.GenFishCompletion(w, true) }},
	} {
		var script bytes.Buffer
		if err := shell.generate(&script); err != nil {
			return fmt.Errorf("write %s completion of %s: %w", shell.name, root.Name(), err)
		}
		if err := writeFile(filepath.Join(dir, shell.name), shell.file, script.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(dir, name string, data []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), data, 0o644)
}
