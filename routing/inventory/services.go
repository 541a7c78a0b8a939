package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"netclass.dev/routing"
)

// maxAddresses is how many addresses of a Service are taken in; a load balancer
// gives it one of each family.
const maxAddresses = 64

// serviceFact is what is used of a Service of type LoadBalancer.
type serviceFact struct {
	routing.Service        // without Nodes
	odd             string // what of its addresses is no good, for people
}

func (s *serviceFact) same(other fact) bool {
	o := other.(*serviceFact)
	return s.odd == o.odd && equalService(s.Service, o.Service)
}

func equalService(a, b routing.Service) bool {
	return slices.Equal(a.Nodes, b.Nodes) && equalButNodes(a, b)
}

func equalButNodes(a, b routing.Service) bool {
	return a.Name == b.Name && a.Class == b.Class && a.Local == b.Local && slices.Equal(a.Addresses, b.Addresses) && maps.Equal(a.Labels, b.Labels)
}

// ofService takes what is used out of a Service.
func ofService(s *corev1.Service, keys []string) fact {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	f := &serviceFact{Service: routing.Service{
		Name: s.Namespace + "/" + s.Name, Local: s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal,
	}}
	if s.Spec.LoadBalancerClass != nil {
		f.Class = *s.Spec.LoadBalancerClass
	}
	for _, key := range keys {
		if value, ok := s.Labels[key]; ok {
			if f.Labels == nil {
				f.Labels = make(map[string]string, len(keys))
			}
			f.Labels[key] = value
		}
	}
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		// A proxy's address belongs to the proxy, which is not us: it sends on to
		// a node's own address.
		if ingress.IP == "" || ingress.IPMode != nil && *ingress.IPMode != corev1.LoadBalancerIPModeVIP {
			continue
		}
		a, err := netip.ParseAddr(ingress.IP)
		switch a = a.Unmap(); {
		case err != nil || a.Zone() != "" || !a.IsGlobalUnicast():
			f.odd = fmt.Sprintf("%.60q is no address to announce", ingress.IP)
		case slices.Contains(f.Addresses, a):
		case len(f.Addresses) == maxAddresses:
			f.odd = fmt.Sprintf("it has more than %d addresses", maxAddresses)
		default:
			f.Addresses = append(f.Addresses, a)
		}
	}
	slices.SortFunc(f.Addresses, netip.Addr.Compare)
	return f
}

// sliceFact is what is used of an EndpointSlice. There are many of them.
type sliceFact struct {
	service string // namespace/name
	nodes   string // those that have a ready endpoint, sorted, with spaces between
	family  routing.Family
}

func (s *sliceFact) same(other fact) bool { return *s == *other.(*sliceFact) }

// ofSlice takes what is used out of an EndpointSlice: the nodes with a ready
// endpoint. One that terminates is not ready, although it may be serving still:
// kube-proxy sends it what arrives as long as there is no ready one (KEP-1669),
// which is what makes it safe to withdraw the address now, while it does.
func ofSlice(s *discoveryv1.EndpointSlice) fact {
	name := s.Labels[discoveryv1.LabelServiceName]
	f := &sliceFact{service: s.Namespace + "/" + name}
	switch {
	case name == "":
		return nil
	case s.AddressType == discoveryv1.AddressTypeIPv4:
		f.family = routing.IPv4
	case s.AddressType == discoveryv1.AddressTypeIPv6:
		f.family = routing.IPv6
	default:
		return nil
	}
	var nodes []string
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		ready := e.Conditions.Ready == nil || *e.Conditions.Ready
		if ready && e.NodeName != nil && *e.NodeName != "" && !strings.Contains(*e.NodeName, " ") {
			nodes = append(nodes, *e.NodeName)
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	slices.Sort(nodes)
	f.nodes = strings.Join(slices.Compact(nodes), " ")
	return f
}

// localNodes are the nodes with a ready endpoint of one Service, by family.
type localNodes = routing.PerFamily[[]string]

// services joins the Services with the EndpointSlices, by name. A Service of
// policy Local that has addresses of both families and is not served by the same
// nodes in both comes as two, one of each family.
func (c *collection) services() []routing.Service {
	at := c.first(ofServices)
	local := make(map[string]*localNodes)
	for name, f := range c.facts[at] {
		if f.(*serviceFact).Local {
			local[name] = new(localNodes)
		}
	}
	for _, f := range c.facts[at+1] {
		s := f.(*sliceFact)
		switch l := local[s.service]; {
		case l == nil:
		case s.family == routing.IPv4:
			l.IPv4 = append(l.IPv4, strings.Fields(s.nodes)...)
		default:
			l.IPv6 = append(l.IPv6, strings.Fields(s.nodes)...)
		}
	}
	all := make([]routing.Service, 0, len(c.facts[at]))
	for name, f := range c.facts[at] {
		all = append(all, served(f.(*serviceFact).Service, local[name])...)
	}
	slices.SortStableFunc(all, func(a, b routing.Service) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// served returns a Service with its nodes; nil: any node serves it.
func served(s routing.Service, local *localNodes) []routing.Service {
	if local == nil {
		return []routing.Service{s}
	}
	for _, nodes := range []*[]string{&local.IPv4, &local.IPv6} {
		slices.Sort(*nodes)
		*nodes = slices.Compact(*nodes)
	}
	// They are sorted: IPv4 comes first.
	six := slices.IndexFunc(s.Addresses, netip.Addr.Is6)
	if six < 0 || len(s.Addresses) == 0 {
		s.Nodes = local.IPv4
		return []routing.Service{s}
	}
	if six > 0 && !slices.Equal(local.IPv4, local.IPv6) {
		first := s
		first.Addresses, first.Nodes = s.Addresses[:six:six], local.IPv4
		s.Addresses, s.Nodes = s.Addresses[six:], local.IPv6
		return []routing.Service{first, s}
	}
	s.Nodes = local.IPv6
	return []routing.Service{s}
}

// matters reports whether what a resource says of an object, now and before, can
// change the inventory: most EndpointSlices are of Services that any node serves.
func (c *collection) matters(resource int, facts ...fact) bool {
	if c.parts[resource] != ofServices || resource == c.first(ofServices) {
		return true
	}
	return slices.ContainsFunc(facts, func(f fact) bool {
		s, is := f.(*sliceFact)
		if !is {
			return false
		}
		service, is := c.facts[c.first(ofServices)][s.service].(*serviceFact)
		return is && service.Local
	})
}
