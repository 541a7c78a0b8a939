package routing

import "net/netip"

// Service is a Kubernetes Service of type LoadBalancer, as far as its addresses
// are to be announced.
type Service struct {
	Name      string            // namespace/name
	Class     string            // loadBalancerClass; empty: none
	Labels    map[string]string // those that some selector asks for
	Addresses []netip.Addr      // status.loadBalancer.ingress, sorted
	// Local is externalTrafficPolicy: Local: only a node with a ready endpoint of
	// its own may take its packets.
	Local bool
	// Nodes are those that have a ready endpoint, by name. With Local only. Where
	// they differ by family there are two Services of one name, one for each.
	Nodes []string
}

// Selects reports whether a Service is asked for. Without a class those without
// one are: the others have an announcer of their own.
func (s *Services) Selects(svc *Service) bool {
	if svc.Class != s.Class {
		return false
	}
	for key, value := range s.Selector {
		if got, ok := svc.Labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}
