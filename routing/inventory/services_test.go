package inventory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/inventory"
	"netclass.dev/test/kubeapi"
)

// serviceLine writes a Service as one line.
func serviceLine(s routing.Service) string {
	policy := "Cluster"
	if s.Local {
		policy = "Local"
	}
	return fmt.Sprintf("%s %s %v %s%v class=%q", s.Name, s.Addresses, s.Labels, policy, s.Nodes, s.Class)
}

// serves wants Services, each as a line, read and not stale.
func serves(lines ...string) func(*routing.Inventory) bool {
	return func(i *routing.Inventory) bool {
		if !i.ServicesSynced || i.ServicesStale != "" {
			return false
		}
		return slices.EqualFunc(i.Services, lines, func(s routing.Service, line string) bool { return serviceLine(s) == line })
	}
}

// advertising is what a source is asked for where Services are announced.
func advertising(s *kubeapi.Server, t *testing.T) inventory.KubernetesOptions {
	return inventory.KubernetesOptions{
		Kubeconfig: s.Kubeconfig(t.TempDir(), kubeapi.Admin), StateDir: t.TempDir(), Services: true, ServiceLabels: []string{"pool"},
	}
}

func TestKubernetesServices(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "", "") + "---\n" + nodeYAML("b", "", ""))
	w := watchAPI(t, advertising(s, t))
	w.until("none", serves())

	s.Service("web", "type: LoadBalancer, loadBalancerClass: example.org/bgp", map[string]string{"pool": "red", "other": "x"})
	w.until("without an address", serves(`default/web [] map[pool:red] Cluster[] class="example.org/bgp"`))
	s.Ingress("web", `{"ip":"10.47.64.10"},{"ip":"fd00:47:64::10","ipMode":"VIP"},{"ip":"10.47.64.11","ipMode":"Proxy"},{"hostname":"lb.example.org"},{"ip":"10.47.64.9","ipMode":"VIP"}`)
	w.until("addressed", serves(`default/web [10.47.64.9 10.47.64.10 fd00:47:64::10] map[pool:red] Cluster[] class="example.org/bgp"`))
	s.Ingress("web", `{"ip":"10.47.64.10"},{"ip":"127.0.0.1"},{"ip":"10.47.64.10"}`)
	w.until("odd ones", serves(`default/web [10.47.64.10] map[pool:red] Cluster[] class="example.org/bgp"`))

	s.Service("internal", "type: ClusterIP", nil)
	s.Slice("web-1", "web", "IPv4", "a", "true")
	w.quiet("of no interest", 500*time.Millisecond)

	s.Service("web", "type: LoadBalancer, loadBalancerClass: example.org/bgp, externalTrafficPolicy: Local", map[string]string{"pool": "red"})
	w.until("of policy Local", serves(`default/web [10.47.64.10] map[pool:red] Local[a] class="example.org/bgp"`))
	s.Slice("web-2", "web", "IPv4", "b", "null", "a", "true", "b", "false")
	w.until("another slice", serves(`default/web [10.47.64.10] map[pool:red] Local[a b] class="example.org/bgp"`))
	s.Slice("web-1", "web", "IPv4", "a", "false")
	w.quiet("still in the other", 500*time.Millisecond)

	s.Do("PATCH", "/api/v1/namespaces/default/services/web", "application/merge-patch+json", `{"metadata":{"labels":{"pool":null}},"spec":{"type":"ClusterIP","loadBalancerClass":null,"externalTrafficPolicy":null}}`)
	w.until("of another type", serves())
	s.Service("web", "type: LoadBalancer", nil)
	s.Ingress("web", `{"ip":"10.47.64.12"}`)
	w.until("back", serves(`default/web [10.47.64.12] map[] Cluster[] class=""`))
	s.Do("DELETE", "/api/v1/namespaces/default/services/web", "", nil)
	w.until("deleted", serves())
}

// TestKubernetesEndpointLeaves measures from the end of the API server's answer to
// when the inventory has it.
func TestKubernetesEndpointLeaves(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "", ""))
	s.Service("web", "type: LoadBalancer, externalTrafficPolicy: Local", nil)
	s.Ingress("web", `{"ip":"10.47.64.10"}`)
	w := watchAPI(t, advertising(s, t))
	line := func(nodes string) string {
		return fmt.Sprintf(`default/web [10.47.64.10] map[] Local[%s] class=""`, nodes)
	}
	var longest time.Duration
	for range 20 {
		s.Slice("web-1", "web", "IPv4", "a", "true")
		w.until("ready", serves(line("a")))
		s.Slice("web-1", "web", "IPv4", "a", "false serving terminating")
		begun := time.Now()
		w.until("terminates", serves(line("")))
		longest = max(longest, time.Since(begun))
	}
	t.Logf("from the API server's answer to the inventory, the longest of 20: %s", longest.Round(time.Millisecond))
	if longest > 500*time.Millisecond {
		t.Errorf("%s after the last ready endpoint left the inventory had it still", longest)
	}
}

