package inventory_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/inventory"
	"netclass.dev/test/kubeapi"
)

// watched is a source under Run, with its notifications.
type watched struct {
	*inventory.Kubernetes
	t        testing.TB
	notified chan struct{}
	stop     func()
}

func watchAPI(t *testing.T, opt inventory.KubernetesOptions) *watched {
	t.Helper()
	if opt.PodCIDRs == "" {
		opt.PodCIDRs = "node"
	}
	opt.Annotations = []string{"example.org/a4", "example.org/a6"}
	opt.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	return watching(t, opt)
}

func watching(t testing.TB, opt inventory.KubernetesOptions) *watched {
	w := &watched{Kubernetes: inventory.NewKubernetes(opt), t: t, notified: make(chan struct{}, 10000)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		w.Run(ctx, func() { w.notified <- struct{}{} })
		close(done)
	}()
	w.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(w.stop)
	return w
}

// until waits until the inventory is as wanted.
func (w *watched) until(what string, ok func(*routing.Inventory) bool) {
	w.t.Helper()
	deadline := time.After(90 * time.Second)
	for !ok(w.Inventory()) {
		select {
		case <-w.notified:
		case <-deadline:
			w.t.Fatalf("%s: still %s", what, show(w.Inventory()))
		}
	}
}

// quiet fails if anything is told of in d.
func (w *watched) quiet(what string, d time.Duration) {
	w.t.Helper()
	for len(w.notified) > 0 {
		<-w.notified
	}
	select {
	case <-w.notified:
		w.t.Errorf("%s: notified, %s", what, show(w.Inventory()))
	case <-time.After(d):
	}
}

// show writes an inventory in lines, a node each.
func show(i *routing.Inventory) string {
	var b strings.Builder
	fmt.Fprintf(&b, "synced=%v stale=%q", i.Synced, i.Stale)
	for _, n := range i.Nodes {
		fmt.Fprintf(&b, "\n%s", line(n))
	}
	return b.String()
}

func line(n routing.Node) string {
	return fmt.Sprintf("%s %v %v %v", n.Name, n.PodCIDRs, n.InternalIPs, n.Annotations)
}

// has wants nodes, each as a line, read and not stale.
func has(lines ...string) func(*routing.Inventory) bool {
	return func(i *routing.Inventory) bool {
		if !i.Synced || i.Stale != "" || !i.AsOf.IsZero() || len(i.Nodes) != len(lines) {
			return false
		}
		for at := range lines {
			if line(i.Nodes[at]) != lines[at] {
				return false
			}
		}
		return true
	}
}

func nodeYAML(name, cidrs, annotations string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s, annotations: {%s}}\nspec: {podCIDRs: [%s]}\n", name, annotations, cidrs)
}

// setIP sets a node's InternalIP, as its kubelet does.
func setIP(s *kubeapi.Server, name, ip string) {
	s.Do("PATCH", "/api/v1/nodes/"+name+"/status", "application/merge-patch+json",
		map[string]any{"status": map[string]any{"addresses": []any{
			map[string]any{"type": "Hostname", "address": name}, map[string]any{"type": "InternalIP", "address": ip},
		}}})
}

func annotate(s *kubeapi.Server, name, patch string) {
	s.Do("PATCH", "/api/v1/nodes/"+name, "application/merge-patch+json", `{"metadata":{"annotations":{`+patch+`}}}`)
}

// heartbeat is what a kubelet reports all the time.
func heartbeat(s *kubeapi.Server, name string, i int) {
	s.Do("PATCH", "/api/v1/nodes/"+name+"/status", "application/strategic-merge-patch+json",
		map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "KubeletReady", "message": fmt.Sprint(i),
			"lastHeartbeatTime": time.Now().UTC().Format(time.RFC3339),
		}}, "images": []any{map[string]any{"names": []any{fmt.Sprint("image", i)}, "sizeBytes": i}}}})
}

// TestKubernetesNodes has everything happen to Nodes that does.
func TestKubernetesNodes(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	w := watchAPI(t, inventory.KubernetesOptions{Kubeconfig: s.Kubeconfig(t.TempDir(), kubeapi.Admin), StateDir: t.TempDir()})
	w.until("none", has())

	s.Apply(nodeYAML("b", `10.0.2.0/24, "fd00:2::/64"`, `example.org/a4: " 10.48.0.2 ", other: x`))
	w.until("added", has("b [10.0.2.0/24 fd00:2::/64] [] map[example.org/a4:10.48.0.2]"))
	setIP(s, "b", "10.46.0.2")
	s.Apply(nodeYAML("a", "", ""))
	w.until("without a pod CIDR", has("a [] [] map[]", "b [10.0.2.0/24 fd00:2::/64] [10.46.0.2] map[example.org/a4:10.48.0.2]"))
	s.Do("PATCH", "/api/v1/nodes/a", "application/merge-patch+json", `{"spec":{"podCIDR":"10.0.2.0/24","podCIDRs":["10.0.2.0/24"]}}`)
	w.until("late, and another's as well", has("a [10.0.2.0/24] [] map[]", "b [10.0.2.0/24 fd00:2::/64] [10.46.0.2] map[example.org/a4:10.48.0.2]"))

	for i := range 30 {
		heartbeat(s, "b", i)
	}
	annotate(s, "b", `"other":"y"`)
	w.quiet("heartbeats", 500*time.Millisecond)

	annotate(s, "b", `"example.org/a4":"nonsense"`)
	w.until("mistyped", has("a [10.0.2.0/24] [] map[]", "b [10.0.2.0/24 fd00:2::/64] [10.46.0.2] map[example.org/a4:nonsense]"))
	annotate(s, "b", `"example.org/a4":null,"example.org/a6":"fd00:48::2"`)
	w.until("taken away", has("a [10.0.2.0/24] [] map[]", "b [10.0.2.0/24 fd00:2::/64] [10.46.0.2] map[example.org/a6:fd00:48::2]"))

	s.Do("DELETE", "/api/v1/nodes/a", "", nil)
	w.until("removed", has("b [10.0.2.0/24 fd00:2::/64] [10.46.0.2] map[example.org/a6:fd00:48::2]"))
	s.Do("DELETE", "/api/v1/nodes/b", "", nil)
	s.Apply(nodeYAML("b", "10.0.3.0/24", ""))
	setIP(s, "b", "10.46.0.3")
	w.until("made again", has("b [10.0.3.0/24] [10.46.0.3] map[]"))
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
