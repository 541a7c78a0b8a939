package main

import (
	"strings"
	"time"
	"unicode/utf8"
)

// configPage is the page of the configuration.
const configPage = "netclassd-config"

// referenceFile has every key of the configuration, with its default.
const referenceFile = "examples/reference.yaml"

// pageWidth is what a line that is not filled may be wide: 80 columns without the
// margin.
const pageWidth = 72

// configuration is the page of the configuration: the reference, whose first comments
// are its description.
func configuration(reference string, date time.Time) []byte {
	p := newPage(configPage, "5", date)
	p.section("NAME")
	p.text(configPage + " - the configuration of netclassd")
	p.section("SYNOPSIS")
	p.bold("/etc/netclassd/config.yaml")
	p.section("DESCRIPTION")
	lines := strings.Split(strings.TrimSuffix(reference, "\n"), "\n")
	for len(lines) > 0 && strings.HasPrefix(lines[0], "# ") {
		p.line(".PP")
		p.text(strings.TrimPrefix(lines[0], "# "))
		lines = lines[1:]
	}
	p.line(".PP")
	p.text("netclassd check names every mistake at once, with its line and column; netclassctl reload or SIGHUP brings a new one into force.")
	p.section("KEYS")
	p.line(".EX")
	for _, line := range lines {
		for _, part := range narrow(line) {
			p.line("%s", quoted(part))
		}
	}
	p.line(".EE")
	p.list("FILES", []entry{
		{"/etc/netclassd/config.yaml", "the configuration; another one by netclassd --config."},
		{"/usr/share/doc/netclass/examples/reference.yaml", "this page's keys, to copy from."},
	})
	p.section("SEE ALSO")
	p.references([]string{"netclassd(8)", "netclassd-check(8)", "netclassctl-reload(1)"})
	return p.bytes()
}

// narrow puts the comment of a line that is too wide above it, and wraps one that
// stands alone.
func narrow(line string) []string {
	code, comment, found := strings.Cut(line, "# ")
	if utf8.RuneCountInString(line) <= pageWidth || !found {
		return []string{line}
	}
	margin := code[:len(code)-len(strings.TrimLeft(code, " "))]
	code = strings.TrimRight(code, " ")
	var lines []string
	for _, word := range strings.Fields(comment) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last]+" "+word) <= pageWidth {
			lines[last] += " " + word
		} else {
			lines = append(lines, margin+"# "+word)
		}
	}
	if code == "" {
		return lines
	}
	return append(lines, code)
}
