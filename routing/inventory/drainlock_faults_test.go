package inventory_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/inventory"
	"netclass.dev/test/kubeapi"
)

// TestDrainLockRefused has no right to the Lease, and then another server away.
func TestDrainLockRefused(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Down()
	s.Allow("mere", kubeapi.User{Name: "mere"})
	s.Up()
	s.Apply(nodeYAML("a", "", ""))
	s.Apply(strings.ReplaceAll(bind, "RULES", `{apiGroups: [""], resources: [nodes], verbs: [list, watch]}`))
	w := watchAPI(t, locking(s.Kubeconfig(t.TempDir(), "mere")))
	w.until("refused", func(i *routing.Inventory) bool {
		return has("a [] [] map[]")(i) && i.Drain != nil && strings.Contains(i.Drain.Unusable, "does not allow it") && strings.Contains(i.Drain.Unusable, "rbac.yaml")
	})
	if _, err := w.DrainLock("").ReadDrain(t.Context()); err == nil || !strings.Contains(err.Error(), "apply rbac.yaml") {
		t.Errorf("read: %v", err)
	}
	rights(s, false)
	s.Apply(strings.ReplaceAll(bind, "RULES", `{apiGroups: ["", coordination.k8s.io], resources: [nodes, leases], verbs: [get, list, watch, update]}`))
	w.until("granted", held(""))
	l := readLock(t, w)
	l.Holder = "uid-1/d1"
	writeLock(t, w, l)
	w.until("taken", held("uid-1/d1"))
	s.Down()
	w.until("away", func(i *routing.Inventory) bool {
		return i.Drain.Holder == "uid-1/d1" && strings.Contains(i.Drain.Unusable, "connection refused")
	})
	if _, err := w.DrainLock("").ReadDrain(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("read while it is away: %v", err)
	}
	s.Up()
	w.until("there again", held("uid-1/d1"))
}

// TestDrainLockMalformed writes into the Lease what no release of ours does.
func TestDrainLockMalformed(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "", ""))
	w := watchAPI(t, locking(shipped(t, s)))
	w.until("free", held(""))
	put := func(annotation, text string) {
		s.Do("PATCH", leasePath, "application/merge-patch+json", map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{annotation: text}}, "spec": map[string]any{"holderIdentity": "uid-1/d1"},
		})
	}
	malformed := func(what string) func(*routing.Inventory) bool {
		return func(i *routing.Inventory) bool {
			return held("uid-1/d1")(i) && i.Drain.Request == nil && i.Drain.Status == nil && strings.Contains(i.Drain.Malformed, what)
		}
	}
	const r, st = "netclass.dev/drain-request", "netclass.dev/drain-status"
	put(r, "{")
	w.until("no JSON", malformed("annotation "+r+" is ignored: "))
	put(r, `{"id":"d1","node":"a","reason":"`+strings.Repeat("x", 9000)+`"}`)
	w.until("too large", malformed("longer than 8192 bytes"))
	put(r, `{"id":"d1"}`)
	w.until("no node", malformed("it names no node"))
	put(r, `{"id":"d1","node":"a\u001b[2J"}`)
	w.until("a node that is none", malformed(`"a\x1b[2J" is no name`))
	put(r, `{"id":"d1","node":"a","grace":"-1s"}`)
	w.until("a time before it began", malformed("-1s is not from 0"))
	put(st, `{"request":{"id":"d1","node":"a"},"phase":"Sleeping","step":"None"}`)
	w.until("another phase", malformed(`the phase "Sleeping" is not known`))

	// What cannot be read stays as long as nobody has something else to say.
	l := readLock(t, w)
	l.Holder = "uid-2/d2"
	l = writeLock(t, w, l)
	if answer := string(s.Do("GET", leasePath, "", nil)); !strings.Contains(answer, "Sleeping") {
		t.Errorf("another release's status is gone: %s", answer)
	}
	l.Holder, l.Status = "uid-1/d1", status()
	writeLock(t, w, l)
	put(r, `{"id":"d1","node":"a","reason":"\u001b]0;evil\u0007 two\nlines `+strings.Repeat("é", 200)+`","unknown":1}`)
	w.until("tamed", func(i *routing.Inventory) bool {
		r := i.Drain.Request
		return i.Drain.Malformed == "" && i.Drain.Status != nil && r != nil && len(r.Reason) <= 256 &&
			strings.HasPrefix(r.Reason, "]0;evil two lines éé") && strings.HasSuffix(r.Reason, "é…")
	})
}

// TestDrainLockUnconnected has no connection to write the lock through.
func TestDrainLockUnconnected(t *testing.T) {
	t.Parallel()
	opt := locking("/nowhere")
	opt.Log = slog.New(slog.DiscardHandler)
	k := inventory.NewKubernetes(opt)
	if _, err := k.DrainLock("").ReadDrain(context.Background()); err == nil || !strings.Contains(err.Error(), "no connection") {
		t.Errorf("read: %v", err)
	}
	if _, err := k.DrainLock("").WriteDrain(context.Background(), &routing.DrainLease{}); err == nil || !strings.Contains(err.Error(), "no connection") {
		t.Errorf("write: %v", err)
	}
	for what, l := range map[string]*routing.DrainLease{
		"no node":       {Request: &routing.DrainRequest{ID: "d"}},
		"longer than":   {Request: &routing.DrainRequest{ID: "d", Node: "a", Classes: long(32)}},
		"32 classes":    {Request: &routing.DrainRequest{ID: "d", Node: "a", Classes: long(33)}},
		"no holder":     {Holder: "a\n"},
		"phase \"\" is": {Status: &routing.DrainStatus{Request: routing.DrainRequest{ID: "d", Node: "a"}}},
	} {
		if _, err := k.DrainLock("").WriteDrain(context.Background(), l); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want %q: %v", what, err)
		}
	}
}

func long(n int) []string {
	var all []string
	for range n {
		all = append(all, strings.Repeat(`"`, 250))
	}
	return all
}
