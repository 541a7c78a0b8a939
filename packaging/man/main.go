// Command man writes the manual pages and shell completions of netclassd and
// netclassctl, made from their commands and from the configuration's reference, as
// packages want them:
//
//	man DIR
//
// leaves DIR/man/man1, man5 and man8 and DIR/completion/{bash,zsh,fish}. It runs in
// the root of the tree. Dates in them are SOURCE_DATE_EPOCH's, so that the same
// source gives the same bytes.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"netclass.dev/client/cli"
	"netclass.dev/cmd/netclassd/commands"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: man DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1], referenceFile); err != nil {
		fmt.Fprintf(os.Stderr, "man: %v\n", err)
		os.Exit(1)
	}
}

// write makes everything in a folder; reference is the file with every key of the
// configuration.
func write(dir, reference string) error {
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
	keys, err := os.ReadFile(reference)
	if err != nil {
		return fmt.Errorf("read the reference: %w", err)
	}
	return writeFile(filepath.Join(dir, "man", "man5"), configPage+".5.gz", compressed(configuration(string(keys), date)))
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
	if cmd.Hidden || cmd.Name() == "help" || cmd.HasParent() && cmd.Parent().Name() == "completion" {
		return nil
	}
	for _, sub := range cmd.Commands() {
		if err := pages(sub, dir, section, date); err != nil {
			return err
		}
	}
	return writeFile(dir, pageName(cmd)+"."+section+".gz", compressed(commandPage(cmd, section, date)))
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
