package interop

import (
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
)

// A prefix that one of several loses is withdrawn from that one alone: the others
// hear of it again, but never that it has gone.
func TestOneLoses(t *testing.T) {
	l := newLAN(t)
	a, b, c, raw := l.host(1), l.host(2), l.host(3), l.host(9)
	atFRR := b.frr(64513, frrPeer{to: a, asn: asn})
	atBIRD := c.bird(asn, birdPeer{to: a, asn: asn})
	s := a.speaker()
	p := prefix("10.99.0.0/24")
	speak := func(to ...string) *routing.Speak {
		want := a.speak(b, c, raw)
		router(want, b, 64513, func(*routing.Neighbor) {})
		router(want, raw, asn, func(n *routing.Neighbor) { n.Passive = true })
		want.Announce = nil
		for _, x := range to {
			want.Announce = append(want.Announce, routing.Announcement{Prefix: p, NextHop: a.v4, To: x, Communities: []string{"64512:7"}})
		}
		return want
	}
	set(t, s, speak(raw.name()))
	var wire *rawPeer
	eventually(t, 5*time.Second, func() string {
		x, err := raw.dialRaw(a.v4)
		if err == nil {
			err = x.establish(raw, routing.IPv4, 90)
		}
		if err != nil {
			return err.Error()
		}
		wire = x
		return ""
	})
	defer wire.Close()
	withdrawn := make(chan []byte)
	go func() {
		for {
			typ, body, err := wire.read()
			if err != nil || typ == 2 && (body[0] != 0 || body[1] != 0) {
				withdrawn <- body
				return
			}
		}
	}()
	eventually(t, 15*time.Second, established(s, key(b, routing.IPv4), key(c, routing.IPv4)))
	atMesh, atRouter := atBIRD.has(p, a.v4), atFRR.has(routing.IPv4, p, a.v4)
	none := func(has func() string) func() string {
		return func() string {
			if has() == "" {
				return "it still has " + p.String()
			}
			return ""
		}
	}
	mesh := ""
	for _, step := range []struct {
		to            []string
		atMesh, atFRR bool
	}{
		{to: []string{raw.name(), mesh, b.name()}, atMesh: true, atFRR: true},
		{to: []string{raw.name(), mesh}, atMesh: true},
		{to: []string{raw.name(), b.name()}, atFRR: true}, // one loses it, one gets it
		{to: []string{raw.name(), b.name(), mesh}, atMesh: true, atFRR: true},
		{to: []string{raw.name(), b.name()}, atFRR: true},
		{to: []string{raw.name()}},
	} {
		set(t, s, speak(step.to...))
		for has, wanted := range map[*func() string]bool{&atMesh: step.atMesh, &atRouter: step.atFRR} {
			if wanted {
				eventually(t, 2*time.Second, *has)
			} else {
				eventually(t, 2*time.Second, none(*has))
			}
		}
		if out := atBIRD.routes(p); step.atMesh && !strings.Contains(out, "BGP.origin: IGP") {
			t.Errorf("%q: %s", step.to, out)
		}
		select {
		case body := <-withdrawn:
			t.Fatalf("%q: withdrawn from whom it is for: %x", step.to, body)
		default:
		}
	}
	set(t, s, speak())
	select {
	case <-withdrawn:
	case <-time.After(2 * time.Second):
		t.Error("not withdrawn in the end")
	}
}
