package fibprobe

import (
	"strings"
	"testing"
)

func TestParseExpected(t *testing.T) {
	t.Parallel()
	e := readExpected(t)
	if got := [...]int{len(e.Rules), len(e.Table), len(e.Guard), len(e.States), len(e.Packets)}; got != [...]int{2, 17, 3, 3, 13} {
		t.Errorf("rules, routes, guard, states, packets: got %v", got)
	}
	v6 := e.IPv6()
	for _, c := range []struct{ got, want string }{
		{e.Rules[1].String(), "1003: from 10.47.64.0/24 lookup 47"},
		{v6.Rules[1].String(), "1002: from fd00:47:64::/112 lookup 47"},
		{e.Table[7].String(), "10.244.2.0/24 via 10.46.0.2 dev node0 table 47 metric 2000"},
		{v6.Table[7].String(), "fd00:10:244:2::/64 via fd00:46::2 dev node0 table 47 metric 2000"},
		{v6.Table[0].String(), "default via fd00:47::fe dev ingress0 table 47 metric 10"},
		{v6.Guard[0].String(), "unreachable fd00:10:244::/48 metric 4294967295"},
		{strings.Join(e.States, ", "), "converged, pod0 down (no daemon), node0 down too"},
		{e.Packets[0].Name, "pod -> peer's pod"},
		{e.Packets[0].Want[1].String(), "node0 via 10.46.0.2"},
		{v6.Packets[0].Want[1].String(), "node0 via fd00:46::2"},
		{e.Packets[2].Want[2].String(), "ingress0 via 10.47.0.254"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestParseExpectedErrors(t *testing.T) {
	t.Parallel()
	table := "# ip -4 rule\n1: from 10.0.0.0/8 lookup 47\n# ip -4 route show table 47\n"
	heading := "#   flow   DST       SRC  IIF  one   two\n"
	for text, want := range map[string]string{
		"10.0.0.0/8 dev a":                                        `line 1: "10.0.0.0/8 dev a" stands in no section`,
		"# ip -4 rule\n1: to 10.0.0.0/8 lookup 47":                `line 2: parse rule "1: to 10.0.0.0/8 lookup 47"`,
		"# ip -4 route show table 47\ndefault dev a":              "line 2: routes stand before the rules that name their table",
		table + "10.0.0.0/8 dev a colour 5":                       `line 4: parse route 10.0.0.0/8 dev a colour 5: "colour" is not known`,
		table + "10.0.0.1 dev a":                                  `line 4: parse route: netip.ParsePrefix("10.0.0.1"): no '/'`,
		table + "unreachable":                                     "line 4: the route has no destination",
		"#   flow   DST":                                          "line 1: the packet table has 2 columns",
		heading + "a          nowhere   -    -    a     a":        `line 2: parse destination: ParseAddr("nowhere"): unable to parse IP`,
		heading + "a          10.0.0.1  -    -    a b   the same": `line 2: parse answer "a b"`,
	} {
		_, err := ParseExpected(strings.NewReader(text))
		if err == nil || err.Error() != want {
			t.Errorf("%q: got error %v, want %s", text, err, want)
		}
	}
}
