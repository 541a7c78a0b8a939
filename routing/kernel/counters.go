package kernel

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// Counters returns what has passed over every link since it was made, by name.
// Down or up makes no difference; a link that is made anew begins at zero.
func (k *Kernel) Counters(ctx context.Context) (map[string]routing.LinkCounters, error) {
	k.lookupMu.Lock()
	defer k.lookupMu.Unlock()
	if err := k.ready(ctx, &k.lookup); err != nil {
		return nil, fmt.Errorf("read link counters: %w", err)
	}
	counters := make(map[string]routing.LinkCounters)
	err := k.lookup.list(ctx, unix.RTM_GETLINK, unix.RTM_NEWLINK, make([]byte, unix.SizeofIfInfomsg), func(b []byte) error {
		name, c, err := decodeCounters(b)
		if err == nil {
			counters[name] = c
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read link counters: %w", err)
	}
	return counters, nil
}

// decodeCounters reads three numbers of struct rtnl_link_stats64: rx_packets, the
// first, tx_packets, the second, and multicast, the ninth.
func decodeCounters(b []byte) (name string, c routing.LinkCounters, err error) {
	if len(b) < unix.SizeofIfInfomsg {
		return "", c, fmt.Errorf("decode link: %w", errShort)
	}
	counted := false
	for kind, v := range attributes(b[unix.SizeofIfInfomsg:]) {
		switch {
		case kind == unix.IFLA_IFNAME:
			name = text(v)
		case kind == unix.IFLA_STATS64 && len(v) >= 72:
			c = routing.LinkCounters{Received: native.Uint64(v), Sent: native.Uint64(v[8:]), Multicast: native.Uint64(v[64:])}
			counted = true
		}
	}
	if name == "" || !counted {
		return "", c, fmt.Errorf("decode counters of link %q: %w", name, errShort)
	}
	return name, c, nil
}
