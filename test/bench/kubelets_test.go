package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"netclass.dev/routing"
	"netclass.dev/test/kubeapi"
	"netclass.dev/test/lab"
)

// kubelets make and change the Nodes of a large cluster. A request on a
// connection of its own for each would measure TLS.
type kubelets struct {
	b      *testing.B
	client *http.Client
	url    string
	beats  atomic.Int64
	images func() []any
}

func newKubelets(b *testing.B, api *kubeapi.Server) *kubelets {
	b.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", api.Kubeconfig(b.TempDir(), kubeapi.Admin))
	if err != nil {
		b.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.CloseIdleConnections)
	return &kubelets{b: b, client: client, url: api.URL(), images: sync.OnceValue(images)}
}

// each calls do for the nodes 1 to count, some at a time.
func (k *kubelets) each(count int, do func(n int) error) {
	k.b.Helper()
	var g errgroup.Group
	g.SetLimit(16)
	for n := 1; n <= count; n++ {
		g.Go(func() error { return do(n) })
	}
	if err := g.Wait(); err != nil {
		k.b.Fatal(err)
	}
}

// images are a node's, which are most of a Node.
func images() []any {
	var all []any
	for i := range 50 {
		all = append(all, map[string]any{"sizeBytes": 1 << 20 * i, "names": []any{
			fmt.Sprintf("registry.example.org/team-%d/application@sha256:%064x", i, i), fmt.Sprintf("registry.example.org/team-%d/application:v1.%d.0", i, i),
		}})
	}
	return all
}

// create makes node n as it is in the nodes file, with as much else in it as
// Nodes have.
func (k *kubelets) create(n int) error {
	var cidrs []string
	addresses := []any{map[string]any{"type": "Hostname", "address": lab.NodeName(n)}}
	for _, f := range routing.Families {
		cidrs = append(cidrs, pods(n, f).String())
		addresses = append(addresses, map[string]any{"type": "InternalIP", "address": peerNet(lab.NodeNet, n, f).Addr()})
	}
	return k.send("POST", "", "application/json", map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{
			"name": lab.NodeName(n), "annotations": annotations(n, 0),
			"labels": map[string]any{"kubernetes.io/hostname": lab.NodeName(n), "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": fmt.Sprint("zone-", n%3)},
		},
		"spec":   map[string]any{"podCIDR": cidrs[0], "podCIDRs": cidrs},
		"status": map[string]any{"addresses": addresses, "conditions": conditions(0), "images": k.images()},
	})
}

func annotations(n, shift int) map[string]string {
	return map[string]string{
		"example.org/pod0-v4": peerNet(lab.PodNet, n+shift, routing.IPv4).Addr().String(),
		"example.org/pod0-v6": peerNet(lab.PodNet, n+shift, routing.IPv6).Addr().String(),
	}
}

// annotate moves node n on pod0.
func (k *kubelets) annotate(n, shift int) error {
	return k.send("PATCH", "/"+lab.NodeName(n), "application/merge-patch+json",
		map[string]any{"metadata": map[string]any{"annotations": annotations(n, shift)}})
}

// heartbeat is what a kubelet reports every few minutes at the latest.
func (k *kubelets) heartbeat(n int) error {
	return k.send("PATCH", "/"+lab.NodeName(n)+"/status", "application/strategic-merge-patch+json",
		map[string]any{"status": map[string]any{"conditions": conditions(k.beats.Add(1))}})
}

func conditions(beat int64) []any {
	var all []any
	for _, kind := range []string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"} {
		all = append(all, map[string]any{
			"type": kind, "status": "False", "reason": "Kubelet" + kind, "message": fmt.Sprintf("report %d", beat),
			"lastHeartbeatTime": time.Now().UTC().Format(time.RFC3339), "lastTransitionTime": "2026-01-01T00:00:00Z",
		})
	}
	return all
}

func (k *kubelets) send(method, path, contentType string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, k.url+"/api/v1/nodes"+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType)
	answer, err := k.client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: status %d: %s", method, req.URL.Path, answer.StatusCode, text)
	}
	return err
}
