package inventory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/inventory"
	"netclass.dev/test/kubeapi"
)

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/netclass-drain"

// locking is what a source is asked for where there is a lock.
func locking(kubeconfig string) inventory.KubernetesOptions {
	return inventory.KubernetesOptions{Kubeconfig: kubeconfig, Lease: inventory.LeaseName{Namespace: "kube-system", Name: "netclass-drain"}}
}

// shipped applies what is shipped and returns a kubeconfig with its rights.
func shipped(t *testing.T, s *kubeapi.Server) string {
	rights(s, false)
	return s.Kubeconfig(t.TempDir(), s.ServiceAccountToken("netclass", "netclassd"))
}

func readLock(t *testing.T, w *watched) *routing.DrainLease {
	t.Helper()
	l, err := w.ReadDrain(t.Context())
	must(t, err)
	return l
}

func writeLock(t *testing.T, w *watched, l *routing.DrainLease) *routing.DrainLease {
	t.Helper()
	l, err := w.WriteDrain(t.Context(), l)
	must(t, err)
	return l
}

func held(holder string) func(*routing.Inventory) bool {
	return func(i *routing.Inventory) bool {
		return i.Drain != nil && i.Drain.Unusable == "" && i.Drain.Holder == holder
	}
}

func request() *routing.DrainRequest {
	grace := 90 * time.Second
	return &routing.DrainRequest{
		ID: "d1", Node: "k8s-3", Reason: "new <disk> & \"fans\"", Classes: []string{"pod-pod", "world-pod"}, Grace: &grace, KeepEgress: true,
		Force: true, Holder: "k8s-2", By: "uid 0 (netclassctl, pid 812)", Cordon: true, At: time.Date(2026, 11, 30, 12, 0, 0, 5000, time.UTC),
	}
}

func status() *routing.DrainStatus {
	at := time.Date(2026, 11, 30, 12, 0, 1, 0, time.UTC)
	return &routing.DrainStatus{
		Request: *request(), Since: at, Lock: "lease kube-system/netclass-drain",
		Progress: routing.DrainProgress{
			Phase: routing.DrainGoing, Step: routing.DrainMesh, Message: "waiting for quiet", Costs: []string{"pod egress moves", "flows are re-hashed"},
			Rates: []routing.LinkRate{{Link: "pod0", Received: 12.5, Sent: 0.25}}, At: at, Error: "none",
		},
	}
}

// TestDrainLock takes the lock, says all there is to say, and frees it, with
// exactly the rights that are shipped.
func TestDrainLock(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "", ""))
	w := watchAPI(t, locking(shipped(t, s)))
	w.until("free", held(""))
	s.Do("PATCH", leasePath, "application/merge-patch+json", `{"metadata":{"annotations":{"theirs":"x"},"labels":{"theirs":"y"}},"spec":{"leaseDurationSeconds":60}}`)
	l := readLock(t, w)
	if l.Holder != "" || l.Request != nil || l.Status != nil || l.Unusable != "" || l.Malformed != "" || l.Version == "" {
		t.Fatalf("free: %+v", l)
	}
	l.Holder, l.Request, l.Status = "uid-3/d1", request(), status()
	taken := writeLock(t, w, l)
	for what, got := range map[string]*routing.DrainLease{"written": taken, "read": readLock(t, w)} {
		want := routing.DrainLease{Holder: "uid-3/d1", Request: request(), Status: status(), Version: taken.Version}
		if text(t, *got) != text(t, want) {
			t.Errorf("%s: %s\nwant %s", what, text(t, *got), text(t, want))
		}
	}
	w.until("taken", held("uid-3/d1"))
	if text(t, *w.Inventory().Drain) != text(t, *taken) {
		t.Errorf("watched: %s", text(t, *w.Inventory().Drain))
	}
	first := spec(t, s)
	if first["leaseDurationSeconds"] != nil || first["leaseTransitions"] != 1.0 || first["acquireTime"] == nil || first["renewTime"] == nil {
		t.Errorf("spec of the lease: %v", first)
	}

	if _, err := w.WriteDrain(t.Context(), l); !errors.Is(err, routing.ErrDrainConflict) {
		t.Errorf("written over: %v, want a conflict", err)
	}
	if again := writeLock(t, w, taken); again.Version != taken.Version {
		t.Errorf("what changes nothing is written: version %s, then %s", taken.Version, again.Version)
	}
	taken.Status.Progress.Message = "quiet"
	writeLock(t, w, taken)
	if now := spec(t, s); now["acquireTime"] != first["acquireTime"] || now["renewTime"] == first["renewTime"] || now["leaseTransitions"] != 1.0 {
		t.Errorf("spec of the lease, renewed: %v, before %v", now, first)
	}
	rights(s, false) // a new release is applied
	if taken = readLock(t, w); taken.Holder != "uid-3/d1" || taken.Status == nil {
		t.Errorf("applied again: %s", text(t, *taken))
	}

	taken.Holder, taken.Request = "", nil
	taken = writeLock(t, w, taken)
	w.until("freed", held(""))
	if now := spec(t, s); now["holderIdentity"] != nil || now["acquireTime"] != nil || now["leaseTransitions"] != 1.0 {
		t.Errorf("spec of the lease, freed: %v", now)
	}
	var object struct {
		Metadata struct{ Labels, Annotations map[string]string }
	}
	must(t, json.Unmarshal(s.Do("GET", leasePath, "", nil), &object))
	if m := object.Metadata; m.Labels["theirs"] != "y" || m.Annotations["theirs"] != "x" || len(m.Annotations) != 2 {
		t.Errorf("labels and annotations: %v", m)
	}
	taken.Holder = "uid-1/d2"
	writeLock(t, w, taken)
	if now := spec(t, s); now["leaseTransitions"] != 2.0 {
		t.Errorf("spec of the lease, taken again: %v", now)
	}
}

