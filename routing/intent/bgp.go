package intent

import (
	"net/netip"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/strictyaml"
)

// mostASN is the largest number of an autonomous system (RFC 6793).
const mostASN = 1<<32 - 1

func (r *reader) readBGP(n *strictyaml.Node) {
	if n == nil {
		return
	}
	m := n.Map()
	b := &routing.BGP{
		ASN:      asn(m.Require("asn")),
		RouterID: routerID(m.Get("routerID")),
		Port:     uint16(m.Get("port").Uint(1, 65535, 179)),
		Listen:   m.Get("listen").Bool(true),
		Timers: readTimers(m.Get("timers"), routing.Timers{
			Hold: 9 * time.Second, Keepalive: 3 * time.Second, ConnectRetry: 2 * time.Second,
		}),
		GracefulRestart: readRestart(m.Get("gracefulRestart"), 10*time.Second),
	}
	if mesh := m.Get("mesh"); mesh != nil {
		b.Mesh = r.readMesh(mesh)
	}
	taken := map[string]int{}
	for _, item := range m.Get("upstreams").List() {
		b.Upstreams = append(b.Upstreams, r.readUpstream(item, b, taken))
		r.upstreams = append(r.upstreams, item)
	}
	m.Done()
	r.config.BGP = b
}

// asn reads the number of an autonomous system, none of the reserved ones
// (RFC 7607, RFC 6793, RFC 7300).
func asn(n *strictyaml.Node) uint32 {
	v := uint32(n.Uint(1, mostASN, 0))
	switch v {
	case 23456, 65535, mostASN:
		n.Errorf("%s %d is reserved; private numbers are 64512 to 65534", n.Key, v)
	}
	return v
}

func routerID(n *strictyaml.Node) netip.Addr {
	if n == nil || n.IsText() && n.Text("") == "" {
		return netip.Addr{}
	}
	a, ok := n.Addr()
	if ok && !a.Is4() {
		n.Errorf("routerID must be in the form of an IPv4 address, not %s", a)
	}
	return a
}

// readTimers reads the timers that are given over those that hold without. A
// shorter hold time brings its keepalive with it.
func readTimers(n *strictyaml.Node, absent routing.Timers) routing.Timers {
	m := n.Map()
	hold, keepalive := m.Get("hold"), m.Get("keepalive")
	t := routing.Timers{
		Hold:         seconds(hold, 0, 65535*time.Second, absent.Hold),
		Keepalive:    absent.Keepalive,
		ConnectRetry: seconds(m.Get("connectRetry"), time.Second, 65535*time.Second, absent.ConnectRetry),
	}
	m.Done()
	if t.Hold != 0 && t.Hold < 3*time.Second {
		hold.Errorf("hold must be 0 or at least 3s (RFC 4271), not %s", t.Hold)
		return t
	}
	if hold != nil {
		t.Keepalive = (t.Hold / 3).Truncate(time.Second)
	}
	if keepalive != nil {
		t.Keepalive = seconds(keepalive, 0, 21845*time.Second, t.Keepalive)
		if t.Keepalive > t.Hold/3 || t.Hold != 0 && t.Keepalive == 0 {
			keepalive.Errorf("keepalive must be at most a third of hold (%s), and 0 only with hold 0", t.Hold)
		}
	}
	return t
}

// seconds reads a time that BGP carries as whole seconds.
func seconds(n *strictyaml.Node, least, most, absent time.Duration) time.Duration {
	d := n.Duration(least, most, absent)
	if d != d.Truncate(time.Second) {
		n.Errorf("%s must be whole seconds, not %s", n.Key, d)
		return absent
	}
	return d
}

// readRestart reads a restart time, which has 12 bits (RFC 4724).
func readRestart(n *strictyaml.Node, absent time.Duration) time.Duration {
	m := n.Map()
	d := seconds(m.Get("restartTime"), 0, 4095*time.Second, absent)
	m.Done()
	return d
}

func (r *reader) readMesh(n *strictyaml.Node) *routing.Mesh {
	m := n.Map()
	mesh := &routing.Mesh{
		Link:         link(m.Require("link")),
		PasswordFile: r.secretPath(m.Get("passwordFile")),
		GTSM:         m.Get("gtsm").Bool(false),
		MaxPrefixes:  uint32(m.Get("maxPrefixes").Uint(1, 1<<32-1, 1000)),
	}
	address := m.Get("address")
	mesh.Address = r.hop(address, mesh.Link)
	r.hops = append(r.hops, hopPlace{mesh.Link, "address", address != nil || mesh.Address == routing.HopLink, n})
	m.Done()
	r.byNode = append(r.byNode, nodeUse{"mesh", n})
	return mesh
}

func (r *reader) readUpstream(n *strictyaml.Node, b *routing.BGP, taken map[string]int) routing.Upstream {
	m := n.Map()
	nameNode := m.Require("name")
	gtsm, multihop := m.Get("gtsm"), m.Get("multihop")
	u := routing.Upstream{
		Name:            name(nameNode, peerName, wantPeerName),
		Link:            link(m.Require("link")),
		PeerASN:         asn(m.Require("peerASN")),
		PasswordFile:    r.secretPath(m.Get("passwordFile")),
		GTSM:            gtsm.Bool(false),
		Multihop:        uint8(multihop.Uint(2, 255, 0)),
		Timers:          readTimers(m.Get("timers"), b.Timers),
		GracefulRestart: readRestart(m.Get("gracefulRestart"), 0),
	}
	unique(taken, nameNode, "upstream", u.Name)
	if u.GTSM && multihop != nil {
		multihop.Errorf("multihop and gtsm exclude each other: gtsm (RFC 5082) takes neighbours on the link only")
	}
	if a := m.Require("address"); a != nil {
		u.Address = perFamily(a, r.sessionAddress)
		needFamily(a)
		checkAddresses(a, &u, b.Upstreams)
	}
	if a := m.Get("advertise"); a != nil {
		var localPreference *strictyaml.Node
		u.Advertise, localPreference = r.readAdvertise(a)
		if u.Advertise.LocalPreference != 0 && u.PeerASN != 0 && b.ASN != 0 && u.PeerASN != b.ASN {
			localPreference.Errorf("localPreference is for peers of our own AS %d only; %s is in %d", b.ASN, u.Name, u.PeerASN)
		}
	}
	u.Import = r.readImports(m.Get("import"))
	m.Done()
	r.gateways = append(r.gateways, gateway{"upstream " + u.Name, u.Link, u.Address})
	return u
}

// checkAddresses reports an address that an upstream before has too: one router
// is one peer.
func checkAddresses(n *strictyaml.Node, u *routing.Upstream, before []routing.Upstream) {
	for _, other := range before {
		for _, f := range routing.Families {
			if ref := u.Address.Of(f); ref.Given() && ref == other.Address.Of(f) {
				n.Errorf("upstreams %s and %s have the same %s address", other.Name, u.Name, familyWord(f))
			}
		}
	}
}

// sessionAddress is addressRef without link-local addresses: a session over
// them would have no next hop to announce.
func (r *reader) sessionAddress(n *strictyaml.Node, f routing.Family) routing.AddressRef {
	ref := r.addressRef(n, f)
	if ref.Addr.IsLinkLocalUnicast() {
		n.Errorf("%s is a link-local address; a session needs a routable one", ref.Addr)
	}
	return ref
}
