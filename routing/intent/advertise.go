package intent

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

func (r *reader) readAdvertise(n *strictyaml.Node) (a routing.Advertise, localPreference *strictyaml.Node) {
	m := n.Map()
	localPreference = m.Get("localPreference")
	a = routing.Advertise{
		Networks:        r.networkList(m.Get("networks"), "an announcement"),
		LocalPreference: uint32(localPreference.Uint(0, 1<<32-1, 0)),
		MED:             uint32(m.Get("med").Uint(0, 1<<32-1, 0)),
		Prepend:         uint8(m.Get("prepend").Uint(0, 16, 0)),
	}
	taken := map[string]int{}
	for _, item := range m.Get("communities").List() {
		if c := community(item); c != "" {
			unique(taken, item, "community", c)
			a.Communities = append(a.Communities, c)
		}
	}
	if s := m.Get("services"); s != nil {
		a.Services = readServices(s)
	}
	ready := m.Get("readyWhen").Map()
	http := ready.Get("http")
	a.ReadyHTTP = http.Text("")
	ready.Done()
	m.Done()
	if a.ReadyHTTP != "" {
		if u, err := url.Parse(a.ReadyHTTP); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			http.Errorf("http must be a URL of http or https, not %q", a.ReadyHTTP)
		}
		http.Unbuiltf("advertise.readyWhen.http is not built yet")
	}
	return a, localPreference
}

// wellKnown are the named communities of IANA's registry, as numbers.
var wellKnown = map[string]string{
	"graceful-shutdown":   "65535:0",
	"accept-own":          "65535:1",
	"llgr-stale":          "65535:6",
	"no-llgr":             "65535:7",
	"blackhole":           "65535:666",
	"no-export":           "65535:65281",
	"no-advertise":        "65535:65282",
	"no-export-subconfed": "65535:65283",
	"no-peer":             "65535:65284",
}

// community reads a community (RFC 1997) and gives it as two numbers.
func community(n *strictyaml.Node) string {
	text := n.Text("")
	if !n.IsText() {
		return ""
	}
	if number := wellKnown[strings.ToLower(text)]; number != "" {
		return number
	}
	high, low, ok := strings.Cut(text, ":")
	h, err := strconv.ParseUint(high, 10, 16)
	l, err2 := strconv.ParseUint(low, 10, 16)
	if !ok || err != nil || err2 != nil {
		names := make([]string, 0, len(wellKnown))
		for name := range wellKnown {
			names = append(names, name)
		}
		n.Errorf("%q is no community: want two numbers of 0 to 65535 such as 65535:0, or a well-known name such as no-export%s", text, strictyaml.DidYouMean(text, names))
		return ""
	}
	return fmt.Sprintf("%d:%d", h, l)
}

func readServices(n *strictyaml.Node) *routing.Services {
	m := n.Map()
	s := &routing.Services{Class: m.Get("class").Text("")}
	selector := m.Get("selector").Map()
	for _, f := range selector.Get("matchLabels").Map().Fields() {
		if s.Selector == nil {
			s.Selector = map[string]string{}
		}
		s.Selector[f.Name] = f.Value.Text("")
	}
	selector.Done()
	aggregate := m.Get("aggregate").Map()
	s.Aggregate = routing.PerFamily[uint8]{
		IPv4: uint8(aggregate.Get("ipv4").Uint(1, 32, 32)),
		IPv6: uint8(aggregate.Get("ipv6").Uint(1, 128, 128)),
	}
	aggregate.Done()
	m.Done()
	n.Unbuiltf("advertise.services is not built yet; name the addresses in advertise.networks")
	return s
}

func (r *reader) readImports(n *strictyaml.Node) []routing.Import {
	var out []routing.Import
	for _, item := range n.List() {
		m := item.Map()
		networks, table := m.Require("networks"), m.Require("table")
		m.Done()
		i := routing.Import{Networks: r.networkList(networks, "an import"), Table: table.Text("")}
		out = append(out, i)
		if i.Table != "" {
			r.tableUses = append(r.tableUses, table)
		}
	}
	if len(out) > 0 {
		n.Unbuiltf("import is not built yet")
	}
	return out
}
