package inventory

import (
	"reflect"

	coordinationv1 "k8s.io/api/coordination/v1"

	"netclass.dev/routing"
)

// LeaseName names the Lease that lets one node be drained at a time.
type LeaseName struct{ Namespace, Name string }

func (n LeaseName) String() string { return n.Namespace + "/" + n.Name }

// The annotations of the Lease that carry what is asked and how it stands, as
// JSON of the form of wireRequest and wireStatus.
const (
	requestAnnotation = "netclass.dev/drain-request"
	statusAnnotation  = "netclass.dev/drain-status"
)

// leaseFact is what is used of the Lease.
type leaseFact routing.DrainLease

func (l *leaseFact) same(other fact) bool { return reflect.DeepEqual(l, other) }

// ofLease takes what is used out of the Lease. Whatever else it is, it is held if
// it says so.
func ofLease(l *coordinationv1.Lease) fact {
	f := &leaseFact{Version: l.ResourceVersion}
	if l.Spec.HolderIdentity != nil {
		f.Holder = plain(*l.Spec.HolderIdentity, maxHolder)
		if f.Holder == "" && *l.Spec.HolderIdentity != "" {
			f.Holder = "(not printable)"
		}
	}
	var faults []error
	var err error
	if text, ok := l.Annotations[requestAnnotation]; ok {
		f.Request, err = decodeRequest(text)
		faults = append(faults, err)
	}
	if text, ok := l.Annotations[statusAnnotation]; ok {
		f.Status, err = decodeStatus(text)
		faults = append(faults, err)
	}
	for _, err := range faults {
		if err == nil {
			continue
		}
		if f.Malformed != "" {
			f.Malformed += "; "
		}
		f.Malformed += plain(err.Error(), maxMessage)
	}
	return f
}

// lease returns the Lease as the readers have told it.
func (c *collection) lease(name LeaseName) routing.DrainLease {
	if f, is := c.facts[c.first(ofDrain)][name.String()].(*leaseFact); is {
		return routing.DrainLease(*f)
	}
	return routing.DrainLease{Unusable: missingLease(name)}
}

func missingLease(name LeaseName) string {
	return "lease " + name.String() + " does not exist: " + manifestHint
}

// manifestHint says what to do about rights and objects that are missing.
const manifestHint = "apply rbac.yaml (packaging/kubernetes) of this release"
