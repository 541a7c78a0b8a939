package inventory

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

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

func (c *ciliumNode) fact() fact {
	return &nodeFact{Name: c.Name, PodCIDRs: prefixes(c.Spec.IPAM.PodCIDRs)}
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
func (b *blockAffinity) fact() fact {
	cidrs := prefixes([]string{b.Spec.CIDR})
	if bool(b.Spec.Deleted) || b.Spec.State != "" && b.Spec.State != "confirmed" || len(cidrs) == 0 || b.Spec.Node == "" {
		return nil
	}
	return &nodeFact{Name: b.Spec.Node, PodCIDRs: cidrs}
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
