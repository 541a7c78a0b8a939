package bgp

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	"github.com/osrg/gobgp/v3/pkg/server"

	"netclass.dev/routing"
)

// What we know of GoBGP's insides is so.
func TestInternals(t *testing.T) {
	w := newWatcher()
	s := server.NewBgpServer(server.LoggerOption(w), server.TimingHookOption(w))
	*acceptChannel(s) = make(chan *net.TCPConn)
	go s.Serve()
	if err := s.StartBgp(background, &api.StartBgpRequest{Global: &api.Global{Asn: 64512, RouterId: "192.0.2.1", ListenPort: -1}}); err != nil {
		t.Fatal(err)
	}
	n := routing.Neighbor{
		Key: routing.SessionKey{Peer: "p", Family: routing.IPv6}, Remote: netip.MustParseAddr("2001:db8::2"), PeerASN: 64512,
		RestartTime: 10 * time.Second, Password: "secret",
	}
	active := make(chan bool, 1)
	w.onState = func(addr string, to routing.SessionState) {
		conf := neighborConf(s, addr)
		if conf == nil || conf.Config.NeighborAddress != addr {
			t.Errorf("record of %s: %v", addr, conf)
			return
		}
		if !boundOpen(s, addr) {
			t.Error("the time for the OPEN is not bounded")
		}
		adjust(conf, routing.OpenSent, true)
		restarting := conf.GracefulRestart.State.LocalRestarting
		adjust(conf, routing.OpenConfirm, true)
		forEver := conf.Timers.State.NegotiatedHoldTime == forever
		plain := adjust(conf, routing.Established, true)
		conf.GracefulRestart.State.Enabled, conf.GracefulRestart.State.LocalRestarting = true, true
		open := adjust(conf, routing.Established, true) && !conf.GracefulRestart.State.Enabled
		restarted(conf)
		select {
		case active <- to == routing.Active && restarting && forEver && !plain && open &&
			conf.GracefulRestart.State.Enabled && !conf.GracefulRestart.State.LocalRestarting:
		default:
		}
	}
	if err := s.AddPeer(background, &api.AddPeerRequest{Peer: peerConfig(&n, 179, 64512)}); err != nil {
		t.Fatal(err)
	}
	select {
	case ok := <-active:
		if !ok {
			t.Error("not adjusted")
		}
	case <-time.After(5 * time.Second):
		t.Fatal("no change of state was heard of")
	}
	if neighborConf(s, "192.0.2.9") != nil {
		t.Error("a record of an unknown neighbour")
	}

	served := false
	waits := -1
	if err := onServing(s, func() error {
		served = true
		if _, q := outgoing(s, "192.0.2.9"); q != nil {
			t.Error("a queue of an unknown neighbour")
		}
		peer, q := outgoing(s, n.Remote.String())
		if q != nil {
			send(peer, nil, nil, false) // nobody takes it, without a session
			waits = q.Len()
		}
		return nil
	}, true); err != nil || !served || waits != 1 {
		t.Errorf("served: %v, messages that wait: %d, %v", served, waits, err)
	}
}

func TestEnding(t *testing.T) {
	for _, c := range []struct {
		end    ending
		cause  routing.DownCause
		detail string
	}{
		{ending{}, routing.CauseConnection, "connection closed"},
		{ending{holdTimer: true, notified: &notification{code: 4, sent: true}}, routing.CauseHoldTimer, "hold timer expired"},
		{ending{notified: &notification{code: 4}}, routing.CauseHoldTimer, "Hold Timer Expired received"},
		{ending{notified: &notification{code: 6, subcode: 2, text: "maintenance"}}, routing.CauseCease, "Cease/Administrative Shutdown received: maintenance"},
		{ending{notified: &notification{code: 6, subcode: 1, sent: true}}, routing.CauseCease, "Cease/Maximum Number of Prefixes Reached sent"},
		{ending{notified: &notification{code: 6, subcode: 99}}, routing.CauseCease, "Cease/99 received"},
		{ending{notified: &notification{code: 2, subcode: 2, sent: true}}, routing.CauseError, "OPEN Message Error/Bad Peer AS sent"},
		{ending{notified: &notification{code: 3}}, routing.CauseError, "UPDATE Message Error received"},
		{ending{notified: &notification{code: 200, subcode: 1}}, routing.CauseError, "code 200/1 received"},
	} {
		if cause, detail := c.end.cause(); cause != c.cause || detail != c.detail {
			t.Errorf("%+v: %s, %q; want %s, %q", c.end, cause, detail, c.cause, c.detail)
		}
	}
}

