package inventory

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// backoff is how often an API server that is away, refuses or lacks a kind of
// object is asked again. Its jitter keeps the nodes of a large cluster apart.
var backoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 5, Cap: 8 * time.Second}

// event is what the readers tell the collector, which owns what is known.
type event struct {
	generation int // of the connection
	resource   int // its index
	// begun: a new connection reads everything anew; until it has, what is known
	// stays. An error says why there is none.
	begun bool
	whole map[string]fact // all there is, by the object's name; nil: not told
	name  string          // an object that is as fact says; empty: not told
	fact  fact            // nil: gone, or says nothing
	err   error           // why it cannot be read
	up    bool            // it is being watched
}

// tell sends an event unless ctx ends first.
func tell(ctx context.Context, events chan<- event, e event) {
	select {
	case events <- e:
	case <-ctx.Done():
	}
}

// read starts a reader of each resource.
func (k *Kubernetes) read(ctx context.Context, config *rest.Config, generation int, events chan<- event, refused chan<- struct{}) error {
	var all []*reader
	for i := range k.resources {
		r := &reader{resource: &k.resources[i], generation: generation, index: i, events: events, refused: refused}
		for _, gv := range r.versions {
			client, err := clientFor(config, gv)
			if err != nil {
				return err
			}
			r.clients = append(r.clients, client)
		}
		all = append(all, r)
	}
	tell(ctx, events, event{generation: generation, begun: true})
	k.client.Store(all[0].clients[0])
	if last := all[len(all)-1]; last.part == ofDrain {
		k.leases.Store(last.clients[0])
	}
	for _, r := range all {
		b := backoff
		reflector := cache.NewReflectorWithOptions(r, r.object, &store{reader: r, ctx: ctx}, cache.ReflectorOptions{
			Name: "inventory", TypeDescription: r.String(), Backoff: &b,
		})
		go reflector.RunWithContext(ctx)
	}
	return nil
}

// reader lists and watches one resource, and tells how that goes. It tries each
// request once: the reflector has a time of its own between tries.
type reader struct {
	*resource
	generation int
	index      int
	clients    []*rest.RESTClient // one for each of the resource's versions
	version    atomic.Int32       // of them, the one that is asked
	events     chan<- event
	refused    chan<- struct{}
}

func (r *reader) tell(ctx context.Context, e event) {
	e.generation, e.resource = r.generation, r.index
	tell(ctx, r.events, e)
}

// List and Watch are there for the interface; those with a context are called.
func (r *reader) List(o metav1.ListOptions) (runtime.Object, error) {
	return r.ListWithContext(context.Background(), o)
}

func (r *reader) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return r.WatchWithContext(context.Background(), o)
}

// ListWithContext lists the resource. That it can be listed does not say that all
// is well: only a watch does.
func (r *reader) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := r.list(ctx, &o)
	if err != nil {
		r.failed(ctx, err)
		return nil, err
	}
	return list, nil
}

// WatchWithContext watches the resource.
func (r *reader) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	w, err := r.get(&o).Watch(ctx)
	if err != nil {
		r.failed(ctx, err)
		return nil, err
	}
	return onTrial(w, func() {
		r.tell(ctx, event{up: true})
	}, func() {
		r.failed(ctx, errors.New("the connection ends at once"))
	}), nil
}

// get is a request for those of the resource's objects that are read.
func (r *reader) get(o *metav1.ListOptions) *rest.Request {
	o.FieldSelector, o.LabelSelector = r.fields, r.labels
	return r.clients[r.version.Load()].Get().Namespace(r.namespace).Resource(r.plural).
		VersionedParams(o, metav1.ParameterCodec).MaxRetries(0)
}

// failed tells why the resource cannot be read.
func (r *reader) failed(ctx context.Context, err error) {
	switch {
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return // it is listed anew at once
	case apierrors.IsUnauthorized(err):
		poke(r.refused)
		err = fmt.Errorf("read %s: the API server does not accept the credentials: %w", r, err)
	case apierrors.IsForbidden(err):
		err = fmt.Errorf("read %s: the API server does not allow it: %w", r, err)
		if r.part != ofNodes {
			// A release that did not read it needed no right to.
			err = fmt.Errorf("%w; %s", err, manifestHint)
		}
	case apierrors.IsNotFound(err):
		// Another version of it may be there, and is tried next.
		r.version.Store((r.version.Load() + 1) % int32(len(r.clients)))
		err = fmt.Errorf("read %s: the API server does not have them", r)
		if !builtIn[r.versions[0]] {
			err = fmt.Errorf("%w; waiting for their CustomResourceDefinition", err)
		}
	default:
		err = fmt.Errorf("read %s: %w", r, lasting(err))
	}
	r.tell(ctx, event{err: err})
}

// lasting returns an error without what differs from one try to the next: the
// request's timeout, and the port that it came from.
func lasting(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if o, ok := errors.AsType[*net.OpError](err); ok && o.Addr != nil {
		err = fmt.Errorf("%s %s %s: %w", o.Op, o.Net, o.Addr, o.Err)
	}
	return err
}

// store takes in what the reflector finds. It keeps nothing itself.
type store struct {
	*reader
	ctx context.Context
}

// Transformer has the reflector keep items in the place of objects while it reads
// all there is.
func (s *store) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return s.item(object) }
}

// item takes what is used out of an object, unless that has been done.
func (r *resource) item(object any) (item, error) {
	if i, is := object.(item); is {
		return i, nil
	}
	m, err := meta.Accessor(object)
	if err != nil {
		return item{}, err
	}
	name := m.GetName()
	if namespace := m.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return item{name, r.fact(object)}, nil
}

// Add implements the reflector's store.
func (s *store) Add(object any) error {
	i, err := s.item(object)
	if err == nil {
		s.tell(s.ctx, event{name: i.name, fact: i.fact})
	}
	return err
}

// Update implements the reflector's store.
func (s *store) Update(object any) error { return s.Add(object) }

// Delete implements the reflector's store.
func (s *store) Delete(object any) error {
	i, err := s.item(object)
	if err == nil {
		s.tell(s.ctx, event{name: i.name})
	}
	return err
}

// Replace implements the reflector's store.
func (s *store) Replace(objects []any, _ string) error {
	whole := make(map[string]fact, len(objects))
	for _, o := range objects {
		i, err := s.item(o)
		if err != nil {
			return err
		}
		if i.fact != nil {
			whole[i.name] = i.fact
		}
	}
	s.tell(s.ctx, event{whole: whole})
	return nil
}

// Resync implements the reflector's store.
func (s *store) Resync() error { return nil }
