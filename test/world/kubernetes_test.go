package world

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/test/kubeapi"
	"netclass.dev/test/lab"
)

// withAPI makes a configuration's nodes come from a real API server that has the
// lab's nodes, all of them ready, and exactly the rights that are shipped.
func withAPI(t *testing.T, config string) (string, *kubeapi.Server, func(*cluster)) {
	t.Helper()
	api := kubeapi.Start(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "packaging", "kubernetes", "rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	api.Apply(string(text))
	kubeconfig := api.Kubeconfig(t.TempDir(), api.ServiceAccountToken("netclass", "netclassd"))
	config = strings.Replace(config, "nodesFile: nodes.yaml", fmt.Sprintf("kubernetes: {kubeconfig: %q}", kubeconfig), 1)
	return config, api, func(c *cluster) {
		for _, n := range c.Nodes {
			api.Forward(n.NS())
			addNode(api, n)
			setReady(api, n, true)
		}
	}
}

// addNode makes a node's object, as the seed's nodes are.
func addNode(api *kubeapi.Server, n *lab.Node) {
	annotations := map[string]string{}
	var cidrs []string
	var addresses []any
	for _, f := range routing.Families {
		short := strings.TrimPrefix(f.String(), "ip")
		annotations["net.renner.uno/pod0-"+short] = n.Addr(lab.PodNet, f).String()
		annotations["net.renner.uno/egress-gw-"+short] = routerAddr(lab.Ingress, f)
		cidrs = append(cidrs, n.PodCIDR(f).String())
		addresses = append(addresses, map[string]string{"type": "InternalIP", "address": n.Addr(lab.NodeNet, f).String()})
	}
	api.Do("POST", "/api/v1/nodes", "", map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": n.Name, "annotations": annotations, "labels": map[string]string{"example.org/storage": "yes"}},
		"spec":     map[string]any{"podCIDR": cidrs[0], "podCIDRs": cidrs}, "status": map[string]any{"addresses": addresses},
	})
}

// setReady has a node's kubelet report that it is ready, or not.
func setReady(api *kubeapi.Server, n *lab.Node, ready bool) {
	status := "False"
	if ready {
		status = "True"
	}
	api.Do("PATCH", "/api/v1/nodes/"+n.Name+"/status", "application/strategic-merge-patch+json", map[string]any{
		"status": map[string]any{"conditions": []any{map[string]string{"type": "Ready", "status": status, "reason": "Test", "message": "test"}}},
	})
}

// service makes a Service of type LoadBalancer whose addresses somebody has
// assigned.
func service(api *kubeapi.Server, name, class, policy string, addrs routing.PerFamily[string]) {
	spec := map[string]any{
		"type": "LoadBalancer", "externalTrafficPolicy": policy, "selector": map[string]string{"app": name},
		"ports": []any{map[string]any{"port": 80}}, "ipFamilyPolicy": "SingleStack",
	}
	if class != "" {
		spec["loadBalancerClass"] = class
	}
	api.Do("POST", "/api/v1/namespaces/default/services", "", map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": name, "labels": map[string]string{"expose": "world"}}, "spec": spec,
	})
	var ingress []any
	for _, f := range routing.Families {
		ingress = append(ingress, map[string]string{"ip": addrs.Of(f)})
	}
	api.Do("PATCH", "/api/v1/namespaces/default/services/"+name+"/status", "application/merge-patch+json", map[string]any{
		"status": map[string]any{"loadBalancer": map[string]any{"ingress": ingress}},
	})
}

// endpoints says on which nodes a service has endpoints, and which are ready. Each
// family has a slice of its own, as the controller makes them.
func endpoints(api *kubeapi.Server, service string, ready map[string]bool) {
	for _, f := range routing.Families {
		var b strings.Builder
		fmt.Fprintf(&b, `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-%[2]s, namespace: default, labels: {kubernetes.io/service-name: %[1]s}}
addressType: %[3]s
ports: [{port: 8080}]
endpoints:
`, service, f, map[routing.Family]string{routing.IPv4: "IPv4", routing.IPv6: "IPv6"}[f])
		pod := lab.WorldAddr.Of(f) // of no consequence
		for node, is := range ready {
			pod = pod.Next()
			fmt.Fprintf(&b, "  - {addresses: [%q], nodeName: %s, conditions: {ready: %t}}\n", pod, node, is)
		}
		if len(ready) == 0 {
			b.WriteString("  []\n")
		}
		api.Apply(b.String())
	}
}

// health is a health port on every node, as kube-proxy's and Cilium's.
type health struct{ down [4]atomic.Bool } // by number of the node

const healthURL = "http://127.0.0.1:10256/healthz"

func (c *cluster) serveHealth() *health {
	c.t.Helper()
	h := &health{}
	for _, n := range c.Nodes {
		var l net.Listener
		c.must(n.Do(func() (err error) {
			l, err = net.Listen("tcp", "127.0.0.1:10256")
			return err
		}))
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if h.down[n.Number].Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})}
		go func() { _ = server.Serve(l) }()
		c.t.Cleanup(func() { _ = server.Close() })
	}
	return h
}
