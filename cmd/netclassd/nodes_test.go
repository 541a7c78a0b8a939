package main

import (
	"reflect"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/inventory"
)

// TestOrigin has the source read what the configuration uses, and another source
// begin where that changes.
func TestOrigin(t *testing.T) {
	config := func(advertise ...*routing.Services) *routing.Config {
		c := &routing.Config{
			Cluster: &routing.Cluster{Kubernetes: &routing.Kubernetes{}, PodCIDRs: "node"}, BGP: &routing.BGP{},
			Drain: routing.Drain{ProtectSelector: "storage", LeaseNamespace: "kube-system", LeaseName: "netclass-drain"},
		}
		for _, s := range advertise {
			c.BGP.Upstreams = append(c.BGP.Upstreams, routing.Upstream{Advertise: routing.Advertise{Services: s}})
		}
		return c
	}
	none, wanted := originOf(config(nil))
	if !wanted || none.services || none.serviceLabels != nil || none.protect != "storage" ||
		none.lease != (inventory.LeaseName{Namespace: "kube-system", Name: "netclass-drain"}) {
		t.Errorf("no services: %+v", none)
	}
	some, _ := originOf(config(nil, &routing.Services{Selector: map[string]string{"pool": "red", "app": "x"}}, &routing.Services{Selector: map[string]string{"app": "y"}}))
	if !some.services || !reflect.DeepEqual(some.serviceLabels, []string{"app", "pool"}) {
		t.Errorf("services: %+v", some)
	}
	every, _ := originOf(config(&routing.Services{}))
	lease, selector := none, none
	lease.lease.Name, selector.protect = "another", "osd"
	all := []origin{none, some, every, lease, selector}
	for i, a := range all {
		for j, b := range all {
			if a.equal(b) != (i == j) {
				t.Errorf("%+v and %+v: equal is %v", a, b, a.equal(b))
			}
		}
	}
	c := config(&routing.Services{})
	c.BGP = nil
	if o, _ := originOf(c); o.services {
		t.Errorf("without BGP: %+v", o)
	}
}