// TestKubernetesFamilies has a Service of both families served by other nodes in
// each.
func TestKubernetesFamilies(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "", ""))
	w := watchAPI(t, advertising(s, t))
	s.Service("web", "type: LoadBalancer, externalTrafficPolicy: Local", nil)
	s.Ingress("web", `{"ip":"fd00:47:64::10"},{"ip":"10.47.64.10"}`)
	s.Slice("web-4", "web", "IPv4", "a", "true", "b", "true")
	s.Slice("web-6", "web", "IPv6", "b", "true")
	w.until("differ", serves(`default/web [10.47.64.10] map[] Local[a b] class=""`, `default/web [fd00:47:64::10] map[] Local[b] class=""`))
	s.Slice("web-6", "web", "IPv6", "b", "true", "a", "true")
	w.until("agree", serves(`default/web [10.47.64.10 fd00:47:64::10] map[] Local[a b] class=""`))
	s.Ingress("web", `{"ip":"fd00:47:64::10"}`)
	s.Do("DELETE", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-4", "", nil)
	w.until("IPv6 alone", serves(`default/web [fd00:47:64::10] map[] Local[a b] class=""`))
}

// TestKubernetesServicesAway takes the API server away, and what has happened
// meanwhile counts when it is back.
func TestKubernetesServicesAway(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "", ""))
	for _, name := range []string{"gone", "web"} {
		s.Service(name, "type: LoadBalancer, externalTrafficPolicy: Local", nil)
	}
	s.Ingress("web", `{"ip":"10.47.64.10"}`)
	s.Slice("web-1", "web", "IPv4", "a", "true")
	w := watchAPI(t, advertising(s, t))
	gone, web := `default/gone [] map[] Local[] class=""`, `default/web [10.47.64.10] map[] Local[%s] class=""`
	w.until("read", serves(gone, fmt.Sprintf(web, "a")))
	s.Down()
	w.until("away", func(i *routing.Inventory) bool {
		return i.ServicesSynced && strings.Contains(i.ServicesStale, "read services: ") && len(i.Services) == 2 && len(i.Services[1].Nodes) == 1
	})
	s.Up()
	s.Do("DELETE", "/api/v1/namespaces/default/services/gone", "", nil)
	s.Do("DELETE", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-1", "", nil)
	s.Compact()
	s.Down()
	s.Up()
	w.until("there again", serves(fmt.Sprintf(web, "")))

	// What has no node at all has no Services that are to be believed either.
	s.Do("DELETE", "/api/v1/nodes/a", "", nil)
	w.until("no nodes", old("has none at all", "a [] [] map[]"))
	s.Do("DELETE", "/api/v1/namespaces/default/services/web", "", nil)
	w.quiet("nor services", time.Second)
	if !serves(fmt.Sprintf(web, ""))(w.Inventory()) {
		t.Errorf("of no nodes: %v", w.Inventory().Services)
	}
	s.Apply(nodeYAML("b", "", ""))
	w.until("another node", serves())
}

// TestKubernetesServicesCopy begins with the API server away.
func TestKubernetesServicesCopy(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "", ""))
	heartbeat(s, "a", 0)
	s.Service("any", "type: LoadBalancer", nil)
	s.Ingress("any", `{"ip":"10.47.64.10"}`)
	s.Service("local", "type: LoadBalancer, externalTrafficPolicy: Local", nil)
	s.Ingress("local", `{"ip":"10.47.64.11"}`)
	s.Slice("local-1", "local", "IPv4", "a", "true")
	opt := advertising(s, t)
	w := watchAPI(t, opt)
	anywhere, local := `default/any [10.47.64.10] map[] Cluster[] class=""`, `default/local [10.47.64.11] map[] Local[%s] class=""`
	w.until("read", serves(anywhere, fmt.Sprintf(local, "a")))
	w.stop()
	s.Down()
	w = watchAPI(t, opt)
	i := *w.Inventory()
	if i.Synced || i.ServicesSynced || len(i.Nodes) != 1 || i.Nodes[0].NotReady {
		t.Errorf("of the copy: %s services synced=%v", show(&i), i.ServicesSynced)
	}
	if i.ServicesSynced = true; !serves(anywhere, fmt.Sprintf(local, ""))(&i) {
		t.Errorf("of the copy: %v", i.Services)
	}
	s.Up()
	w.until("read again", serves(anywhere, fmt.Sprintf(local, "a")))
	w.stop()

	opt.Services = false
	if w = watchAPI(t, opt); w.Inventory().Services != nil {
		t.Errorf("not asked for: %v", w.Inventory().Services)
	}
}

// TestKubernetesServicesRefused has the nodes read although the Services may not be.
func TestKubernetesServicesRefused(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Down()
	s.Allow("mere", kubeapi.User{Name: "mere"})
	s.Up()
	s.Apply(nodeYAML("a", "", ""))
	s.Apply(strings.ReplaceAll(bind, "RULES", `{apiGroups: [""], resources: [nodes], verbs: [list, watch]}`))
	s.Service("web", "type: LoadBalancer", nil)
	opt := advertising(s, t)
	opt.Kubeconfig = s.Kubeconfig(t.TempDir(), "mere")
	w := watchAPI(t, opt)
	w.until("refused", func(i *routing.Inventory) bool {
		return has("a [] [] map[]")(i) && !i.ServicesSynced && strings.Contains(i.ServicesStale, "read services: the API server does not allow it") &&
			strings.Contains(i.ServicesStale, "read endpointslices.discovery.k8s.io: ") && strings.Contains(i.ServicesStale, "rbac.yaml")
	})
	s.Apply(strings.ReplaceAll(bind, "RULES", `{apiGroups: ["", discovery.k8s.io], resources: [nodes, services, endpointslices], verbs: [list, watch]}`))
	w.until("granted", serves(`default/web [] map[] Cluster[] class=""`))
}

// bind gives rights to the user mere.
const bind = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mere}
rules: [RULES]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mere}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mere}
subjects: [{kind: User, name: mere, apiGroup: rbac.authorization.k8s.io}]
`
