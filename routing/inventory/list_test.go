package inventory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

func listed(nodes int) *corev1.NodeList {
	list := &corev1.NodeList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more"},
	}
	for i := range nodes {
		list.Items = append(list.Items, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), UID: "uid", Labels: map[string]string{"a": "b"}},
			Spec:       corev1.NodeSpec{PodCIDRs: []string{fmt.Sprintf("10.0.%d.0/24", i)}},
			Status:     corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"image"}, SizeBytes: 1 << 40}}},
		})
	}
	return list
}

func nodeReader() *reader {
	return &reader{resource: &resources(&KubernetesOptions{PodCIDRs: "node"}, labels.Nothing())[0]}
}

func protobufOf(tb testing.TB, list *corev1.NodeList) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := protobuf.NewSerializer(kinds, kinds).Encode(list, &b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// TestReadList reads a list in either form.
func TestReadList(t *testing.T) {
	text, err := json.Marshal(listed(3))
	if err != nil {
		t.Fatal(err)
	}
	none, err := json.Marshal(listed(0))
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		body  []byte
		nodes int
	}{
		"protobuf": {protobufOf(t, listed(3)), 3}, "protobuf, none": {protobufOf(t, listed(0)), 0},
		"JSON": {text, 3}, "JSON, none": {none, 0},
	} {
		list, err := nodeReader().readList(bytes.NewReader(c.body))
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		var items []item
		version, more := "", ""
		switch l := list.(type) {
		case *itemList:
			items, version, more = l.Items, l.ResourceVersion, l.Continue
		case *corev1.NodeList:
			version, more = l.ResourceVersion, l.Continue
			for i := range l.Items {
				it, err := nodeReader().item(&l.Items[i])
				if err != nil {
					t.Fatal(err)
				}
				items = append(items, it)
			}
		}
		if len(items) != c.nodes || version != "7" || more != "more" {
			t.Errorf("%s: %d nodes, version %q, then %q", what, len(items), version, more)
		}
		for i, it := range items {
			n := it.fact.(*nodeFact)
			if it.name != fmt.Sprint("node-", i) || n.Name != it.name || len(n.PodCIDRs) != 1 || n.PodCIDRs[0].String() != fmt.Sprintf("10.0.%d.0/24", i) {
				t.Errorf("%s: item %d: %q, %+v", what, i, it.name, n)
			}
		}
	}
}

// TestReadListHalf ends a list at every place: what is not whole is none.
func TestReadListHalf(t *testing.T) {
	whole := protobufOf(t, listed(3))
	// Behind the list there is what the envelope says of its encoding: nothing.
	end := bytes.LastIndex(whole, []byte("image")) + len("image")
	for n := range end {
		if list, err := nodeReader().readList(bytes.NewReader(whole[:n])); err == nil {
			t.Errorf("%d bytes of %d: %+v", n, len(whole), list)
		}
	}
}

// FuzzReadList reads what is no list.
func FuzzReadList(f *testing.F) {
	whole := protobufOf(f, listed(2))
	f.Add(whole)
	f.Add([]byte(magic))
	f.Add([]byte(magic + "\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Add([]byte(`{"kind":"NodeList","apiVersion":"v1","items":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := nodeReader().readList(bytes.NewReader(body))
		if err == nil && list == nil {
			t.Error("neither a list nor an error")
		}
	})
}
