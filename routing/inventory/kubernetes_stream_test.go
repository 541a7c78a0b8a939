package inventory_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"netclass.dev/routing/inventory"
)

// streamed is a Node of that version, in one event of a watch.
func streamed(kind, name, cidr string, version int) string {
	return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"v1","kind":"Node","metadata":{"name":%q,"resourceVersion":"%d"},"spec":{"podCIDRs":[%q]}}}`,
		kind, name, version, cidr)
}

// TestKubernetesStream has an API server that streams what there is, as those do
// whose etcd is new enough; the one that the other tests have does not. Nothing is
// listed.
func TestKubernetesStream(t *testing.T) {
	t.Parallel()
	events := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if r.URL.Path != "/api/v1/nodes" || query.Get("watch") != "true" || query.Get("sendInitialEvents") != "true" {
			t.Errorf("asked for %s", r.URL)
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		for {
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
			select {
			case e := <-events:
				_, _ = fmt.Fprintln(w, e)
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q}}]
users: [{name: test, user: {}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := watchAPI(t, inventory.KubernetesOptions{Kubeconfig: kubeconfig})
	events <- streamed("ADDED", "b", "10.0.2.0/24", 2)
	events <- streamed("ADDED", "a", "10.0.1.0/24", 3)
	w.quiet("before the end of what there is", 300*time.Millisecond)
	events <- `{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"Node","metadata":{"resourceVersion":"4","annotations":{"k8s.io/initial-events-end":"true"}}}}`
	w.until("streamed", has("a [10.0.1.0/24] [] map[]", "b [10.0.2.0/24] [] map[]"))
	events <- streamed("ADDED", "c", "10.0.3.0/24", 5)
	events <- streamed("MODIFIED", "a", "10.0.9.0/24", 6)
	events <- streamed("DELETED", "b", "10.0.2.0/24", 7)
	w.until("changed", has("a [10.0.9.0/24] [] map[]", "c [10.0.3.0/24] [] map[]"))
}
