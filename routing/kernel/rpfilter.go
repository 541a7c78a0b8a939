package kernel

import (
	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// Places in the settings of a link and of all (linux/if_link.h, linux/ip.h,
// linux/netconf.h).
const (
	inetConf     = 1     // IFLA_INET_CONF
	confRPFilter = 8 - 1 // IPV4_DEVCONF_RP_FILTER counts from 1

	netconfIndex    = 1 // NETCONFA_IFINDEX
	netconfRPFilter = 3 // NETCONFA_RP_FILTER
	netconfAll      = ^uint32(0)
)

// decodeRPFilter reads rp_filter from a link's settings by family; 0 where they
// do not tell.
func decodeRPFilter(b []byte) uint8 {
	for family, settings := range attributes(b) {
		if family != unix.AF_INET {
			continue
		}
		for kind, v := range attributes(settings) {
			if at := 4 * confRPFilter; kind == inetConf && len(v) >= at+4 {
				return filterMode(native.Uint32(v[at:]))
			}
		}
	}
	return 0
}

func filterMode(v uint32) uint8 {
	if v > 2 { // what is not known is no filter that anybody described
		return 0
	}
	return uint8(v)
}

// filterAll brings the links' reverse path filters to what is in force, by the one
// of all links. A kernel that does not tell that one leaves them as they are.
func (s *socket) filterAll(links []routing.Link) {
	b := append(s.request(nil, unix.RTM_GETNETCONF, 0), unix.AF_INET, 0, 0, 0) // struct netconfmsg
	answer, err := s.query(finish(appendU32(b, netconfIndex, netconfAll), 0))
	if err != nil || len(answer) < 4 {
		return
	}
	for kind, v := range attributes(answer[4:]) {
		if kind != netconfRPFilter || len(v) < 4 {
			continue
		}
		all := filterMode(u32(v))
		for i := range links {
			links[i].RPFilter = max(links[i].RPFilter, all)
		}
	}
}
