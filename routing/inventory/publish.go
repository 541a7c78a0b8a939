package inventory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"netclass.dev/routing"
)

const (
	// fieldManager owns the annotations that we write, and no others.
	fieldManager = "netclassd"
	// publishGap is the least time between two writes, publishTime the longest
	// that one may take.
	publishGap, publishTime = 5 * time.Second, 30 * time.Second
)

// States gives the daemon's state once its sequence is beyond a number.
type States func(ctx context.Context, after uint64) (*routing.State, error)

// Publish writes this node's own addresses on the class links, as the kernel has
// them, into the annotations of its Node that the configuration reads them from,
// until ctx ends. By force what others wrote is replaced; otherwise what they
// wrote stays, and only what is missing, or was ours before, is written.
func (k *Kubernetes) Publish(ctx context.Context, states States, force bool) {
	p := publisher{source: k, force: force, log: k.opt.Log}
	var after uint64
	for ctx.Err() == nil {
		wait, stop := ctx, context.CancelFunc(func() {})
		if p.failed {
			wait, stop = context.WithTimeout(ctx, publishGap)
		}
		s, err := states(wait, after)
		stop()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			after = s.Sequence
			p.state = s
		}
		if p.state == nil || p.state.Config.Config == nil {
			continue
		}
		if wrote := p.look(ctx); wrote || p.failed {
			select {
			case <-ctx.Done():
			case <-time.After(publishGap):
			}
		}
	}
}

// publisher is Publish at work.
type publisher struct {
	source *Kubernetes
	force  bool
	log    *slog.Logger
	state  *routing.State

	settled string // what there was to write, and what there stood, when there was nothing to do
	failed  bool   // the newest look could not be finished
	said    string // the last error
}

// look writes what there is to write, and reports whether it asked the API.
func (p *publisher) look(ctx context.Context) (asked bool) {
	self := p.state.Inventory.Node(p.state.Node)
	if !p.state.Inventory.Synced || self == nil {
		p.failed = false
		return false
	}
	want := ownAddresses(p.state, self)
	have := make(map[string]string)
	same := true
	for key, a := range want {
		text, ok := self.Annotations[key]
		if ok {
			have[key] = text
		}
		there, err := netip.ParseAddr(text)
		same = same && err == nil && there == a
	}
	// Formatting prints maps in the order of their keys.
	about := fmt.Sprint(p.state.Node, want, have)
	if same {
		about, p.settled = "", ""
	}
	if about == p.settled {
		p.failed = false
		return false
	}
	ctx, stop := context.WithTimeout(ctx, publishTime)
	defer stop()
	wrote, err := p.write(ctx, want)
	if p.failed = err != nil; p.failed {
		if p.said != err.Error() {
			p.said = err.Error()
			p.log.Warn("own addresses not published", slog.String("error", p.said))
		}
		return true
	}
	p.settled, p.said = about, ""
	if wrote {
		p.settled = "" // to be seen to have come to pass
	}
	return true
}

// ownAddresses returns this node's own address of each class link and family that
// the configuration reads from an annotation. Of several addresses the one that
// the annotation already names is kept.
func ownAddresses(s *routing.State, self *routing.Node) map[string]netip.Addr {
	want := make(map[string]netip.Addr)
	for _, a := range s.Config.Config.Cluster.Addresses {
		link := s.Kernel.Link(a.Link)
		if link == nil {
			continue
		}
		for _, f := range routing.Families {
			key := a.Ref.Of(f).Annotation
			if key == "" {
				continue
			}
			named, _ := netip.ParseAddr(self.Annotations[key])
			if own := ownAddress(link, f, named); own.IsValid() {
				want[key] = own
			}
		}
	}
	return want
}

// ownAddress returns the link's address of the family: the one named, if it has
// it, else its first that others can reach.
func ownAddress(link *routing.Link, f routing.Family, named netip.Addr) netip.Addr {
	var first netip.Addr
	for _, a := range link.Addrs {
		addr := a.Prefix.Addr()
		if routing.FamilyOf(addr) != f || !a.Usable() || !addr.IsGlobalUnicast() {
			continue
		}
		if addr == named {
			return addr
		}
		if !a.Secondary && !first.IsValid() {
			first = addr
		}
	}
	return first
}

// write applies the annotations that are ours to write. All that was applied
// before has to be applied again, or it is taken back.
func (p *publisher) write(ctx context.Context, want map[string]netip.Addr) (wrote bool, err error) {
	client := p.source.client.Load()
	if client == nil {
		return false, errors.New("write annotations: there is no connection to the API server yet")
	}
	name := p.state.Node
	var node corev1.Node
	if err := client.Get().Resource("nodes").Name(name).Do(ctx).Into(&node); err != nil {
		return false, fmt.Errorf("read node %s: %w", name, err)
	}
	ours, others := owners(&node)
	apply := make(map[string]string)
	for _, key := range p.source.opt.Annotations {
		text, there := node.Annotations[key]
		own, is := want[key]
		switch {
		case !is && ours[key]:
			apply[key] = text // its link is away; what was last known of it stays
		case is && (p.force || !there || ours[key] && !others[key]):
			apply[key] = own.String()
		}
	}
	if unchanged(apply, node.Annotations) {
		return false, nil
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Node",
		// With its UID, so that a Node that was deleted meanwhile is not made.
		"metadata": map[string]any{"name": name, "uid": node.UID, "annotations": apply},
	})
	if err != nil {
		return false, fmt.Errorf("write annotations of node %s: %w", name, err)
	}
	err = client.Patch(types.ApplyPatchType).Resource("nodes").Name(name).
		VersionedParams(&metav1.PatchOptions{FieldManager: fieldManager, Force: &p.force}, metav1.ParameterCodec).
		Body(body).Do(ctx).Error()
	if err != nil {
		return false, fmt.Errorf("write annotations of node %s: %w", name, err)
	}
	for _, key := range slices.Sorted(maps.Keys(apply)) {
		if apply[key] != node.Annotations[key] {
			p.log.Info("own address published", slog.String("annotation", key), slog.String("address", apply[key]),
				slog.String("before", cmp.Or(node.Annotations[key], "none")))
		}
	}
	return true, nil
}

func unchanged(apply, have map[string]string) bool {
	for key, text := range apply {
		if have[key] != text {
			return false
		}
	}
	return true
}

// owners returns the annotations that we own, and those that others do, as the
// Node's managed fields say.
func owners(n *corev1.Node) (ours, others map[string]bool) {
	ours, others = make(map[string]bool), make(map[string]bool)
	for _, m := range n.ManagedFields {
		if m.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		whose := others
		if m.Manager == fieldManager && m.Operation == metav1.ManagedFieldsOperationApply {
			whose = ours
		}
		for field := range fields.Metadata.Annotations {
			if len(field) > 2 {
				whose[field[2:]] = true // "f:KEY"
			}
		}
	}
	return ours, others
}
