package inventory

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"netclass.dev/routing"
)

// KubernetesOptions say which API server to read, and what of it.
type KubernetesOptions struct {
	Kubeconfig, Context string    // no kubeconfig: the credentials of the pod
	PodCIDRs            string    // node | ciliumnode | calico
	Annotations         []string  // of Nodes, that are used; sorted
	Protect             string    // a label selector of protected nodes; empty: none is
	Services            bool      // Services of type LoadBalancer are used
	ServiceLabels       []string  // of Services, that are used; sorted
	Lease               LeaseName // that of drains; without a name none is read
	StateDir            string    // where the last good copy is kept; empty: nowhere
	Log                 *slog.Logger
}

// Kubernetes is the API of a cluster, watched. It never blocks on the API server:
// until that has been read, the last good copy on disk stands in for it.
type Kubernetes struct {
	opt       KubernetesOptions
	resources []resource
	copy      copyFile

	current atomic.Pointer[routing.Inventory]
	client  atomic.Pointer[rest.RESTClient] // for core/v1, of the newest connection
	leases  atomic.Pointer[rest.RESTClient] // for coordination.k8s.io/v1
}

// NewKubernetes returns the source, with the nodes of the last good copy if there
// is one.
func NewKubernetes(opt KubernetesOptions) *Kubernetes {
	k := &Kubernetes{opt: opt}
	k.resources = resources(&k.opt, k.protected())
	k.copy = copyFile{dir: opt.StateDir, origin: k.origin(), boot: bootID(), protect: opt.Protect}
	inventory := &routing.Inventory{Source: k.String(), Stale: "the API server has not been asked yet"}
	switch c, err := k.copy.load(); {
	case err != nil:
		opt.Log.Warn("copy of the nodes not usable", slog.Any("error", err))
	case c != nil:
		inventory.Nodes, inventory.AsOf = c.nodes, c.taken
		if opt.Services {
			inventory.Services = c.services
		}
		trim(len(c.nodes))
		opt.Log.Info("copy of the nodes read", slog.Int("nodes", len(c.nodes)), slog.Time("taken", c.taken))
	}
	k.current.Store(inventory)
	return k
}

// protected returns the selector of protected nodes. One that cannot be read
// protects them all.
func (k *Kubernetes) protected() labels.Selector {
	if k.opt.Protect == "" {
		return labels.Nothing()
	}
	s, err := labels.Parse(k.opt.Protect)
	if err != nil {
		k.opt.Log.Warn("selector of protected nodes not usable; all nodes are protected", slog.Any("error", err))
		return labels.Everything()
	}
	return s
}

func (k *Kubernetes) String() string {
	text := "Kubernetes API, in-cluster"
	if k.opt.Kubeconfig != "" {
		text = "Kubernetes API, " + k.opt.Kubeconfig
	}
	if k.opt.Context != "" {
		text += ", context " + k.opt.Context
	}
	return text
}

// origin tells copies apart that were not read alike.
func (k *Kubernetes) origin() string { return k.String() + ", pod CIDRs of " + k.opt.PodCIDRs }

// Inventory returns what is known now. It is never nil and must not be changed.
func (k *Kubernetes) Inventory() *routing.Inventory { return k.current.Load() }

// Run reads and watches the API until ctx ends. It calls notify whenever
// Inventory has something new. Run it once.
func (k *Kubernetes) Run(ctx context.Context, notify func()) {
	hushClient(k.opt.Log)
	events := make(chan event)
	var reading sync.WaitGroup
	reading.Go(func() { k.connect(ctx, events) })
	k.collect(ctx, events, notify)
	reading.Wait()
}
