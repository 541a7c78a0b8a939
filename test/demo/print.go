package main

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"netclass.dev/routing"
	"netclass.dev/test/lab"
)

const columns = 80

type addr = netip.Addr

func podAddrs(n *lab.Node) routing.PerFamily[addr] {
	return routing.PerFamily[addr]{IPv4: n.PodAddr(routing.IPv4), IPv6: n.PodAddr(routing.IPv6)}
}

func nodeAddrs(n *lab.Node) routing.PerFamily[addr] {
	return routing.PerFamily[addr]{IPv4: n.Addr(lab.NodeNet, routing.IPv4), IPv6: n.Addr(lab.NodeNet, routing.IPv6)}
}

// printf and println write to the terminal; if that fails there is nobody to
// tell.
func (s *story) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

func (s *story) println(words ...any) { _, _ = fmt.Fprintln(s.out, words...) }

// heading begins a step.
func (s *story) heading(format string, args ...any) {
	s.step++
	line := fmt.Sprintf("%d. %s", s.step, fmt.Sprintf(format, args...))
	s.printf("\n%s\n%s\n", line, strings.Repeat("-", len(line)))
}

// para prints a paragraph, broken at the screen's width.
func (s *story) para(format string, args ...any) {
	var line string
	for _, word := range strings.Fields(fmt.Sprintf(format, args...)) {
		if line != "" && len(line)+1+len(word) > columns {
			s.println(line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	s.printf("%s\n\n", line)
}

func (s *story) lines(lines ...string) {
	for _, l := range lines {
		s.println(l)
	}
	s.println()
}

// fact prints one thing that was seen.
func (s *story) fact(format string, args ...any) {
	s.printf("* "+format+"\n", args...)
}

// breach notes a broken promise.
func (s *story) breach(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.broken = append(s.broken, text)
	s.println("! BROKEN PROMISE: " + text)
}

// table prints rows below a header; columns of numbers are flush right.
func (s *story) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	right := make([]bool, len(rows[0]))
	for c := range widths {
		right[c] = len(rows) > 1
		for i, row := range rows {
			widths[c] = max(widths[c], len(row[c]))
			if i > 0 && strings.Trim(row[c], "0123456789,") != "" {
				right[c] = false
			}
		}
	}
	for _, row := range rows {
		var line strings.Builder
		line.WriteString("  ")
		for c, cell := range row {
			if right[c] {
				fmt.Fprintf(&line, "%*s  ", widths[c], cell)
			} else {
				fmt.Fprintf(&line, "%-*s  ", widths[c], cell)
			}
		}
		s.println(strings.TrimRight(line.String(), " "))
	}
	s.println()
}

// transcript prints a command and its output.
func (s *story) transcript(args []string, out string) {
	s.printf("\n$ netclassctl %s\n%s", strings.Join(args, " "), out)
	if !strings.HasSuffix(out, "\n") {
		s.println()
	}
}

// summary prints the last table and what was broken.
func (s *story) summary(results []result) {
	s.heading("Summary")
	head := []string{""}
	rows := [][]string{{"Faults of daemons"}, {"Cluster packets at the router"}, {"Pings sent"}, {"Pings lost"}}
	for _, r := range results {
		head = append(head, strings.ToUpper(r.system))
		for i, v := range []uint64{uint64(r.faults), r.atRouter, uint64(r.sent), uint64(r.lost)} {
			rows[i] = append(rows[i], number(v))
		}
		if r.system != (&netclass{}).name() {
			continue
		}
		if r.atRouter > 0 {
			s.breach("the router saw %d cluster packets: %s", r.atRouter, strings.Join(r.offenders, " "))
		}
		if r.lost > 0 {
			s.breach("%d pings were lost", r.lost)
		}
	}
	s.table(append([][]string{head}, rows...))
	if s.unplugged > 0 {
		s.para("These are the faults of daemons. Besides, %s pings were lost with netclass when a peer's link was unplugged, until it was noticed "+
			"that the peer no longer answers there; none of them went to the router.", number(uint64(s.unplugged)))
	}
	switch {
	case len(s.broken) > 0:
		s.printf("%d promises were broken:\n", len(s.broken))
		for _, b := range s.broken {
			s.println("  " + b)
		}
	case results[0].system == (&netclass{}).name():
		s.println("With netclass every promise was kept. Nothing of this is left on the machine.")
	}
}

// logs gives the end of every daemon's log, for a demo that failed.
func (s *story) logs() string {
	var b strings.Builder
	for _, n := range s.lab.Nodes {
		for _, p := range n.Processes() {
			fmt.Fprintf(&b, "\n--- %s on %s\n%s", p.Name, n.Name, p.LogTail(15))
		}
	}
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// number writes 12345 as 12,345.
func number(n uint64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
