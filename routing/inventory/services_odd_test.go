package inventory

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func serviceWith(addresses ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	for _, a := range addresses {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a})
	}
	return s
}

// TestServiceOdd has addresses that are none, some that nobody can reach, and more
// than any Service has. The API server lets few of them through.
func TestServiceOdd(t *testing.T) {
	var many []string
	for i := range maxAddresses + 1 {
		many = append(many, fmt.Sprintf("10.47.64.%d", i))
	}
	for _, c := range []struct {
		addresses []string
		want, odd string
	}{
		{[]string{"10.47.64.2", "::ffff:10.47.64.1", "10.47.64.2"}, "[10.47.64.1 10.47.64.2]", ""},
		{[]string{"10.47.64.01", "10.47.64.1"}, "[10.47.64.1]", `"10.47.64.01" is no address to announce`},
		{[]string{"x\x1b[2J"}, "[]", `"x\x1b[2J" is no address to announce`},
		{[]string{"fe80::1%eth0"}, "[]", `"fe80::1%eth0" is no`}, {[]string{"2001:db8::1%eth0"}, "[]", "is no address"},
		{[]string{"0.0.0.0"}, "[]", "is no address"}, {[]string{"::1"}, "[]", "is no address"}, {[]string{"224.0.0.1"}, "[]", "is no address"},
		{[]string{"255.255.255.255"}, "[]", "is no address"}, {[]string{"fe80::1"}, "[]", "is no address"},
		{many, fmt.Sprint(many[:maxAddresses]), "more than 64 addresses"},
	} {
		f := ofService(serviceWith(c.addresses...), nil).(*serviceFact)
		if fmt.Sprint(f.Addresses) != c.want || !strings.Contains(f.odd, c.odd) || c.odd == "" && f.odd != "" {
			t.Errorf("%q: %v, %q", c.addresses, f.Addresses, f.odd)
		}
	}
}

// TestServiceComplaints has the log say once what is odd, and again once it has
// changed.
func TestServiceComplaints(t *testing.T) {
	c := newCollection(resources(&KubernetesOptions{Services: true}, nil))
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	for _, step := range []struct {
		address string // empty: the Service is gone
		lines   int
	}{{"10.47.64.1", 0}, {"::1", 1}, {"::1", 0}, {"224.0.0.1", 1}, {"10.47.64.1", 0}, {"::1", 1}, {"", 0}, {"::1", 1}} {
		facts := c.facts[c.first(ofServices)]
		delete(facts, "default/web")
		if step.address != "" {
			facts["default/web"] = ofService(serviceWith(step.address), nil)
		}
		b.Reset()
		c.complain(log)
		if got := strings.Count(b.String(), "\n"); got != step.lines {
			t.Errorf("%q: %d lines, want %d: %s", step.address, got, step.lines, &b)
		}
	}
}

// TestLeaseHolder takes a lock for held whatever stands in it.
func TestLeaseHolder(t *testing.T) {
	for holder, want := range map[string]string{
		"": "", "uid/id": "uid/id", "\x01": "(not printable)", " ": " ", "a\nb": "a b", strings.Repeat("x", 1000): strings.Repeat("x", maxHolder-3) + "…",
	} {
		l := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
		if got := leaseOf(l).Holder; got != want {
			t.Errorf("%q: %q, want %q", holder, got, want)
		}
	}
	if got := leaseOf(&coordinationv1.Lease{}).Holder; got != "" {
		t.Errorf("none: %q", got)
	}
}
