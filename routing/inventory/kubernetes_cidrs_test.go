package inventory_test

import (
	"fmt"
	"strings"
	"testing"

	"netclass.dev/routing/inventory"
	"netclass.dev/test/kubeapi"
)

// crdYAML defines a kind without any schema.
func crdYAML(group, version, kind, plural string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[4]s.%[1]s}
spec:
  group: %[1]s
  scope: Cluster
  names: {kind: %[3]s, listKind: %[3]sList, plural: %[4]s, singular: %[5]s}
  versions: [{name: %[2]s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, group, version, kind, plural, strings.ToLower(kind))
}

// define defines a kind and waits until it is served.
func define(t *testing.T, s *kubeapi.Server, group, version, kind, plural string) {
	t.Helper()
	s.Apply(crdYAML(group, version, kind, plural))
	eventually(t, plural+" served", func() bool {
		status, _, err := s.Request(kubeapi.Admin, "GET", "/apis/"+group+"/"+version+"/"+plural, "", nil)
		return err == nil && status == 200
	})
}

func TestKubernetesCiliumNodes(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "10.9.1.0/24", "") + "---\n" + nodeYAML("b", "10.9.2.0/24", ""))
	w := watchAPI(t, inventory.KubernetesOptions{Kubeconfig: s.Kubeconfig(t.TempDir(), kubeapi.Admin), PodCIDRs: "ciliumnode"})
	w.until("not defined", never("read ciliumnodes.cilium.io: the API server does not have them"))

	define(t, s, "cilium.io", "v2", "CiliumNode", "ciliumnodes")
	w.until("none", has("a [] [] map[]", "b [] [] map[]"))
	cilium := func(name, cidrs string) {
		s.Apply(fmt.Sprintf("apiVersion: cilium.io/v2\nkind: CiliumNode\nmetadata: {name: %s}\nspec: {addresses: [{type: InternalIP, ip: 10.46.0.1}], ipam: {podCIDRs: [%s], pools: {}}}\n", name, cidrs))
	}
	cilium("a", `10.0.9.0/24, 10.0.1.0/24, "fd00:1::/64"`)
	cilium("stranger", "10.0.7.0/24")
	w.until("several pools", has("a [10.0.9.0/24 10.0.1.0/24 fd00:1::/64] [] map[]", "b [] [] map[]"))
	cilium("b", "10.0.2.0/24")
	w.until("late", has("a [10.0.9.0/24 10.0.1.0/24 fd00:1::/64] [] map[]", "b [10.0.2.0/24] [] map[]"))
	s.Do("DELETE", "/apis/cilium.io/v2/ciliumnodes/a", "", nil)
	w.until("gone", has("a [] [] map[]", "b [10.0.2.0/24] [] map[]"))

	// Their definition is taken away, and with it all of them.
	s.Do("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ciliumnodes.cilium.io", "", nil)
	w.until("no longer defined", old("read ciliumnodes.cilium.io: the API server", "a [] [] map[]", "b [10.0.2.0/24] [] map[]"))
	define(t, s, "cilium.io", "v2", "CiliumNode", "ciliumnodes")
	cilium("a", "10.0.1.0/24")
	w.until("defined again", has("a [10.0.1.0/24] [] map[]", "b [] [] map[]"))
}

func TestKubernetesBlockAffinities(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	s.Apply(nodeYAML("a", "10.9.1.0/24", "") + "---\n" + nodeYAML("b", "10.9.2.0/24", ""))
	kubeconfig := s.Kubeconfig(t.TempDir(), kubeapi.Admin)
	w := watchAPI(t, inventory.KubernetesOptions{Kubeconfig: kubeconfig, PodCIDRs: "calico"})
	w.until("not defined", never("read blockaffinities.crd.projectcalico.org: the API server does not have them"))

	block := func(version, name, node, cidr, rest string) {
		s.Apply(fmt.Sprintf("apiVersion: %s\nkind: BlockAffinity\nmetadata: {name: %s}\nspec: {node: %s, cidr: %s%s}\n", version, name, node, cidr, rest))
	}
	// Where Calico's own group is served by the API server alone.
	define(t, s, "projectcalico.org", "v3", "BlockAffinity", "blockaffinities")
	const v3, v1 = "projectcalico.org/v3", "crd.projectcalico.org/v1"
	block(v3, "a-1", "a", "192.168.1.0/26", ", state: confirmed, deleted: false")
	block(v3, "a-2", "a", "192.168.2.0/26", ", state: confirmed, deleted: true")
	w.until("of v3", has("a [192.168.1.0/26] [] map[]", "b [] [] map[]"))
	w.stop()

	define(t, s, "crd.projectcalico.org", "v1", "BlockAffinity", "blockaffinities")
	w = watchAPI(t, inventory.KubernetesOptions{Kubeconfig: kubeconfig, PodCIDRs: "calico"})
	w.until("none of v1", has("a [] [] map[]", "b [] [] map[]"))
	block(v1, "a-1", "a", "192.168.1.0/26", `, state: confirmed, deleted: "false"`)
	block(v1, "b-1", "b", "192.168.3.64/26", `, state: pending, deleted: "false"`)
	w.until("of v1", has("a [192.168.1.0/26] [] map[]", "b [] [] map[]"))
	block(v1, "b-1", "b", "192.168.3.64/26", `, state: confirmed, deleted: "false"`)
	block(v1, "a-2", "a", "192.168.2.0/26", `, state: confirmed`)
	block(v1, "a-6", "a", `"fd00:1::/122"`, `, state: confirmed`)
	w.until("more", has("a [192.168.1.0/26 192.168.2.0/26 fd00:1::/122] [] map[]", "b [192.168.3.64/26] [] map[]"))
	block(v1, "a-1", "a", "192.168.1.0/26", `, state: pendingDeletion, deleted: "false"`)
	block(v1, "a-2", "a", "192.168.2.0/26", `, state: confirmed, deleted: "true"`)
	w.until("given back", has("a [fd00:1::/122] [] map[]", "b [192.168.3.64/26] [] map[]"))
}
