package inventory

import (
	"net/netip"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resource is a kind of object that is read.
type resource struct {
	part   part // what it tells of
	plural string
	// versions are the groups and versions that may serve it, the best first.
	versions []schema.GroupVersion
	// namespace, fields and labels say which of its objects; empty: all.
	namespace, fields, labels string
	object                    runtime.Object        // an empty one
	empty                     func() runtime.Object // an empty list
	// fact takes what is used out of an object; nil: it says nothing.
	fact func(object any) fact
}

func (r *resource) String() string {
	if group := r.versions[0].Group; group != "" {
		return r.plural + "." + group
	}
	return r.plural
}

// resources returns the kinds of objects that are read, each part's together, in
// the parts' order.
func resources(opt *KubernetesOptions, protected labels.Selector) []resource {
	all := append([]resource{{
		part: ofNodes, plural: "nodes", versions: []schema.GroupVersion{corev1.SchemeGroupVersion},
		object: &corev1.Node{}, empty: func() runtime.Object { return &corev1.NodeList{} },
		fact: func(o any) fact { return ofNode(o.(*corev1.Node), opt.PodCIDRs == "node", opt.Annotations, protected) },
	}}, cidrResources(opt.PodCIDRs)...)
	if opt.Services {
		all = append(all, resource{
			part: ofServices, plural: "services", versions: []schema.GroupVersion{corev1.SchemeGroupVersion},
			fields: fields.OneTermEqualSelector("spec.type", string(corev1.ServiceTypeLoadBalancer)).String(),
			object: &corev1.Service{}, empty: func() runtime.Object { return &corev1.ServiceList{} },
			fact: func(o any) fact { return ofService(o.(*corev1.Service), opt.ServiceLabels) },
		}, resource{
			part: ofServices, plural: "endpointslices", versions: []schema.GroupVersion{discoveryv1.SchemeGroupVersion},
			// Those of headless Services, which have no address, may be the most.
			labels: "!" + corev1.IsHeadlessService,
			object: &discoveryv1.EndpointSlice{}, empty: func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
			fact: func(o any) fact { return ofSlice(o.(*discoveryv1.EndpointSlice)) },
		})
	}
	if opt.Lease.Name != "" {
		all = append(all, resource{
			part: ofDrain, plural: "leases", versions: []schema.GroupVersion{coordinationv1.SchemeGroupVersion},
			namespace: opt.Lease.Namespace, fields: fields.OneTermEqualSelector("metadata.name", opt.Lease.Name).String(),
			object: &coordinationv1.Lease{}, empty: func() runtime.Object { return &coordinationv1.LeaseList{} },
			fact: func(o any) fact { return ofLease(o.(*coordinationv1.Lease)) },
		})
	}
	return all
}

// cidrResources returns the kind of object that holds the nodes' pod CIDRs, where
// the Nodes do not.
func cidrResources(podCIDRs string) []resource {
	switch podCIDRs {
	case "ciliumnode":
		return []resource{{
			part: ofNodes, plural: "ciliumnodes", versions: []schema.GroupVersion{{Group: "cilium.io", Version: "v2"}},
			object: &ciliumNode{}, empty: func() runtime.Object { return &ciliumNodeList{} },
			fact: func(o any) fact { return o.(*ciliumNode).fact() },
		}}
	case "calico":
		return []resource{{
			part: ofNodes, plural: "blockaffinities", versions: []schema.GroupVersion{
				// The first needs nothing but the API server itself; the second
				// is often served by a pod, whose routes may be ours to make.
				{Group: "crd.projectcalico.org", Version: "v1"},
				{Group: "projectcalico.org", Version: "v3"},
			},
			object: &blockAffinity{}, empty: func() runtime.Object { return &blockAffinityList{} },
			fact: func(o any) fact { return o.(*blockAffinity).fact() },
		}}
	}
	return nil
}

// newScheme knows the few kinds that are read, and no others: the scheme of all
// of Kubernetes costs more memory than the nodes of a large cluster.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Node{}, &corev1.NodeList{}, &corev1.Service{}, &corev1.ServiceList{})
	s.AddKnownTypes(discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{})
	s.AddKnownTypes(coordinationv1.SchemeGroupVersion, &coordinationv1.Lease{}, &coordinationv1.LeaseList{})
	for gv := range builtIn {
		metav1.AddToGroupVersion(s, gv)
	}
	for _, r := range append(cidrResources("ciliumnode"), cidrResources("calico")...) {
		for _, gv := range r.versions {
			s.AddKnownTypeWithName(gv.WithKind(kindOf(r.object)), r.object)
			s.AddKnownTypeWithName(gv.WithKind(kindOf(r.object)+"List"), r.empty())
			metav1.AddToGroupVersion(s, gv)
		}
	}
	return s
}

// builtIn are the groups of the API server's own kinds, which it serves as
// protobuf too.
var builtIn = map[schema.GroupVersion]bool{
	corev1.SchemeGroupVersion: true, discoveryv1.SchemeGroupVersion: true, coordinationv1.SchemeGroupVersion: true,
}

func kindOf(o runtime.Object) string {
	if _, is := o.(*ciliumNode); is {
		return "CiliumNode"
	}
	return "BlockAffinity"
}

// ofNode takes what is used out of a Node. Strings of the object that are kept
// are its own: nothing else of it is kept alive by them.
func ofNode(n *corev1.Node, podCIDRs bool, annotations []string, protected labels.Selector) fact {
	node := &nodeFact{
		Name: n.Name, UID: string(n.UID), NotReady: true,
		Cordoned: n.Spec.Unschedulable, Protected: protected.Matches(labels.Set(n.Labels)),
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			node.NotReady = false
		}
	}
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil && !slices.Contains(node.InternalIPs, ip.Unmap()) {
			node.InternalIPs = append(node.InternalIPs, ip.Unmap())
		}
	}
	if podCIDRs {
		texts := n.Spec.PodCIDRs
		if len(texts) == 0 && n.Spec.PodCIDR != "" {
			texts = []string{n.Spec.PodCIDR}
		}
		node.PodCIDRs = prefixes(texts)
	}
	for _, key := range annotations {
		if text, ok := n.Annotations[key]; ok {
			if node.Annotations == nil {
				node.Annotations = make(map[string]string, len(annotations))
			}
			node.Annotations[key] = strings.TrimSpace(text)
		}
	}
	return node
}

// prefixes reads networks in their order, without those that cannot be read.
func prefixes(texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err == nil && !p.Addr().Is4In6() && !slices.Contains(out, p.Masked()) {
			out = append(out, p.Masked())
		}
	}
	return out
}
