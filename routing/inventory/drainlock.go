package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"netclass.dev/routing"
)

// leaseTime bounds one request about the Lease.
const leaseTime = 10 * time.Second

// DrainLock is a Lease of the API server that is read and written as a lock of drains.
type DrainLock struct {
	k    *Kubernetes
	name LeaseName
}

// DrainLock returns the lock of a name, "NAMESPACE/NAME"; of no name, the one that the
// source was made with.
func (k *Kubernetes) DrainLock(name string) *DrainLock {
	l := &DrainLock{k: k, name: k.opt.Lease}
	if name != "" {
		l.name.Namespace, l.name.Name, _ = strings.Cut(name, "/")
	}
	return l
}

func (l *DrainLock) String() string { return l.name.String() }

// ReadDrain returns the lock as the API server has it now. Where it does not exist,
// it is free, has no version, and Unusable says so: WriteDrain then makes it, where
// that is allowed.
func (l *DrainLock) ReadDrain(ctx context.Context) (*routing.DrainLease, error) {
	client, err := l.k.leaseClient()
	if err != nil {
		return nil, fmt.Errorf("read drain lease: %w", err)
	}
	ctx, stop := context.WithTimeout(ctx, leaseTime)
	defer stop()
	var is coordinationv1.Lease
	err = client.Get().Namespace(l.name.Namespace).Resource("leases").Name(l.name.Name).MaxRetries(0).Do(ctx).Into(&is)
	if apierrors.IsNotFound(err) {
		return &routing.DrainLease{Unusable: missingLease(l.name)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read drain lease %s: %w", l, leaseError(err))
	}
	return leaseOf(&is), nil
}

// WriteDrain makes the lock what lease says, if it is still of lease's
// version, and returns it as it then is; an empty version makes one that does not
// exist. It is routing.ErrDrainConflict when somebody else has written it: read it
// again, and look again whether it is free. After another error it may have been
// written, or may yet be: read it again too. What differs in nothing is not
// written; what others keep in it stays.
func (l *DrainLock) WriteDrain(ctx context.Context, lease *routing.DrainLease) (*routing.DrainLease, error) {
	request, err := encodeRequest(lease.Request)
	if err != nil {
		return nil, err
	}
	status, err := encodeStatus(lease.Status)
	if err != nil {
		return nil, err
	}
	if plain(lease.Holder, maxHolder) != lease.Holder {
		return nil, fmt.Errorf("write drain lease: %.40q is no holder", lease.Holder)
	}
	w := leaseWrite{holder: lease.Holder, request: request, status: status, version: lease.Version}
	client, err := l.k.leaseClient()
	if err != nil {
		return nil, fmt.Errorf("write drain lease: %w", err)
	}
	ctx, stop := context.WithTimeout(ctx, leaseTime)
	defer stop()
	written, err := l.write(ctx, client, &w)
	if err != nil {
		return nil, fmt.Errorf("write drain lease %s: %w", l, leaseError(err))
	}
	return leaseOf(written), nil
}

func (k *Kubernetes) leaseClient() (*rest.RESTClient, error) {
	if client := k.leases.Load(); client != nil {
		return client, nil
	}
	return nil, errors.New("there is no connection to the API server yet")
}

func leaseOf(l *coordinationv1.Lease) *routing.DrainLease {
	lease := routing.DrainLease(*ofLease(l).(*leaseFact))
	return &lease
}

// leaseError says what to do about an error of the API server.
func leaseError(err error) error {
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return routing.ErrDrainConflict
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the API server does not allow it (%s): %w", manifestHint, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server does not accept the credentials: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the API server does not answer: %w", err)
	}
	return lasting(err)
}

// leaseWrite is what is to be in the Lease.
type leaseWrite struct {
	holder          string
	request, status string // annotations; empty: none
	version         string // resourceVersion of what is written over; empty: nothing
}

