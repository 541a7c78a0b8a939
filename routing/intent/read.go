package intent

import (
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

const apiVersion = "netclass.dev/v1alpha1"

// reader fills a Config from the document, section by section, and remembers
// the places that the checks across sections need.
type reader struct {
	dir         string // relative paths start here
	credentials string // $CREDENTIALS_DIRECTORY, where passwords may be instead

	config routing.Config

	networks  []networkUse
	defined   []networkUse
	classes   []classPlace
	tables    []tablePlace
	guard     *strictyaml.Node
	byNode    []nodeUse
	gateways  []gateway
	addresses []linkPlace
	tableUses []*strictyaml.Node // names of tables elsewhere
	upstreams []*strictyaml.Node
	hops      []hopPlace

	fromAPI    []apiUse
	aggregates []aggregate
	imports    []importPlace
	announced  []importPlace
}

// apiUse is a place that needs the Kubernetes API. What is idle without it does
// no harm there.
type apiUse struct {
	what string
	node *strictyaml.Node
	idle bool
}

// aggregate is the length of the prefixes that Services are announced by.
type aggregate struct {
	node   *strictyaml.Node
	family routing.Family
	bits   int
}

// importPlace is what is taken from a router or told to it, and where it is named.
type importPlace struct {
	node     *strictyaml.Node
	networks []string
}

// networkUse is a place that names a network, or defines it.
type networkUse struct {
	name string
	node *strictyaml.Node
}

// nodeUse is a place that needs to know the nodes.
type nodeUse struct {
	what string
	node *strictyaml.Node
}

// hopPlace is a place that says, or does not say, which of a node's addresses is
// meant on a link.
type hopPlace struct {
	link  string
	key   string // that says it
	given bool
	node  *strictyaml.Node
}

// linkPlace is a place that names a link.
type linkPlace struct {
	link string
	node *strictyaml.Node
}

func (r *reader) read(root *strictyaml.Node) {
	m := root.Map()
	if v := m.Require("apiVersion"); v != nil {
		v.Enum("", apiVersion)
	}
	r.readProcess(m)
	r.readNetworks(m.Get("networks"))
	r.readClasses(m.Get("classes"))
	r.readCluster(m.Get("cluster")) // before tables: it decides the default next hop
	r.readTables(m.Get("tables"))
	r.readGuard(m.Get("guard"))
	r.readBGP(m.Get("bgp"))
	m.Done()
}

// path makes a path absolute: a relative one starts at the configuration.
func (r *reader) path(n *strictyaml.Node) string {
	return absolute(r.dir, n.Text(""))
}

// secretPath is path, but starts where systemd puts credentials, if it does.
func (r *reader) secretPath(n *strictyaml.Node) string {
	if r.credentials != "" {
		return absolute(r.credentials, n.Text(""))
	}
	return r.path(n)
}

func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// link reads a link's name by the kernel's rules (dev_valid_name).
func link(n *strictyaml.Node) string {
	name := n.Text("")
	if !n.IsText() {
		return ""
	}
	if why := badLink(name); why != "" {
		n.Errorf("%q is no name of a link: %s", name, why)
		return ""
	}
	return name
}

// badLink says why a link cannot have that name, or "".
func badLink(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case name == "." || name == "..":
		return "the kernel refuses it"
	case len(name) > 15:
		return "it is longer than 15 bytes"
	case strings.ContainsFunc(name, func(c rune) bool { return c == '/' || c == ':' || unicode.IsSpace(c) }):
		return "it has a space, a slash or a colon"
	}
	return ""
}

var (
	plainName   = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
	networkName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	peerName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)
)

// name reads a name of the given form; "" when it is missing or wrong.
func name(n *strictyaml.Node, form *regexp.Regexp, want string) string {
	text := n.Text("")
	if n == nil || !n.IsText() {
		return ""
	}
	if !form.MatchString(text) {
		n.Errorf("%s %q is no valid name: want %s", n.Key, text, want)
		return ""
	}
	return text
}

const (
	wantPlainName = "1 to 63 of a-z, 0-9 and -"
	wantPeerName  = "letters, digits, dots, _ and -"
)

// unique reports a name that was taken before, and remembers it.
func unique(taken map[string]int, n *strictyaml.Node, what, name string) {
	if name == "" {
		return
	}
	if line, twice := taken[name]; twice {
		n.Errorf("duplicate %s %q; it is on line %d already", what, name, line)
		return
	}
	taken[name] = n.Line
}

// network reads the name of a network, which may be defined further down.
func (r *reader) network(n *strictyaml.Node) string {
	text := n.Text("")
	if n == nil || !n.IsText() {
		return ""
	}
	if text == "" {
		n.Errorf("a network's name must not be empty")
		return ""
	}
	r.networks = append(r.networks, networkUse{text, n})
	return text
}

// networkList reads names of networks for their user, none of them world. It
// is nil only without a list.
func (r *reader) networkList(n *strictyaml.Node, user string) []string {
	if n == nil {
		return nil
	}
	names, taken := []string{}, map[string]int{}
	for _, item := range n.List() {
		name := r.network(item)
		if name == routing.World {
			r.networks = r.networks[:len(r.networks)-1]
			item.Errorf("world is whatever is in no network; %s needs networks by name", user)
			continue
		}
		if name != "" {
			unique(taken, item, "network", name)
			names = append(names, name)
		}
	}
	return names
}

// perFamily reads {ipv4: X, ipv6: Y}.
func perFamily[T any](n *strictyaml.Node, each func(*strictyaml.Node, routing.Family) T) routing.PerFamily[T] {
	var v routing.PerFamily[T]
	if n != nil && n.Example() != "" {
		n.Errorf("%s must be a mapping of families; write %s", n.Key, byFamily(n))
		return v
	}
	m := n.Map()
	v.IPv4 = each(m.Get("ipv4"), routing.IPv4)
	v.IPv6 = each(m.Get("ipv6"), routing.IPv6)
	m.Done()
	return v
}

// byFamily is how a value is written that was given without its family.
func byFamily(n *strictyaml.Node) string {
	family := "ipv4"
	if n.IsText() && strings.Contains(n.Text(""), ":") {
		family = "ipv6"
	}
	return "{" + family + ": " + n.Example() + "}"
}

// needFamily reports a per-family mapping without any family.
func needFamily(n *strictyaml.Node) {
	if n.IsMap() && len(n.Map().Fields()) == 0 {
		n.Errorf("%s needs ipv4, ipv6, or both", n.Key)
	}
}

// addressRef reads an address or {annotation: KEY}.
func (r *reader) addressRef(n *strictyaml.Node, f routing.Family) routing.AddressRef {
	if n == nil {
		return routing.AddressRef{}
	}
	if n.IsMap() {
		m := n.Map()
		key := m.Require("annotation")
		m.Done()
		text := key.Text("")
		if key.IsText() && strings.TrimSpace(text) == "" {
			key.Errorf("annotation must name an annotation")
		}
		r.byNode = append(r.byNode, nodeUse{"an annotation", n})
		return routing.AddressRef{Annotation: text}
	}
	a, ok := n.Addr()
	if !ok {
		return routing.AddressRef{}
	}
	if routing.FamilyOf(a) != f {
		n.Errorf("%s is not an %s address", a, familyWord(f))
		return routing.AddressRef{}
	}
	return routing.AddressRef{Addr: a}
}

func familyWord(f routing.Family) string {
	if f == routing.IPv4 {
		return "IPv4"
	}
	return "IPv6"
}

const day = 24 * time.Hour
