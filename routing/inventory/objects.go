package inventory

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"netclass.dev/routing"
)

// resource is a kind of object that tells of nodes.
type resource struct {
	plural string
	// versions are the groups and versions that may serve it, the best first.
	versions []schema.GroupVersion
	object   runtime.Object        // an empty one
	list     func() runtime.Object // an empty list
	// fact takes what is used out of an object; nil: it says nothing of a node.
	fact func(object any) *routing.Node
}

func (r *resource) String() string {
	if group := r.versions[0].Group; group != "" {
		return r.plural + "." + group
	}
	return r.plural
}

// resources returns the kinds of objects that the nodes and their pod CIDRs are
// read from: the Nodes first.
func resources(podCIDRs string, annotations []string) []resource {
	nodes := resource{
		plural: "nodes", versions: []schema.GroupVersion{corev1.SchemeGroupVersion},
		object: &corev1.Node{}, list: func() runtime.Object { return &corev1.NodeList{} },
		fact: func(o any) *routing.Node { return ofNode(o.(*corev1.Node), podCIDRs == "node", annotations) },
	}
	switch podCIDRs {
	case "ciliumnode":
		return []resource{nodes, {
			plural: "ciliumnodes", versions: []schema.GroupVersion{{Group: "cilium.io", Version: "v2"}},
			object: &ciliumNode{}, list: func() runtime.Object { return &ciliumNodeList{} },
			fact: func(o any) *routing.Node { return o.(*ciliumNode).fact() },
		}}
	case "calico":
		return []resource{nodes, {
			plural: "blockaffinities", versions: []schema.GroupVersion{
				// The first needs nothing but the API server itself; the second
				// is often served by a pod, whose routes may be ours to make.
				{Group: "crd.projectcalico.org", Version: "v1"},
				{Group: "projectcalico.org", Version: "v3"},
			},
			object: &blockAffinity{}, list: func() runtime.Object { return &blockAffinityList{} },
			fact: func(o any) *routing.Node { return o.(*blockAffinity).fact() },
		}}
	}
	return []resource{nodes}
}

// newScheme knows the few kinds that are read, and no others: the scheme of all
// of Kubernetes costs more memory than the nodes of a large cluster.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	core := corev1.SchemeGroupVersion
	s.AddKnownTypes(core, &corev1.Node{}, &corev1.NodeList{})
	metav1.AddToGroupVersion(s, core)
	for _, r := range append(resources("ciliumnode", nil)[1:], resources("calico", nil)[1:]...) {
		for _, gv := range r.versions {
			s.AddKnownTypeWithName(gv.WithKind(kindOf(r.object)), r.object)
			s.AddKnownTypeWithName(gv.WithKind(kindOf(r.object)+"List"), r.list())
			metav1.AddToGroupVersion(s, gv)
		}
	}
	return s
}

func kindOf(o runtime.Object) string {
	switch o.(type) {
	case *ciliumNode:
		return "CiliumNode"
	case *blockAffinity:
		return "BlockAffinity"
	}
	return "Node"
}

// ofNode takes what is used out of a Node. Strings of the object that are kept
// are its own: nothing else of it is kept alive by them.
func ofNode(n *corev1.Node, podCIDRs bool, annotations []string) *routing.Node {
	node := &routing.Node{Name: n.Name}
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

// ciliumNode is what is used of Cilium's object of the same name: the pools that
// its operator has given to the node of that name.
type ciliumNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		IPAM struct {
			PodCIDRs []string `json:"podCIDRs"`
		} `json:"ipam"`
	} `json:"spec"`
}

type ciliumNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ciliumNode `json:"items"`
}

func (c *ciliumNode) fact() *routing.Node {
	return &routing.Node{Name: c.Name, PodCIDRs: prefixes(c.Spec.IPAM.PodCIDRs)}
}

func (c *ciliumNode) DeepCopyObject() runtime.Object {
	out := *c
	c.DeepCopyInto(&out.ObjectMeta)
	out.Spec.IPAM.PodCIDRs = slices.Clone(c.Spec.IPAM.PodCIDRs)
	return &out
}

func (l *ciliumNodeList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]ciliumNode, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*ciliumNode)
	}
	return &out
}

// blockAffinity is what is used of Calico's object of the same name: that a
// block of addresses is a node's.
type blockAffinity struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		CIDR    string    `json:"cidr"`
		Node    string    `json:"node"`
		State   string    `json:"state"`
		Deleted looseBool `json:"deleted"`
	} `json:"spec"`
}

type blockAffinityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []blockAffinity `json:"items"`
}

// fact says that the block is the node's. While the affinity is pending, another
// node may yet get the block; while its deletion is, it is being given back.
func (b *blockAffinity) fact() *routing.Node {
	cidrs := prefixes([]string{b.Spec.CIDR})
	if bool(b.Spec.Deleted) || b.Spec.State != "" && b.Spec.State != "confirmed" || len(cidrs) == 0 || b.Spec.Node == "" {
		return nil
	}
	return &routing.Node{Name: b.Spec.Node, PodCIDRs: cidrs}
}

func (b *blockAffinity) DeepCopyObject() runtime.Object {
	out := *b
	b.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (l *blockAffinityList) DeepCopyObject() runtime.Object {
	out := *l
	l.DeepCopyInto(&out.ListMeta)
	out.Items = make([]blockAffinity, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*blockAffinity)
	}
	return &out
}

// looseBool is true or "true": Calico's two groups write it differently.
type looseBool bool

// UnmarshalJSON reads either form. What is neither is not true: one object that
// is not as expected must not make all of them unreadable.
func (b *looseBool) UnmarshalJSON(data []byte) error {
	*b = strings.Trim(string(data), `"`) == "true"
	return nil
}