// write writes the Lease over the version that it is meant for. It is read as the
// text that it is: what it holds beside what we know of stays in it.
func (l *DrainLock) write(ctx context.Context, client *rest.RESTClient, w *leaseWrite) (*coordinationv1.Lease, error) {
	if w.version == "" {
		return l.make(ctx, client, w)
	}
	text, err := client.Get().Namespace(l.name.Namespace).Resource("leases").Name(l.name.Name).
		SetHeader("Accept", "application/json").MaxRetries(0).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, routing.ErrDrainConflict // it has been deleted, and the lock with it
	}
	if err != nil {
		return nil, err
	}
	var is coordinationv1.Lease
	object := make(map[string]any)
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := errors.Join(json.Unmarshal(text, &is), d.Decode(&object)); err != nil {
		return nil, fmt.Errorf("read what the API server has: %w", err)
	}
	if is.ResourceVersion != w.version {
		return nil, routing.ErrDrainConflict
	}
	if !w.into(object, &is, time.Now()) {
		return &is, nil
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var written coordinationv1.Lease
	err = client.Put().Namespace(l.name.Namespace).Resource("leases").Name(l.name.Name).
		VersionedParams(&metav1.UpdateOptions{FieldManager: fieldManager}, metav1.ParameterCodec).
		SetHeader("Content-Type", "application/json").MaxRetries(0).Body(body).Do(ctx).Into(&written)
	return &written, err
}

// make makes the Lease.
func (l *DrainLock) make(ctx context.Context, client *rest.RESTClient, w *leaseWrite) (*coordinationv1.Lease, error) {
	object := map[string]any{
		"apiVersion": coordinationv1.SchemeGroupVersion.String(), "kind": "Lease",
		"metadata": map[string]any{"name": l.name.Name, "namespace": l.name.Namespace},
	}
	w.into(object, new(coordinationv1.Lease), time.Now())
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var written coordinationv1.Lease
	err = client.Post().Namespace(l.name.Namespace).Resource("leases").
		VersionedParams(&metav1.CreateOptions{FieldManager: fieldManager}, metav1.ParameterCodec).
		SetHeader("Content-Type", "application/json").MaxRetries(0).Body(body).Do(ctx).Into(&written)
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("%s; it may not be made from here: %s", missingLease(l.name), err.Error())
	}
	return &written, err
}

// into puts what is to be into the Lease as it is, and reports whether that
// changes anything. Only what differs is touched: what another release wrote, and
// we cannot read, is not ours to remove.
func (w *leaseWrite) into(object map[string]any, is *coordinationv1.Lease, now time.Time) (changed bool) {
	was := leaseOf(is)
	stamp := now.UTC().Format(metav1.RFC3339Micro)
	spec, annotations := child(object, "spec"), child(child(object, "metadata"), "annotations")
	if w.holder != was.Holder {
		changed = true
		delete(spec, "acquireTime")
		delete(spec, "holderIdentity")
		if w.holder != "" {
			transitions := int32(0)
			if t := is.Spec.LeaseTransitions; t != nil {
				transitions = *t
			}
			spec["holderIdentity"], spec["acquireTime"], spec["leaseTransitions"] = w.holder, stamp, transitions+1
		}
	}
	// What was read in is written the same way if it is the same.
	request, _ := encodeRequest(was.Request)
	status, _ := encodeStatus(was.Status)
	for _, a := range []struct{ key, was, is string }{
		{requestAnnotation, request, w.request}, {statusAnnotation, status, w.status},
	} {
		if a.was == a.is {
			continue
		}
		changed = true
		if a.is == "" {
			delete(annotations, a.key)
		} else {
			annotations[a.key] = a.is
		}
	}
	if changed {
		spec["renewTime"] = stamp
		// With a duration it would be free while its holder is switched off.
		delete(spec, "leaseDurationSeconds")
	}
	return changed
}

// child returns the object of that name in another, which is made if need be.
func child(of map[string]any, name string) map[string]any {
	c, is := of[name].(map[string]any)
	if !is {
		c = make(map[string]any)
		of[name] = c
	}
	return c
}
