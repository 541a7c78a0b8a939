package kubeapi

import (
	"fmt"
	"strings"
)

// Service makes a Service of the namespace default what spec says, which is YAML
// as between braces: "type: LoadBalancer". It has one port.
func (s *Server) Service(name, spec string, labels map[string]string) {
	s.t.Helper()
	var l strings.Builder
	for key, value := range labels {
		fmt.Fprintf(&l, "%s: %s, ", key, value)
	}
	s.Apply(fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: default, labels: {%s}}\nspec: {%s, ports: [{port: 80}]}\n",
		name, strings.TrimSuffix(l.String(), ", "), spec))
}

// Ingress sets what the load balancer of a Service of the namespace default says
// of its addresses: JSON, a list without its brackets.
func (s *Server) Ingress(name, ingress string) {
	s.t.Helper()
	s.Do("PATCH", "/api/v1/namespaces/default/services/"+name+"/status", "application/merge-patch+json",
		`{"status":{"loadBalancer":{"ingress":[`+ingress+`]}}}`)
}

// Slice makes an EndpointSlice of a Service of the namespace default. Its endpoints
// are pairs of a node and its conditions: true, false or null for ready, and then
// serving and terminating if it is.
func (s *Server) Slice(name, service, family string, endpoints ...string) {
	s.t.Helper()
	var b strings.Builder
	for i := 0; i < len(endpoints); i += 2 {
		address := fmt.Sprintf("10.244.0.%d", i+1)
		if family == "IPv6" {
			address = fmt.Sprintf("fd00:244::%d", i+1)
		}
		words := strings.Fields(endpoints[i+1])
		fmt.Fprintf(&b, "  - {addresses: [%q], nodeName: %s, conditions: {ready: %s", address, endpoints[i], words[0])
		for _, word := range words[1:] {
			fmt.Fprintf(&b, ", %s: true", word)
		}
		b.WriteString("}}\n")
	}
	text := b.String()
	if text == "" {
		text = "  []\n"
	}
	s.Apply(fmt.Sprintf("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %s, namespace: default, labels: {kubernetes.io/service-name: %s}}\naddressType: %s\nendpoints:\n%s",
		name, service, family, text))
}
