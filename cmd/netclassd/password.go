package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"netclass.dev/routing"
)

// maxPassword is what TCP MD5 takes (TCP_MD5SIG_MAXKEYLEN).
const maxPassword = 80

// passwords reads the password files of a configuration. One that cannot be
// read is left out: its sessions then wait, with a reason, and never run
// without.
func passwords(c *routing.Config, log *slog.Logger) map[string]routing.Secret {
	read := make(map[string]routing.Secret)
	for _, file := range passwordFiles(c) {
		p, err := readPassword(file)
		if err != nil {
			log.Error("password not read", "error", err)
			continue
		}
		read[file] = p
	}
	return read
}

// passwordFiles returns the files that a configuration names, each once.
func passwordFiles(c *routing.Config) []string {
	if c.BGP == nil {
		return nil
	}
	var files []string
	add := func(file string) {
		if file != "" && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	if c.BGP.Mesh != nil {
		add(c.BGP.Mesh.PasswordFile)
	}
	for i := range c.BGP.Upstreams {
		add(c.BGP.Upstreams[i].PasswordFile)
	}
	return files
}

// unread says of each password file that cannot be read why, for who loads the
// configuration that names it.
func unread(c *routing.Config, path string) []routing.Problem {
	var list []routing.Problem
	for _, file := range passwordFiles(c) {
		if _, err := readPassword(file); err != nil {
			list = append(list, routing.Problem{File: path, Message: err.Error() + ": its sessions wait, or go on with the last one"})
		}
	}
	return list
}

// unreadable says of each password file that cannot be read why, without its name.
func unreadable(c *routing.Config) map[string]string {
	faults := make(map[string]string)
	for _, file := range passwordFiles(c) {
		if _, err := readPassword(file); err != nil {
			faults[file] = bare(err)
		}
	}
	return faults
}

// bare is an error without the name of the file that it is about.
func bare(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

// readPassword reads the first and only line of a file. Its errors name the
// file, never what is in it.
func readPassword(file string) (routing.Secret, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return "", fmt.Errorf("read password %s: %w", file, err)
	}
	data = bytes.TrimRight(data, "\r\n")
	switch {
	case len(data) == 0:
		return "", fmt.Errorf("read password %s: %w", file, errors.New("the file is empty"))
	case len(data) > maxPassword:
		return "", fmt.Errorf("read password %s: %w", file, fmt.Errorf("longer than the %d bytes that TCP MD5 takes", maxPassword))
	case bytes.ContainsAny(data, "\n\x00"):
		return "", fmt.Errorf("read password %s: %w", file, errors.New("more than one line"))
	}
	return routing.Secret(data), nil
}
