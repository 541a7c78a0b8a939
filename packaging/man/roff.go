package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// page is a manual page in the making: roff with the man macros.
type page struct{ out bytes.Buffer }

func (p *page) bytes() []byte { return p.out.Bytes() }

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

func (p *page) section(name string) { p.line(".SH %s", name) }

// quoted is a text that roff takes as it is.
func quoted(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}

// text writes what is filled.
func (p *page) text(s string) {
	for line := range strings.Lines(s) {
		p.line("%s", quoted(strings.TrimSuffix(line, "\n")))
	}
}

func (p *page) bold(s string) { p.line(`\fB%s\fP`, quoted(s)) }

// help writes a help: paragraphs that are filled, and tables, lines that begin with
// two spaces, as they are.
func (p *page) help(s string) {
	literal, fresh := false, false // fresh: a paragraph has begun
	for line := range strings.Lines(s) {
		line = strings.TrimSuffix(line, "\n")
		switch table := strings.HasPrefix(line, "  "); {
		case line == "":
			if literal {
				p.line(".EE")
				literal = false
			}
			p.line(".PP")
			fresh = true
			continue
		case table && !literal:
			if !fresh {
				p.line(".PP")
			}
			p.line(".EX")
			literal = true
		case !table && literal:
			p.line(".EE")
			p.line(".PP")
			literal = false
		}
		p.line("%s", quoted(line))
		fresh = false
	}
	if literal {
		p.line(".EE")
	}
}

func (p *page) entry(e entry) {
	p.line(".TP")
	p.bold(e.term)
	p.text(e.text)
}

func (p *page) list(name string, entries []entry) {
	p.section(name)
	for _, e := range entries {
		p.entry(e)
	}
}

// options writes flags: what each means, then its default.
func (p *page) options(name string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.section(name)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		placeholder, usage := pflag.UnquoteUsage(f)
		term := "--" + f.Name
		if f.Shorthand != "" {
			term = "-" + f.Shorthand + ", " + term
		}
		p.line(".TP")
		if placeholder == "" {
			p.bold(term)
		} else {
			p.line(`\fB%s\fP \fI%s\fP`, quoted(term), quoted(placeholder))
		}
		switch f.DefValue {
		case "", "false", "0", "[]":
		default:
			usage += " (default " + f.DefValue + ")"
		}
		p.text(strings.TrimSuffix(usage, ".") + ".")
	})
}

// references writes a list of pages.
func (p *page) references(names []string) {
	for i, name := range names {
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		title, section, _ := strings.Cut(name, "(")
		p.line(`.BR %s (%s%s`, quoted(title), section, comma)
	}
}
