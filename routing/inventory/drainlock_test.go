package inventory_test

import (
	"encoding/json"
	"errors"
	"fmt"
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
	l, err := w.DrainLock("").ReadDrain(t.Context())
	must(t, err)
	return l
}

func writeLock(t *testing.T, w *watched, l *routing.DrainLease) *routing.DrainLease {
	t.Helper()
	l, err := w.DrainLock("").WriteDrain(t.Context(), l)
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
			Failure: routing.DrainFailure{
				Refused: []string{"k8s-1 is drained; since noon", "k8s-2 is not Ready"}, Late: true, Unreported: true,
				Question: &routing.BadQuestion{Field: "classes", Problem: "there is no class \"x\"", Missing: "x"},
			},
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

	if _, err := w.DrainLock("").WriteDrain(t.Context(), l); !errors.Is(err, routing.ErrDrainConflict) {
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
				l, err := w.DrainLock("").ReadDrain(t.Context())
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				if l.Holder != "" {
					return // it is too late
				}
				l.Holder = fmt.Sprintf("uid-%d/d%d", n, round)
				_, err = w.DrainLock("").WriteDrain(t.Context(), l)
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
	if _, err := w.DrainLock("").WriteDrain(t.Context(), l); err == nil || !strings.Contains(err.Error(), "apply rbac.yaml") || errors.Is(err, routing.ErrDrainConflict) {
		t.Errorf("made without the right to: %v", err)
	}

	admin := watchAPI(t, locking(s.Kubeconfig(t.TempDir(), kubeapi.Admin)))
	admin.until("missing", unusable("does not exist"))
	made := writeLock(t, admin, l)
	if made.Holder != "uid-1/d1" || made.Version == "" {
		t.Errorf("made: %+v", made)
	}
	w.until("there", held("uid-1/d1"))
	if _, err := admin.DrainLock("").WriteDrain(t.Context(), l); !errors.Is(err, routing.ErrDrainConflict) {
		t.Errorf("made twice: %v, want a conflict", err)
	}
	s.Do("DELETE", leasePath, "", nil)
	if _, err := admin.DrainLock("").WriteDrain(t.Context(), made); !errors.Is(err, routing.ErrDrainConflict) {
		t.Errorf("written after it was deleted: %v, want a conflict", err)
	}
	w.until("deleted", unusable("does not exist"))

	// One of another name is another lock.
	other := admin.DrainLock("kube-system/netclass-drain-2")
	second, err := other.ReadDrain(t.Context())
	must(t, err)
	second.Holder = "uid-2/d2"
	_, err = other.WriteDrain(t.Context(), second)
	must(t, err)
	second, err = other.ReadDrain(t.Context())
	must(t, err)
	if first := readLock(t, admin); second.Holder != "uid-2/d2" || first.Holder != "" || other.String() != "kube-system/netclass-drain-2" {
		t.Errorf("%s is held by %q, and the first by %q", other, second.Holder, first.Holder)
	}
	if _, err := w.DrainLock(other.String()).ReadDrain(t.Context()); err == nil || !strings.Contains(err.Error(), "drain lease kube-system/netclass-drain-2: the API server does not allow it") {
		t.Errorf("read without the right to: %v", err)
	}
}
