package inventory_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/inventory"
	"netclass.dev/test/kubeapi"
)

// old wants nodes that are kept although the source cannot be read, for a reason.
func old(reason string, lines ...string) func(*routing.Inventory) bool {
	return func(i *routing.Inventory) bool {
		if !i.Synced || i.AsOf.IsZero() || !strings.Contains(i.Stale, reason) {
			return false
		}
		fresh := *i
		fresh.Stale, fresh.AsOf = "", time.Time{}
		return has(lines...)(&fresh)
	}
}

// never wants nothing to be known, for a reason.
func never(reason string) func(*routing.Inventory) bool {
	return func(i *routing.Inventory) bool {
		return !i.Synced && !i.Known() && len(i.Nodes) == 0 && strings.Contains(i.Stale, reason)
	}
}

// TestKubernetesAway takes the API server away, and the history with it, so that
// no watch can go on from where it was.
func TestKubernetesAway(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "10.0.1.0/24", "") + "---\n" + nodeYAML("b", "10.0.2.0/24", ""))
	w := watchAPI(t, inventory.KubernetesOptions{Kubeconfig: s.Kubeconfig(t.TempDir(), kubeapi.Admin)})
	w.until("read", has("a [10.0.1.0/24] [] map[]", "b [10.0.2.0/24] [] map[]"))

	s.Down()
	w.until("away", old("connection refused", "a [10.0.1.0/24] [] map[]", "b [10.0.2.0/24] [] map[]"))
	s.Up()
	w.until("there again", has("a [10.0.1.0/24] [] map[]", "b [10.0.2.0/24] [] map[]"))

	// It is back before anybody need hear of it.
	s.Down()
	s.Up()
	s.Do("DELETE", "/api/v1/nodes/a", "", nil)
	s.Apply(nodeYAML("c", "10.0.3.0/24", ""))
	s.Compact()
	s.Down()
	s.Up()
	w.until("without its history", has("b [10.0.2.0/24] [] map[]", "c [10.0.3.0/24] [] map[]"))
	s.Do("DELETE", "/api/v1/nodes/c", "", nil)
	w.until("and on", has("b [10.0.2.0/24] [] map[]"))
}

// TestKubernetesCredentials replaces the kubeconfig and the token's file.
func TestKubernetesCredentials(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	folder := t.TempDir()
	w := watchAPI(t, inventory.KubernetesOptions{Kubeconfig: filepath.Join(folder, "kubeconfig")})
	w.until("no kubeconfig", never("no such file"))
	write(t, filepath.Join(folder, "kubeconfig"), "nonsense: [")
	w.until("no valid kubeconfig", never("kubeconfig"))
	s.Kubeconfig(folder, "unknown")
	w.until("an unknown token", never("does not accept the credentials"))
	s.Kubeconfig(folder, kubeapi.Admin)
	w.until("a good token", has())
	write(t, filepath.Join(folder, "kubeconfig"), "nonsense: [")
	s.Apply(nodeYAML("b", "", ""))
	w.until("a bad kubeconfig after a good one", has("b [] [] map[]"))
	s.Do("DELETE", "/api/v1/nodes/b", "", nil)

	token := filepath.Join(folder, "token")
	s.Down()
	for _, token := range []string{"first", "second"} {
		s.Allow(token, kubeapi.User{Name: "admin", Groups: []string{"system:masters"}})
	}
	s.Up()
	write(t, token, "first")
	s.KubeconfigWithFile(folder, token)
	s.Apply(nodeYAML("a", "10.0.1.0/24", ""))
	w.until("a token in a file", has("a [10.0.1.0/24] [] map[]"))
	s.Down()
	s.Forbid("first")
	s.Up()
	w.until("a revoked token", old("does not accept the credentials", "a [10.0.1.0/24] [] map[]"))
	write(t, token, "second")
	w.until("a renewed token", has("a [10.0.1.0/24] [] map[]"))
}

// TestKubernetesRights starts without any, and takes them away again.
func TestKubernetesRights(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Down()
	s.Allow("mere", kubeapi.User{Name: "mere"})
	s.Up()
	s.Apply(nodeYAML("a", "10.0.1.0/24", ""))
	w := watchAPI(t, inventory.KubernetesOptions{Kubeconfig: s.Kubeconfig(t.TempDir(), "mere")})
	w.until("refused", never(`read nodes: the API server does not allow it: nodes is forbidden: User "mere" cannot`))

	s.Apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mere}
rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mere}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mere}
subjects: [{kind: User, name: mere, apiGroup: rbac.authorization.k8s.io}]
`)
	w.until("listed, but not watched", old(`cannot watch resource "nodes"`, "a [10.0.1.0/24] [] map[]"))
	s.Do("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/mere", "application/merge-patch+json",
		`{"rules":[{"apiGroups":[""],"resources":["nodes"],"verbs":["list","watch"]}]}`)
	w.until("granted", has("a [10.0.1.0/24] [] map[]"))
}

// TestKubernetesCopy boots with the API server away.
func TestKubernetesCopy(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", `10.0.1.0/24, "fd00:1::/64"`, "example.org/a4: 10.48.0.1") + "---\n" + nodeYAML("b", "10.0.2.0/24", ""))
	setIP(s, "a", "10.46.0.1")
	state := t.TempDir()
	opt := inventory.KubernetesOptions{Kubeconfig: s.Kubeconfig(t.TempDir(), kubeapi.Admin), StateDir: state}
	w := watchAPI(t, opt)
	lines := []string{"a [10.0.1.0/24 fd00:1::/64] [10.46.0.1] map[example.org/a4:10.48.0.1]", "b [10.0.2.0/24] [] map[]"}
	w.until("read", has(lines...))
	w.stop()
	s.Down()

	copied := func(reason string) func(*routing.Inventory) bool {
		return func(i *routing.Inventory) bool {
			if i.Synced || !i.Known() || time.Since(i.AsOf) > time.Minute || !strings.Contains(i.Stale, reason) {
				return false
			}
			read := routing.Inventory{Nodes: i.Nodes, Synced: true}
			return has(lines...)(&read)
		}
	}
	w = watchAPI(t, opt)
	if !copied("not been asked")(w.Inventory()) {
		t.Fatalf("not there at once: %s", show(w.Inventory()))
	}
	w.until("away", copied("connection refused"))
	w.stop()

	// What was read in another way stands for nothing, nor does what is damaged.
	other := opt
	other.PodCIDRs = "ciliumnode"
	w = watchAPI(t, other)
	w.until("of other objects", never("connection refused"))
	w.stop()
	path := filepath.Join(state, "nodes.json")
	whole, err := os.ReadFile(path)
	must(t, err)
	for what, text := range map[string]string{
		"half": string(whole[:len(whole)/2]), "empty": "", "changed": strings.Replace(string(whole), "10.0.2.0", "10.0.9.0", 1),
		"of the future": strings.Replace(string(whole), `"version":1`, `"version":2`, 1),
	} {
		write(t, path, text)
		w = watchAPI(t, opt)
		w.until(what, never("connection refused"))
		w.stop()
	}
	write(t, path, string(whole))

	w = watchAPI(t, opt)
	s.Up()
	s.Do("DELETE", "/api/v1/nodes/b", "", nil)
	w.until("there again", has(lines[0]))
}

// TestKubernetesBehindBalancer has connections accepted and ended at once, as by a
// load balancer that has no API server left.
func TestKubernetesBehindBalancer(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "10.0.1.0/24", "") + "---\n" + nodeYAML("b", "10.0.2.0/24", ""))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	relay := s.Relay(t, l)
	w := watchAPI(t, inventory.KubernetesOptions{Kubeconfig: relay.Kubeconfig(t.TempDir(), kubeapi.Admin)})
	w.until("read", has("a [10.0.1.0/24] [] map[]", "b [10.0.2.0/24] [] map[]"))
	relay.Cut()
	w.until("cut", old("read nodes: ", "a [10.0.1.0/24] [] map[]", "b [10.0.2.0/24] [] map[]"))
	s.Do("DELETE", "/api/v1/nodes/a", "", nil)
	relay.Mend()
	w.until("mended", has("b [10.0.2.0/24] [] map[]"))

	// An API server that has no node at all is not believed.
	s.Do("DELETE", "/api/v1/nodes/b", "", nil)
	w.until("none at all", old("has none at all", "b [10.0.2.0/24] [] map[]"))
	s.Apply(nodeYAML("c", "10.0.3.0/24", ""))
	w.until("another", has("c [10.0.3.0/24] [] map[]"))
}

// TestKubernetesInNoPod asks for the credentials of a pod where there is none.
func TestKubernetesInNoPod(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	w := watchAPI(t, inventory.KubernetesOptions{})
	w.until("no pod", never("find the API server of this pod"))
}

// TestKubernetesFrozen drops all packets: nothing says that the connection is gone,
// and the watch would wait for ever.
func TestKubernetesFrozen(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "10.0.1.0/24", "") + "---\n" + nodeYAML("b", "10.0.2.0/24", ""))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	relay := s.Relay(t, l)
	w := watchAPI(t, inventory.KubernetesOptions{Kubeconfig: relay.Kubeconfig(t.TempDir(), kubeapi.Admin)})
	w.until("read", has("a [10.0.1.0/24] [] map[]", "b [10.0.2.0/24] [] map[]"))
	relay.Freeze()
	s.Do("DELETE", "/api/v1/nodes/b", "", nil)
	w.until("frozen", old("read nodes: ", "a [10.0.1.0/24] [] map[]", "b [10.0.2.0/24] [] map[]"))
	relay.Thaw()
	w.until("thawed", has("a [10.0.1.0/24] [] map[]"))
}
