package inventory

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"netclass.dev/routing/internal/watchfile"
)

// reconnect is the least time between two connections: credentials that are
// refused are read again that often.
const reconnect = 5 * time.Second

// userAgent is what the API server's log and its audit know us by.
const userAgent = "netclassd"

// connect keeps a connection made of what the kubeconfig says now: another begins
// when the file changes, or when the credentials are refused, because those in
// the files it names may have changed as well.
func (k *Kubernetes) connect(ctx context.Context, events chan<- event) {
	changed := make(chan struct{}, 1)
	var watching sync.WaitGroup
	if k.opt.Kubeconfig != "" {
		watching.Go(func() {
			watchfile.Watch(ctx, k.opt.Kubeconfig, k.opt.Log, func() { poke(changed) })
		})
	}
	defer watching.Wait()
	for generation := 1; ctx.Err() == nil; generation++ {
		began := time.Now()
		text := k.kubeconfig()
		config, err := k.restConfig()
		if err != nil {
			tell(ctx, events, event{generation: generation, begun: true, err: err})
			k.awaitOther(ctx, changed, text, time.After(reconnect))
			continue
		}
		run, stop := context.WithCancel(ctx)
		refused := make(chan struct{}, 1)
		if err := k.read(run, config, generation, events, refused); err != nil {
			tell(ctx, events, event{generation: generation, begun: true, err: err})
			poke(refused)
		}
		if again := k.awaitRefusal(run, changed, text, refused, began); again != nil {
			k.awaitOther(run, changed, text, again)
		}
		// Its readers may take a while to end, and are no longer listened to.
		stop()
	}
}

// awaitRefusal waits for another kubeconfig, and then returns nil, or for a
// refusal, and then returns when the next connection may be made.
func (k *Kubernetes) awaitRefusal(ctx context.Context, changed <-chan struct{}, text []byte, refused <-chan struct{}, began time.Time) <-chan time.Time {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			if bytes.Equal(text, k.kubeconfig()) {
				continue
			}
			if _, err := k.restConfig(); err != nil {
				k.opt.Log.Warn("kubeconfig not usable; the last good one stays", slog.Any("error", err))
				continue
			}
			k.opt.Log.Info("kubeconfig changed", slog.String("path", k.opt.Kubeconfig))
			return nil
		case <-refused:
			return time.After(time.Until(began.Add(reconnect)))
		}
	}
}

// awaitOther waits for another kubeconfig or for the time.
func (k *Kubernetes) awaitOther(ctx context.Context, changed <-chan struct{}, text []byte, till <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-till:
			return
		case <-changed:
			if !bytes.Equal(text, k.kubeconfig()) {
				return
			}
		}
	}
}

// kubeconfig returns the file's content, to see whether it has changed. One that
// cannot be read is restConfig's to complain of.
func (k *Kubernetes) kubeconfig() []byte {
	if k.opt.Kubeconfig == "" {
		return nil
	}
	text, _ := os.ReadFile(k.opt.Kubeconfig)
	return text
}

// restConfig says how to reach the API server.
func (k *Kubernetes) restConfig() (*rest.Config, error) {
	if k.opt.Kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the API server of this pod: %w", err)
		}
		return config, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: k.opt.Kubeconfig}
	file, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*file, k.opt.Context, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("use kubeconfig %s: %w", k.opt.Kubeconfig, err)
	}
	return config, nil
}

// clientFor returns a client of one group and version. The API server's own kinds
// come as protobuf; what is defined by a CustomResourceDefinition is served as
// JSON only.
func clientFor(config *rest.Config, gv schema.GroupVersion) (*rest.RESTClient, error) {
	c := rest.CopyConfig(config)
	c.UserAgent = userAgent
	// A drain reads and writes its Lease more often than the default allows; the
	// readers have a time of their own between tries.
	c.QPS, c.Burst = 20, 40
	c.GroupVersion = &gv
	c.NegotiatedSerializer = serializer.NewCodecFactory(kinds).WithoutConversion()
	c.APIPath = "/apis"
	if gv.Group == "" {
		c.APIPath = "/api"
	}
	if builtIn[gv] {
		c.ContentType = "application/vnd.kubernetes.protobuf"
		c.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	}
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", gv, err)
	}
	return client, nil
}

// kinds are the kinds of objects that clients decode, and decoder does.
var (
	kinds   = newScheme()
	decoder = serializer.NewCodecFactory(kinds).UniversalDeserializer()
)

// hushClient has the client library log what it has to say where few will look:
// what is wrong is in the inventory already, said once.
func hushClient(log *slog.Logger) {
	hushing.Do(func() { klog.SetLogger(logr.FromSlogHandler(asDebug{log.Handler()})) })
}

var hushing sync.Once

// asDebug is a handler for which everything is of level debug.
type asDebug struct{ slog.Handler }

func (h asDebug) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

func (h asDebug) Handle(ctx context.Context, r slog.Record) error {
	if !h.Enabled(ctx, slog.LevelDebug) {
		return nil // errors come unasked
	}
	r.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, r)
}

func (h asDebug) WithAttrs(attrs []slog.Attr) slog.Handler {
	return asDebug{h.Handler.WithAttrs(attrs)}
}
func (h asDebug) WithGroup(name string) slog.Handler { return asDebug{h.Handler.WithGroup(name)} }

// poke sends without waiting: what is in the slot already says the same.
func poke(slot chan<- struct{}) {
	select {
	case slot <- struct{}{}:
	default:
	}
}
