package inventory_test

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/inventory"
	"netclass.dev/test/kubeapi"
)

// publishing is a source that publishes, with an engine's place taken by a state
// of the source's inventory and one link.
type publishing struct {
	*watched
	link     atomic.Pointer[routing.Link]
	sequence atomic.Uint64
}

func publish(t *testing.T, kubeconfig string, force bool) *publishing {
	t.Helper()
	p := &publishing{watched: watchAPI(t, inventory.KubernetesOptions{Kubeconfig: kubeconfig})}
	p.link.Store(&routing.Link{Name: "pod0"})
	config := &routing.Config{Cluster: &routing.Cluster{Addresses: []routing.LinkAddress{{Link: "pod0", Ref: routing.PerFamily[routing.AddressRef]{
		IPv4: routing.AddressRef{Annotation: "example.org/a4"}, IPv6: routing.AddressRef{Annotation: "example.org/a6"},
	}}}}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Publish(ctx, func(ctx context.Context, _ uint64) (*routing.State, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
			return &routing.State{
				Node: "a", Sequence: p.sequence.Add(1), Config: routing.ConfigStatus{Config: config},
				Inventory: *p.Inventory(), Kernel: &routing.Kernel{Links: []routing.Link{*p.link.Load()}},
			}, nil
		}, force)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return p
}

// addresses sets what the kernel has on the link.
func (p *publishing) addresses(prefixes ...string) {
	l := &routing.Link{Name: "pod0", Up: true, Carrier: true}
	for _, text := range prefixes {
		a := routing.LinkAddr{Prefix: netip.MustParsePrefix(strings.TrimSuffix(text, " tentative")), Tentative: strings.HasSuffix(text, " tentative")}
		l.Addrs = append(l.Addrs, a)
	}
	p.link.Store(l)
}

func TestPublish(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	rights(s, true)
	kubeconfig := s.Kubeconfig(t.TempDir(), s.ServiceAccountToken("netclass", "netclassd"))

	t.Run("missing", func(t *testing.T) {
		s.Apply(nodeYAML("a", "", "other: x"))
		p := publish(t, kubeconfig, false)
		p.addresses("fe80::1/64", "10.48.0.1/24", "10.48.0.9/24", "fd00:48::1/64 tentative")
		p.until("written", has("a [] [] map[example.org/a4:10.48.0.1]"))
		p.addresses("fe80::1/64", "10.48.0.9/24", "10.48.0.1/24", "fd00:48::1/64")
		p.until("the other family, and no other address", has("a [] [] map[example.org/a4:10.48.0.1 example.org/a6:fd00:48::1]"))
		p.addresses()
		p.quiet("without an address", time.Second)
		p.addresses("10.48.0.2/24", "fd00:48::1/64")
		p.until("another address", has("a [] [] map[example.org/a4:10.48.0.2 example.org/a6:fd00:48::1]"))

		annotate(s, "a", `"example.org/a4":"10.48.0.77"`)
		p.until("a person's", has("a [] [] map[example.org/a4:10.48.0.77 example.org/a6:fd00:48::1]"))
		p.quiet("a person's wins", 7*time.Second)
		p.addresses("10.48.0.2/24", "fd00:48::3/64")
		p.until("the other is still ours", has("a [] [] map[example.org/a4:10.48.0.77 example.org/a6:fd00:48::3]"))
		annotate(s, "a", `"example.org/a4":null`)
		p.until("missing again", has("a [] [] map[example.org/a4:10.48.0.2 example.org/a6:fd00:48::3]"))
		if node := string(s.Do("GET", "/api/v1/nodes/a", "", nil)); !strings.Contains(node, `"other":"x"`) {
			t.Errorf("another's annotation is gone: %s", node)
		}
		s.Apply(nodeYAML("b", "", ""))
		s.Do("DELETE", "/api/v1/nodes/a", "", nil)
		p.until("deleted", has("b [] [] map[]"))
		p.quiet("not made", time.Second)
	})
	t.Run("force", func(t *testing.T) {
		s.Apply(nodeYAML("a", "", "example.org/a4: 10.48.0.77"))
		p := publish(t, kubeconfig, true)
		p.until("a person's", has("a [] [] map[example.org/a4:10.48.0.77]", "b [] [] map[]"))
		p.addresses("10.48.0.1/24")
		p.until("replaced", has("a [] [] map[example.org/a4:10.48.0.1]", "b [] [] map[]"))
		for len(p.notified) > 0 {
			<-p.notified
		}
		annotate(s, "a", `"example.org/a4":"10.48.0.77"`)
		<-p.notified
		p.until("replaced again", has("a [] [] map[example.org/a4:10.48.0.1]", "b [] [] map[]"))
		p.quiet("and then nothing", 6*time.Second)
	})
}

// rights gives the rights that are shipped, with or without publishing.
func rights(s *kubeapi.Server, publish bool) {
	for _, name := range []string{"rbac.yaml", "rbac-publish.yaml"}[:1+map[bool]int{true: 1}[publish]] {
		text, err := os.ReadFile("../../packaging/kubernetes/" + name)
		if err != nil {
			panic(err)
		}
		s.Apply(string(text))
	}
}

// TestRights reads everything with exactly the rights that are shipped, and
// publishes nothing with those that are not for it.
func TestRights(t *testing.T) {
	t.Parallel()
	s := kubeapi.Start(t)
	rights(s, false)
	kubeconfig := s.Kubeconfig(t.TempDir(), s.ServiceAccountToken("netclass", "netclassd"))
	s.Apply(nodeYAML("a", "10.0.1.0/24", ""))
	define(t, s, "cilium.io", "v2", "CiliumNode", "ciliumnodes")
	define(t, s, "projectcalico.org", "v3", "BlockAffinity", "blockaffinities")
	define(t, s, "crd.projectcalico.org", "v1", "BlockAffinity", "blockaffinities")
	for podCIDRs, want := range map[string]string{
		"node": "a [10.0.1.0/24] [] map[]", "ciliumnode": "a [] [] map[]", "calico": "a [] [] map[]",
	} {
		opt := locking(kubeconfig)
		opt.PodCIDRs, opt.Services = podCIDRs, true
		w := watchAPI(t, opt)
		w.until(podCIDRs, has(want))
		w.until("services", serves())
		w.until("lock", held(""))
		w.stop()
	}
	p := publish(t, kubeconfig, true)
	p.addresses("10.48.0.1/24")
	p.until("read", has("a [10.0.1.0/24] [] map[]"))
	p.quiet("nothing written", time.Second)
}
