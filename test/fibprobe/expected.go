package fibprobe

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"netclass.dev/routing"
	"netclass.dev/routing/fib"
)

// Expected is what the kernel of a node must show, and where packets then go:
// examples/seed/expected-k8s-1.txt as values.
type Expected struct {
	Rules   []routing.Rule
	Table   []routing.Route // the owned table
	Guard   []routing.Route // ours in main
	States  []string        // the headings of the packet table's answers
	Packets []Packet
}

// Packet is one line of the packet table.
type Packet struct {
	Name string // "pod -> world"
	Flow fib.Flow
	Want []Answer // by state; of an answer that forwards, link and next hop
}

// ParseExpected reads an expectation: sections that begin with a comment, rules
// and routes as iproute2 shows them, and the packet table, whose columns lie
// under their headings.
func ParseExpected(r io.Reader) (*Expected, error) {
	e := &Expected{}
	var section string
	var columns []int
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		var err error
		switch {
		case strings.HasPrefix(line, "#"):
			switch {
			case strings.HasPrefix(line, "# ip -4 rule"):
				section = "rules"
			case strings.HasPrefix(line, "# ip -4 route show table main"):
				section = "guard"
			case strings.HasPrefix(line, "# ip -4 route show table "):
				section = "table"
			case strings.HasPrefix(line, "#   flow "):
				section = "packets"
				columns, err = e.headings(line)
			}
		case strings.TrimSpace(line) == "":
		case section == "packets":
			err = e.packet(line, columns)
		default:
			err = e.object(section, strings.Fields(strings.SplitN(line, "#", 2)[0]))
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read expectation: %w", err)
	}
	return e, nil
}

func (e *Expected) object(section string, words []string) error {
	switch section {
	case "rules":
		r, err := parseRule(words)
		e.Rules = append(e.Rules, r)
		return err
	case "table", "guard":
		r, err := parseRoute(words)
		if section == "guard" {
			r.Table = routing.MainID
			e.Guard = append(e.Guard, r)
			return err
		}
		if len(e.Rules) == 0 {
			return fmt.Errorf("routes stand before the rules that name their table")
		}
		r.Table = e.Rules[0].Table
		e.Table = append(e.Table, r)
		return err
	}
	return fmt.Errorf("%q stands in no section", strings.Join(words, " "))
}

// headings finds where the columns begin. Headings are set apart by two spaces.
func (e *Expected) headings(line string) ([]int, error) {
	var columns []int
	for i := 1; i < len(line); i++ {
		if line[i] != ' ' && (line[i-1] == ' ' && (i < 2 || line[i-2] == ' ')) {
			columns = append(columns, i)
		}
	}
	if len(columns) < 5 {
		return nil, fmt.Errorf("the packet table has %d columns", len(columns))
	}
	for i := 4; i < len(columns); i++ {
		e.States = append(e.States, strings.TrimSpace(column(line, columns, i)))
	}
	return columns, nil
}

func column(line string, columns []int, i int) string {
	from, to := min(columns[i], len(line)), len(line)
	if i == 0 {
		from = 0 // rows begin at the margin, the headings behind their #
	}
	if i+1 < len(columns) {
		to = min(columns[i+1], len(line))
	}
	return strings.TrimSpace(line[from:to])
}

func (e *Expected) packet(line string, columns []int) error {
	p := Packet{Name: strings.Join(strings.Fields(column(line, columns, 0)), " ")}
	var err error
	if p.Flow.Dst, err = netip.ParseAddr(column(line, columns, 1)); err != nil {
		return fmt.Errorf("parse destination: %w", err)
	}
	if src := column(line, columns, 2); src != "-" {
		if p.Flow.Src, err = netip.ParseAddr(src); err != nil {
			return fmt.Errorf("parse source: %w", err)
		}
	}
	if iif := column(line, columns, 3); iif != "-" {
		p.Flow.IIF = iif
	}
	for i := 4; i < len(columns); i++ {
		text := column(line, columns, i)
		if text == "the same" && i > 4 {
			p.Want = append(p.Want, p.Want[0])
			continue
		}
		a, err := parseAnswer(text)
		if err != nil {
			return err
		}
		p.Want = append(p.Want, a)
	}
	e.Packets = append(e.Packets, p)
	return nil
}

func parseAnswer(text string) (Answer, error) {
	words := strings.Fields(text)
	switch {
	case text == "unreachable":
		return Answer{Action: fib.Unreachable}, nil
	case len(words) == 1:
		return Answer{Action: fib.Forward, Link: words[0]}, nil
	case len(words) == 3 && words[1] == "via":
		via, err := netip.ParseAddr(words[2])
		return Answer{Action: fib.Forward, Link: words[0], Via: via}, err
	}
	return Answer{}, fmt.Errorf("parse answer %q", text)
}

// parseRule reads "1001: from 10.244.0.0/16 lookup 47".
func parseRule(words []string) (routing.Rule, error) {
	r := routing.Rule{SuppressPrefixLen: routing.NoSuppress, Protocol: routing.ProtocolNetclass}
	if len(words) != 5 || words[1] != "from" || words[3] != "lookup" {
		return r, fmt.Errorf("parse rule %q", strings.Join(words, " "))
	}
	priority, err1 := strconv.ParseUint(strings.TrimSuffix(words[0], ":"), 10, 32)
	from, err2 := netip.ParsePrefix(words[2])
	table, err3 := strconv.ParseUint(words[4], 10, 32)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return r, fmt.Errorf("parse rule: %w", err)
		}
	}
	r.Family = routing.FamilyOf(from.Addr())
	r.Priority, r.From, r.Table = uint32(priority), from, routing.TableID(table)
	return r, nil
}

// parseRoute reads a route as `ip route` shows it.
func parseRoute(words []string) (routing.Route, error) {
	r := routing.Route{Protocol: routing.ProtocolNetclass}
	if words[0] == "unreachable" {
		r.Type, words = routing.Unreachable, words[1:]
	}
	if len(words) == 0 {
		return r, fmt.Errorf("the route has no destination")
	}
	var err error
	if words[0] == "default" {
		r.Dst = routing.IPv4.Default()
	} else if r.Dst, err = netip.ParsePrefix(words[0]); err != nil {
		return r, fmt.Errorf("parse route: %w", err)
	}
	for i := 1; i+1 < len(words); i += 2 {
		switch words[i] {
		case "via":
			r.Via, err = netip.ParseAddr(words[i+1])
		case "dev":
			r.Link = words[i+1]
		case "metric":
			var metric uint64
			metric, err = strconv.ParseUint(words[i+1], 10, 32)
			r.Metric = uint32(metric)
		case "scope": // follows from the rest
		default:
			err = fmt.Errorf("%q is not known", words[i])
		}
		if err != nil {
			return r, fmt.Errorf("parse route %s: %w", strings.Join(words, " "), err)
		}
	}
	return r, nil
}
