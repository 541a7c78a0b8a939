package intent

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

func (r *reader) readAdvertise(n *strictyaml.Node) (a routing.Advertise, localPreference *strictyaml.Node) {
	m := n.Map()
	localPreference = m.Get("localPreference")
	networks := m.Get("networks")
	a = routing.Advertise{
		Networks:        r.networkList(networks, "an announcement"),
		LocalPreference: uint32(localPreference.Uint(0, 1<<32-1, 0)),
		MED:             uint32(m.Get("med").Uint(0, 1<<32-1, 0)),
		Prepend:         uint8(m.Get("prepend").Uint(0, 16, 0)),
	}
	r.announced = append(r.announced, importPlace{networks, a.Networks})
	taken := map[string]int{}
	for _, item := range m.Get("communities").List() {
		if c := community(item); c != "" {
			unique(taken, item, "community", c)
			a.Communities = append(a.Communities, c)
		}
	}
	if s := m.Get("services"); s != nil {
		a.Services = r.readServices(s)
	}
	ready := m.Get("readyWhen").Map()
	http := ready.Get("http")
	a.ReadyHTTP = http.Text("")
	ready.Done()
	m.Done()
	if a.ReadyHTTP != "" {
		switch u, err := url.Parse(a.ReadyHTTP); {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			http.Errorf("http must be a URL of http or https, not %q", a.ReadyHTTP)
		case u.User != nil:
			http.Errorf("http must not hold a name or password: it is shown to whoever may look")
		}
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

func (r *reader) readServices(n *strictyaml.Node) *routing.Services {
	m := n.Map()
	s := &routing.Services{Class: m.Get("class").Text("")}
	selector := m.Get("selector").Map()
	matchLabels := selector.Get("matchLabels")
	for _, f := range matchLabels.Map().Fields() {
		if s.Selector == nil {
			s.Selector = map[string]string{}
		}
		s.Selector[f.Name] = f.Value.Text("")
	}
	selector.Done()
	if _, err := labels.ValidatedSelectorFromSet(s.Selector); err != nil {
		matchLabels.Errorf("matchLabels can be no Service's labels: %v", err)
	}
	if a := m.Get("aggregate"); a != nil {
		s.Aggregate = perFamily(a, r.aggregate)
	} else {
		s.Aggregate = routing.PerFamily[uint8]{IPv4: 32, IPv6: 128}
	}
	m.Done()
	r.fromAPI = append(r.fromAPI, apiUse{what: "services", node: n, idle: true})
	return s
}

// widestAggregate is the shortest length of an aggregate: nobody announces more
// than that because of one address.
var widestAggregate = routing.PerFamily[uint64]{IPv4: 8, IPv6: 32}

// aggregate reads the length of the prefixes that addresses are announced by.
func (r *reader) aggregate(n *strictyaml.Node, f routing.Family) uint8 {
	host := uint64(f.Bits())
	bits := n.Uint(widestAggregate.Of(f), host, host)
	if n.IsInt() && widestAggregate.Of(f) <= bits && bits < host {
		n.Warnf("%s: a node announces a whole /%d for one Service: where another of externalTrafficPolicy: Local lies in it, packets for that one are lost on nodes without its endpoints; %d avoids that", n.Key, bits, host)
		r.aggregates = append(r.aggregates, aggregate{n, f, int(bits)})
	}
	return uint8(bits)
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
		r.imports = append(r.imports, importPlace{networks, i.Networks})
	}
	return out
}