// text writes a lease with all that it points to.
func text(t *testing.T, l routing.DrainLease) string {
	t.Helper()
	b, err := json.Marshal(l)
	must(t, err)
	return string(b)
}

func spec(t *testing.T, s *kubeapi.Server) map[string]any {
	t.Helper()
	var object struct{ Spec map[string]any }
	must(t, json.Unmarshal(s.Do("GET", leasePath, "", nil), &object))
	return object.Spec
}

// TestDrainLockContended has twenty take the lock at once, several times: one wins.
func TestDrainLockContended(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "", ""))
	w := watchAPI(t, locking(shipped(t, s)))
	w.until("free", held(""))
	for round := range 5 {
		var won []string
		var mu sync.Mutex
		var all sync.WaitGroup
		begin := make(chan struct{})
		for n := range 20 {
			all.Go(func() {
				<-begin
				l, err := w.ReadDrain(t.Context())
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				if l.Holder != "" {
					return // it is too late
				}
				l.Holder = fmt.Sprintf("uid-%d/d%d", n, round)
				_, err = w.WriteDrain(t.Context(), l)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won = append(won, l.Holder)
				case !errors.Is(err, routing.ErrDrainConflict):
					t.Errorf("write: %v", err)
				}
			})
		}
		close(begin)
		all.Wait()
		l := readLock(t, w)
		if len(won) != 1 || l.Holder != won[0] {
			t.Fatalf("round %d: won by %v, held by %q", round, won, l.Holder)
		}
		l.Holder = ""
		writeLock(t, w, l)
	}
}

// TestDrainLockMissing has no Lease at first, and then no right to make one.
func TestDrainLockMissing(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "", ""))
	kubeconfig := shipped(t, s)
	s.Do("DELETE", leasePath, "", nil)
	w := watchAPI(t, locking(kubeconfig))
	unusable := func(reason string) func(*routing.Inventory) bool {
		return func(i *routing.Inventory) bool {
			return has("a [] [] map[]")(i) && i.Drain != nil && strings.Contains(i.Drain.Unusable, reason)
		}
	}
	w.until("missing", unusable("lease kube-system/netclass-drain does not exist: apply rbac.yaml"))
	l := readLock(t, w)
	if l.Version != "" || l.Holder != "" || !strings.Contains(l.Unusable, "does not exist") {
		t.Errorf("missing: %+v", l)
	}
	l.Holder = "uid-1/d1"
	if _, err := w.WriteDrain(t.Context(), l); err == nil || !strings.Contains(err.Error(), "apply rbac.yaml") || errors.Is(err, routing.ErrDrainConflict) {
		t.Errorf("made without the right to: %v", err)
	}

	admin := watchAPI(t, locking(s.Kubeconfig(t.TempDir(), kubeapi.Admin)))
	admin.until("missing", unusable("does not exist"))
	made := writeLock(t, admin, l)
	if made.Holder != "uid-1/d1" || made.Version == "" {
		t.Errorf("made: %+v", made)
	}
	w.until("there", held("uid-1/d1"))
	if _, err := admin.WriteDrain(t.Context(), l); !errors.Is(err, routing.ErrDrainConflict) {
		t.Errorf("made twice: %v, want a conflict", err)
	}
	s.Do("DELETE", leasePath, "", nil)
	if _, err := admin.WriteDrain(t.Context(), made); !errors.Is(err, routing.ErrDrainConflict) {
		t.Errorf("written after it was deleted: %v, want a conflict", err)
	}
	w.until("deleted", unusable("does not exist"))
}

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
	if _, err := w.ReadDrain(t.Context()); err == nil || !strings.Contains(err.Error(), "apply rbac.yaml") {
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
	if _, err := w.ReadDrain(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
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
	if _, err := k.ReadDrain(context.Background()); err == nil || !strings.Contains(err.Error(), "no connection") {
		t.Errorf("read: %v", err)
	}
	if _, err := k.WriteDrain(context.Background(), &routing.DrainLease{}); err == nil || !strings.Contains(err.Error(), "no connection") {
		t.Errorf("write: %v", err)
	}
	for what, l := range map[string]*routing.DrainLease{
		"no node":       {Request: &routing.DrainRequest{ID: "d"}},
		"longer than":   {Request: &routing.DrainRequest{ID: "d", Node: "a", Classes: long(32)}},
		"32 classes":    {Request: &routing.DrainRequest{ID: "d", Node: "a", Classes: long(33)}},
		"no holder":     {Holder: "a\n"},
		"phase \"\" is": {Status: &routing.DrainStatus{Request: routing.DrainRequest{ID: "d", Node: "a"}}},
	} {
		if _, err := k.WriteDrain(context.Background(), l); err == nil || !strings.Contains(err.Error(), what) {
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
