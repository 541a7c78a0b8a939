package inventory_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"netclass.dev/routing/inventory"
)

// TestKubernetesGone has watches end with 410 Gone, both in the answer and in the
// stream, which a real API server does only after hours.
func TestKubernetesGone(t *testing.T) {
	t.Parallel()
	const gone = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}`
	var lists, watches atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch q := r.URL.Query(); {
		case q.Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case q.Get("watch") == "":
			n := lists.Add(1)
			fmt.Fprintf(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"%d0"},"items":[{"metadata":{"name":"n%d"}}]}`, n, n)
		default:
			switch watches.Add(1) {
			case 1:
				fmt.Fprintf(w, `{"type":"ERROR","object":%s}`, gone)
			case 2:
				w.WriteHeader(http.StatusGone)
				fmt.Fprint(w, gone)
			default:
				w.WriteHeader(http.StatusOK)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
		}
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	write(t, filepath.Join(folder, "kubeconfig"), fmt.Sprintf(`{"clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"x","context":{"cluster":"c"}}],"users":[]}`, server.URL))
	w := watchAPI(t, inventory.KubernetesOptions{Kubeconfig: filepath.Join(folder, "kubeconfig"), Context: "x"})
	t.Cleanup(w.stop) // before the server, which waits for its watch to end
	w.until("twice gone", has("n3 [] [] map[]"))
}