func TestParseCommunity(t *testing.T) {
	for in, want := range map[string]string{
		"64512:7": "64512:7", "0064512:07": "64512:7", "No-Export": "65535:65281", "4200000000:1:2": "4200000000:1:2",
		"65536:1": "", "1": "", "1:2:3:4": "", "a:b": "", "-1:2": "", "1:65536": "", "": "", "4294967296:1:1": "", "1:+2": "",
	} {
		if got, err := parseCommunity(in); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestHardLimit(t *testing.T) {
	for _, c := range []struct {
		n    routing.Neighbor
		want uint32
	}{
		{routing.Neighbor{MaxPrefixes: 10}, 10_000},
		{routing.Neighbor{MaxPrefixes: 5000}, 50_000},
		{routing.Neighbor{Upstream: true}, 50_000},
		{routing.Neighbor{MaxPrefixes: 4_000_000_000}, 1<<31 - 1},
	} {
		if got := hardLimit(&c.n); got != c.want {
			t.Errorf("%+v: %d, want %d", c.n, got, c.want)
		}
	}
}

func TestReadAttributes(t *testing.T) {
	six := netip.MustParseAddr("fd00:48::2")
	mp := append([]byte{0x90, 14, 0, 4 + 32 + 1, 0, 2, 1, 32}, six.AsSlice()...)
	mp = append(append(mp, netip.MustParseAddr("fe80::1").AsSlice()...), 0)
	a := readAttributes(routing.IPv6, [][]byte{
		{0x40, 2, 14, 2, 2, 0, 0, 0xfc, 0, 0, 0, 0xfc, 1, 1, 0, 9, 9}, // a sequence, an empty set, rubbish
		{0x80, 9, 4, 192, 0, 2, 1}, mp, {}, {0x40}, {0x40, 3, 9},
		{0xc0, 8, 9, 0xfc, 0, 0, 1, 0xff, 0xff, 0xff, 2, 0xff},
	})
	if a.nextHop != six || !slices.Equal(a.ases, []uint32{64512, 64513}) || !a.noAdvertise {
		t.Errorf("%+v", a)
	}
	router := netip.MustParseAddr("192.0.2.1")
	if !a.passed(64513, netip.Addr{}) || !a.passed(1, router) || a.passed(1, netip.MustParseAddr("192.0.2.2")) {
		t.Error("passed")
	}
	if a := readAttributes(routing.IPv4, [][]byte{{0xc0, 8, 8, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 3}}); a.noAdvertise {
		t.Error("NO_EXPORT is not NO_ADVERTISE")
	}
	if a := readAttributes(routing.IPv4, [][]byte{{0x40, 3, 4, 10, 48, 0, 2}}); a.nextHop != netip.MustParseAddr("10.48.0.2") || a.passed(0, router) {
		t.Errorf("%+v", a)
	}
}

func TestReadNotes(t *testing.T) {
	large := func(asn, global, note uint32) (b []byte) {
		for _, n := range []uint32{asn, global, note} {
			b = binary.BigEndian.AppendUint32(b, n)
		}
		return b
	}
	read := func(v []byte) routing.Notes {
		head := []byte{0xd0, 32, byte(len(v) >> 8), byte(len(v))}
		return readAttributes(routing.IPv4, [][]byte{append(head, v...)}).notes(64512)
	}
	all := slices.Concat(large(64512, 148, 0), large(64513, 148, 1), large(64512, 149, 2), large(64512, 148, 1<<32-1), []byte{1, 2, 3})
	if got := read(all); got != "0 4294967295" {
		t.Errorf("notes %q", got)
	}
	if got := read(bytes.Repeat(large(64512, 148, 7), 5000)); strings.Count(string(got), "7") != maxNotes {
		t.Errorf("%d notes are kept", strings.Count(string(got), "7"))
	}
}

func FuzzReadAttributes(f *testing.F) {
	f.Add([]byte{0x40, 2, 14, 2, 2, 0, 0, 0xfc, 0, 0, 0, 0xfc, 1})
	f.Add([]byte{0x80, 14, 8, 0, 1, 1, 4, 10, 48, 0, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		a := readAttributes(routing.IPv4, [][]byte{b})
		_ = a.passed(64512, netip.MustParseAddr("192.0.2.1"))
		_ = a.notes(64512)
	})
}

// One statement for each group, sets only where somebody is in them, and no
// change where only the version differs.
func TestExportPolicy(t *testing.T) {
	hop := netip.MustParseAddr("10.48.0.1")
	mesh := group{family: routing.IPv4, nextHop: hop}
	udm := group{to: "udm", family: routing.IPv4, nextHop: hop, communities: "1:2 1:2:3", med: 5, prepend: 1}
	lost := group{to: "lost", family: routing.IPv4, nextHop: hop}
	p := netip.MustParsePrefix("10.244.1.0/24")
	groups := func() map[group][]netip.Prefix {
		return map[group][]netip.Prefix{mesh: {p}, udm: {p}, lost: {p}}
	}
	members := map[string][]string{"/ipv4": {"10.48.0.3/32", "10.48.0.2/32"}, "udm/ipv4": {"10.47.0.254/32"}}
	one, sets := exportPolicy(1, groups(), members)
	two, sets2 := exportPolicy(2, groups(), members)
	if len(one.Statements) != 2 || len(sets) != 4 {
		t.Fatalf("%v\n%v", one, sets)
	}
	if !samePolicy(one, sets, two, sets2) {
		t.Error("the same policy differs")
	}
	members["udm/ipv4"] = []string{"10.47.0.253/32"}
	if three, sets3 := exportPolicy(3, groups(), members); samePolicy(one, sets, three, sets3) {
		t.Error("another neighbour makes no difference")
	}
	if none, _ := exportPolicy(4, groups(), nil); none != nil {
		t.Error(none)
	}
	a := udm.actions()
	if !slices.Equal(a.Community.Communities, []string{"1:2"}) || !slices.Equal(a.LargeCommunity.Communities, []string{"1:2:3"}) ||
		a.Med.Value != 5 || a.AsPrepend.Repeat != 1 || !a.AsPrepend.UseLeftMost || a.LocalPref.Value != defaultLocalPref || a.Nexthop.Address != hop.String() {
		t.Errorf("%v", a)
	}
}

// A node's own marker, and nothing else, looks as if it had come round to others.
func TestLooped(t *testing.T) {
	want := &routing.Speak{ASN: 64512, RouterID: netip.MustParseAddr("10.48.0.1")}
	for prefix, asn := range map[string]uint32{"10.48.0.1/32": 64512, "100::a30:1/128": 64512, "10.48.0.2/32": 0, "10.244.1.0/24": 0} {
		a := &routing.Announcement{Prefix: netip.MustParsePrefix(prefix)}
		if got := looped(want, a); got != asn {
			t.Errorf("%s: %d, want %d", prefix, got, asn)
		}
		a.To = "udm"
		if got := looped(want, a); got != 0 {
			t.Errorf("%s to a router: %d", prefix, got)
		}
	}
	if a := (group{looped: 64512}).actions(); a.AsPrepend.GetAsn() != 64512 || a.AsPrepend.GetRepeat() != 1 {
		t.Errorf("%v", a)
	}
}

// The watcher coalesces a flood, keeps what differs in order, and labels.
func TestWatcher(t *testing.T) {
	w := newWatcher()
	for range 1000 {
		w.Debug("received update", map[string]any{"Key": "192.0.2.1"})
	}
	w.Debug("state changed", map[string]any{"Key": "192.0.2.1", "old": "BGP_FSM_ESTABLISHED", "new": "BGP_FSM_IDLE"})
	w.Debug("received update", map[string]any{"Key": "192.0.2.1"})
	w.Warn("received notification", map[string]any{"Key": "192.0.2.2", "Code": uint8(6), "Subcode": uint8(4)})
	news := w.take()
	var kinds []happeningKind
	for _, h := range news {
		kinds = append(kinds, h.kind)
	}
	if !slices.Equal(kinds, []happeningKind{updated, stateChanged, updated, notified}) {
		t.Fatal(kinds)
	}
	if s := news[3].note.String(); s != "Cease/Administrative Reset received" {
		t.Error(s)
	}
	if news[1].from != routing.Established || news[1].to != routing.Idle {
		t.Errorf("%+v", news[1])
	}
}

// No password is in what is told to people.
func TestPasswordStaysSecret(t *testing.T) {
	n := routing.Neighbor{Password: "geheim", Remote: netip.MustParseAddr("192.0.2.1"), Key: routing.SessionKey{Peer: "p", Family: routing.IPv4}}
	if _, errs := byAddress([]routing.Neighbor{n, n}); len(errs) != 1 || strings.Contains(errs[0], "geheim") {
		t.Error(errs)
	}
}
