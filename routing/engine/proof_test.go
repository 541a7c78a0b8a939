package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/promise"
)

// TestProofsInOrder: of two looks that overtake each other the newer counts.
func TestProofsInOrder(t *testing.T) {
	t.Parallel()
	var v verifier
	v.init(nil)
	early, late := &routing.Verification{}, &routing.Verification{}
	at := time.Unix(1000, 0)
	if !v.learn(late, at) || v.learn(early, at.Add(-time.Second)) || v.newest() != late {
		t.Error("an older look has taken the place of a newer one")
	}
	if !v.learn(early, at) || v.newest() != early {
		t.Error("a second look at the same time does not count")
	}
	if !v.learn(nil, at.Add(time.Second)) || v.learn(late, at) || v.newest() != nil {
		t.Error("what was found before there was nothing to find counts")
	}
}

// TestTurnsAreNoNews: that other flows have had their turn wakes nobody.
func TestTurnsAreNoNews(t *testing.T) {
	t.Parallel()
	found := func(checked int, reason string) *routing.Verification {
		return &routing.Verification{Promises: []routing.Promise{{Class: "pod-pod", Checked: checked, Reason: reason}}}
	}
	if news(found(3, ""), found(5, "")) || !news(found(3, ""), found(3, "by node0")) || !news(nil, found(3, "")) {
		t.Error("news are told from turns wrongly")
	}
}

// mute is a speaker of whom nothing is wanted.
type mute struct{}

func (mute) Set(context.Context, *routing.Speak) error { return nil }
func (mute) Sessions() []routing.Session               { return nil }
func (mute) Status() routing.SpeakerStatus             { return routing.SpeakerStatus{} }
func (mute) Close(bool) error                          { return nil }

// hook is a log that does something when it is written to.
type hook func()

func (h hook) Write(b []byte) (int, error) { h(); return len(b), nil }

// TestProofWhileAStateIsMade: what is found while a state is put together is in the
// next that is shown, be it the same one made over or that of a pass.
func TestProofWhileAStateIsMade(t *testing.T) {
	t.Parallel()
	for name, proven := range map[string]bool{"no news": true, "news": false} {
		old := &routing.Verification{Router: routing.RouterProof{Proven: true}}
		found := &routing.Verification{Router: routing.RouterProof{Proven: proven}}
		now := time.Now()
		var e *Engine
		log := hook(func() { e.conclude(found, e.State(), now) })
		e = New(Options{
			Speaker: mute{}, Node: func(*routing.Config) string { return "k8s-1" },
			Log: slog.New(slog.NewTextHandler(log, nil)),
		})
		e.verifier.learn(old, now)
		e.draining, e.kernel = &drain{}, &routing.Kernel{}
		conf := &configuration{config: &routing.Config{Guard: &routing.Guard{}}}
		e.conditions.begin(now.Add(time.Minute))
		e.publish(conf, &routing.Plan{}, nil)
		e.conditions.begin(now.Add(time.Minute))
		e.conditions.add("kernel", "ChangeRefused", "so that the log is written to")
		e.publish(conf, &routing.Plan{}, nil)
		shown := e.State().Verified == found
		asked := len(e.wake) > 0
		if shown != proven || asked == proven {
			t.Errorf("%s: shown %v, a pass is asked for %v", name, shown, asked)
		}
	}
}

// away is a kernel that does not answer.
type away struct{}

func (away) Lookup(context.Context, []routing.Flow) ([]routing.Answer, error) {
	return nil, errors.New("netlink is away")
}

// TestChangesOutliveALookThatFails: what passes have changed is looked at by the
// next round that can.
func TestChangesOutliveALookThatFails(t *testing.T) {
	t.Parallel()
	e := New(Options{Speaker: mute{}, Oracle: away{}, Log: slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil))})
	dst := netip.MustParsePrefix("10.244.2.0/24")
	e.verifier.passed([]routing.Op{{Route: routing.Route{Dst: dst}}}, false)
	config := &routing.Config{
		Networks: []routing.Network{{Name: "pods", Prefixes: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}},
		Guard:    &routing.Guard{Networks: []string{"pods"}},
	}
	view := promise.New(promise.Inputs{Config: config, Node: "k8s-1", Inventory: &routing.Inventory{Nodes: []routing.Node{
		{Name: "k8s-1", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}}, {Name: "k8s-2", PodCIDRs: []netip.Prefix{dst}},
	}}, Kernel: &routing.Kernel{}, Plan: &routing.Plan{}})
	if _, err := e.round(t.Context(), view, 0); err == nil || !e.verifier.changed[dst] {
		t.Errorf("%v; still to be looked at: %v", err, e.verifier.changed)
	}
}
