package speakerv1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"netclass.dev/routing"
)

var equal = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }),
	cmp.Comparer(func(a, b routing.Secret) bool { return a == b }),
}

func sampleSpeak() *routing.Speak {
	return &routing.Speak{
		ASN: 4200000000, RouterID: netip.MustParseAddr("10.48.0.1"), Port: 179, Restarting: true,
		Listen: []routing.Listen{{Addr: netip.MustParseAddr("fd00:48::1"), Link: "pod0"}},
		Neighbors: []routing.Neighbor{{
			Key: routing.SessionKey{Peer: "k8s-2", Family: routing.IPv6}, Upstream: true, Link: "pod0",
			Local: netip.MustParseAddr("fd00:48::1"), Remote: netip.MustParseAddr("fd00:48::2"), PeerASN: 64513,
			Passive: true, Password: "geheim", GTSM: true, Multihop: 3,
			Timers:      routing.Timers{Hold: 9 * time.Second, Keepalive: 3 * time.Second, ConnectRetry: 1500 * time.Millisecond},
			RestartTime: 10 * time.Second, MaxPrefixes: 1000,
		}},
		Announce: []routing.Announcement{{
			Prefix: netip.MustParsePrefix("10.244.1.0/24"), NextHop: netip.MustParseAddr("10.48.0.1"), To: "udm",
			Communities: []string{"64512:1", "no-export"}, LocalPreference: 200, MED: 7, Prepend: 2,
		}},
	}
}

func TestSpeakRoundTrip(t *testing.T) {
	var b bytes.Buffer
	want := sampleSpeak()
	if err := WriteOrder(&b, &Order{Sequence: 7, Order: &Order_Speak{Speak: FromSpeak(want)}}); err != nil {
		t.Fatal(err)
	}
	o, err := ReadOrder(bufio.NewReader(&b))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ToSpeak(o.GetSpeak())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, equal); d != "" || o.GetSequence() != 7 {
		t.Error(d)
	}
}

// Long lists of paths are cut into parts; every part fits.
func TestSessionRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, pathsPerReport, pathsPerReport + 1, 3 * pathsPerReport} {
		want := &routing.Session{
			Key: routing.SessionKey{Peer: "k8s-2", Family: routing.IPv6}, State: routing.Established, Since: time.Unix(1, 2),
			EndOfRIB: true, Cause: routing.CauseHoldTimer, Detail: "hold timer expired", PeerRestartTime: 10 * time.Second, Received: uint32(n),
			RouterID: netip.MustParseAddr("10.48.0.2"),
		}
		for i := range n {
			want.Paths = append(want.Paths, routing.Path{
				Prefix:  netip.MustParsePrefix(fmt.Sprintf("fd00:10:%x::/48", i)),
				NextHop: netip.MustParseAddr("fd00:48::2"), NoAdvertise: i%3 == 0, Notes: []routing.Notes{"", "0 1"}[i%2],
			})
		}
		var b bytes.Buffer
		for _, r := range FromSession(want) {
			if err := WriteReport(&b, r); err != nil {
				t.Fatal(err)
			}
		}
		var a Assembler
		var got *routing.Session
		for r := bufio.NewReader(&b); ; {
			m, err := ReadReport(r)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || got != nil {
				t.Fatal(err, got)
			}
			if got, err = a.Add(m.GetSession()); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(want, got, equal); d != "" {
			t.Errorf("%d paths: %s", n, d)
		}
	}
}

// What a peer makes us say for people is bounded and always encodes.
func TestDetailIsBounded(t *testing.T) {
	for _, detail := range []string{strings.Repeat("ü", 1000), "\xff\xfe broken", strings.Repeat("x", maxDetail-1) + "ü"} {
		r := FromSession(&routing.Session{Key: routing.SessionKey{Peer: "p", Family: routing.IPv4}, Detail: detail})
		if _, err := proto.Marshal(r[0]); err != nil || len(r[0].GetSession().GetDetail()) > maxDetail {
			t.Errorf("%q: %v", detail, err)
		}
	}
}

func TestToSpeakRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*Speak){
		"no AS number":       func(m *Speak) { m.Asn = 0 },
		"no router ID":       func(m *Speak) { m.RouterId = nil },
		"router ID":          func(m *Speak) { m.RouterId = make([]byte, 16) },
		"port":               func(m *Speak) { m.Port = 70000 },
		"listen":             func(m *Speak) { m.Listen[0].Address = []byte{1, 2, 3} },
		"family":             func(m *Speak) { m.Neighbors[0].Key.Family = 5 },
		"peer":               func(m *Speak) { m.Neighbors[0].Key.Peer = "" },
		"other family":       func(m *Speak) { m.Neighbors[0].Remote = []byte{10, 0, 0, 1} },
		"other local":        func(m *Speak) { m.Neighbors[0].Local = []byte{10, 0, 0, 1} },
		"multihop":           func(m *Speak) { m.Neighbors[0].Multihop = 256 },
		"negative hold":      func(m *Speak) { m.Neighbors[0].Hold.Seconds = -1 },
		"bits beyond":        func(m *Speak) { m.Announcements[0].Prefix.Length = 8 },
		"long prefix":        func(m *Speak) { m.Announcements[0].Prefix.Length = 33 },
		"next hop's family":  func(m *Speak) { m.Announcements[0].NextHop = make([]byte, 16) },
		"no next hop":        func(m *Speak) { m.Announcements[0].NextHop = nil },
		"prepend":            func(m *Speak) { m.Announcements[0].Prepend = 1000 },
		"no prefix":          func(m *Speak) { m.Announcements[0].Prefix = nil },
		"no key":             func(m *Speak) { m.Neighbors[0].Key = nil },
		"neighbour's number": func(m *Speak) { m.Neighbors[0].PeerAsn = 0 },
	} {
		m := FromSpeak(sampleSpeak())
		spoil(m)
		if _, err := ToSpeak(m); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAssemblerRefuses(t *testing.T) {
	key := &SessionKey{Peer: "p", Family: 4}
	other := &SessionKey{Peer: "q", Family: 4}
	for name, parts := range map[string][]*Session{
		"no beginning":    {{Key: key, Last: true}},
		"two beginnings":  {{Key: key, Begin: true}, {Key: key, Begin: true}},
		"another between": {{Key: key, Begin: true}, {Key: other, Last: true}},
		"state":           {{Key: key, Begin: true, State: 6}},
		"cause":           {{Key: key, Begin: true, Cause: 99}},
		"router ID":       {{Key: key, Begin: true, RouterId: make([]byte, 16)}},
		"half a router":   {{Key: key, Begin: true, RouterId: make([]byte, 3)}},
		"family":          {{Key: key, Begin: true, Paths: []*Path{{Prefix: &Prefix{Address: make([]byte, 16)}}}}},
	} {
		var a Assembler
		var err error
		for _, p := range parts {
			_, err = a.Add(p)
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestUnsentRoundTrip(t *testing.T) {
	six := routing.SessionKey{Peer: "k8s-2", Family: routing.IPv6}
	four := routing.SessionKey{Peer: "k8s-2", Family: routing.IPv4}
	var b bytes.Buffer
	m := FromUnsent([]routing.Session{{Key: six, Unsent: 7}, {Key: four}})
	if err := WriteReport(&b, &Report{Report: &Report_Unsent{Unsent: m}}); err != nil {
		t.Fatal(err)
	}
	r, err := ReadReport(bufio.NewReader(&b))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ToUnsent(r.GetUnsent())
	if err != nil || len(got) != 1 || got[six] != 7 {
		t.Errorf("%v, %v", got, err)
	}
	for name, bad := range map[string]*Unsent{
		"nothing": {Sessions: []*Outstanding{{Key: keyMessage(six)}}},
		"no key":  {Sessions: []*Outstanding{{Count: 1}}},
	} {
		if _, err := ToUnsent(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Whatever the speaker sends is refused or taken, never a panic, and what is
// taken is whole.
func FuzzParentDecode(f *testing.F) {
	var b bytes.Buffer
	for _, r := range FromSession(&routing.Session{
		Key: routing.SessionKey{Peer: "p", Family: routing.IPv4}, State: routing.Established, Since: time.Unix(5, 0),
		Paths: []routing.Path{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), NextHop: netip.MustParseAddr("10.0.0.1")}},
	}) {
		_ = WriteReport(&b, r)
	}
	f.Add(bytes.Clone(b.Bytes()))
	b.Reset()
	_ = WriteReport(&b, &Report{Report: &Report_Acknowledge{Acknowledge: &Acknowledge{Sequence: 3, Errors: []string{"no"}}}})
	_ = WriteReport(&b, &Report{Report: &Report_Condition{Condition: &Condition{Busy: []*Listen{{Address: []byte{1, 2, 3, 4}}}}}})
	_ = WriteReport(&b, &Report{Report: &Report_Renew{Renew: &Renew{Reason: "because"}}})
	_ = WriteReport(&b, &Report{Report: &Report_Unsent{Unsent: FromUnsent([]routing.Session{{Key: routing.SessionKey{Peer: "p", Family: routing.IPv4}, Unsent: 1}})}})
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		var a Assembler
		for r := bufio.NewReader(bytes.NewReader(data)); ; {
			m, err := ReadReport(r)
			if err != nil {
				return
			}
			if m.GetUnsent() != nil {
				_, _ = ToUnsent(m.GetUnsent())
				continue
			}
			s, err := a.Add(m.GetSession())
			if err != nil || s == nil {
				continue
			}
			_ = s.State.String() + s.Cause.String() + s.Key.String()
			for _, p := range s.Paths {
				if !p.Prefix.IsValid() || routing.FamilyOf(p.Prefix.Addr()) != s.Key.Family {
					t.Fatalf("path %v in session %s", p, s.Key)
				}
			}
		}
	})
}

// Whatever the daemon sends is refused or taken, and what is taken survives
// being written again.
func FuzzChildDecode(f *testing.F) {
	var b bytes.Buffer
	_ = WriteOrder(&b, &Order{Sequence: 1, Order: &Order_Speak{Speak: FromSpeak(sampleSpeak())}})
	f.Add(bytes.Clone(b.Bytes()))
	b.Reset()
	_ = WriteOrder(&b, &Order{Sequence: 2, Order: &Order_Stop{Stop: &Stop{}}})
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		for r := bufio.NewReader(bytes.NewReader(data)); ; {
			o, err := ReadOrder(r)
			if err != nil {
				return
			}
			s, err := ToSpeak(o.GetSpeak())
			if err != nil {
				continue
			}
			again, err := ToSpeak(FromSpeak(s))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(s, again, equal); d != "" {
				t.Fatal(d)
			}
		}
	})
}
