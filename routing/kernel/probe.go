package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"netclass.dev/routing"
)

// The kernel asks three times, a second apart by default, before it gives a
// neighbour up.
const (
	probePoll    = 25 * time.Millisecond
	probePollMax = 200 * time.Millisecond
	probeTimeout = 4 * time.Second
)

// neighbour states by what they say (NUD_*).
const (
	nudStatic   = unix.NUD_PERMANENT | unix.NUD_NOARP
	nudAnswered = unix.NUD_REACHABLE
	nudAsking   = unix.NUD_INCOMPLETE | unix.NUD_PROBE
	nudKnown    = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE
)

// Probe makes the kernel ask whether the next hop addr answers on the link (ARP
// or neighbour solicitation), and waits for the outcome: an answer comes within
// milliseconds where there is one; silence is certain after about 3 s.
//
// A link that is absent or cannot carry packets has nobody alive on it. Static
// entries and links without address resolution say nothing: the next hop counts
// as alive there while the link is usable. The entry made for an unknown next
// hop is an ordinary one, which the kernel ages out.
func (k *Kernel) Probe(ctx context.Context, link string, a netip.Addr) (alive bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errSilent)
	defer cancel()
	asked := false
	for wait := probePoll; ; wait = min(wait*5/4, probePollMax) {
		l, flags, state, err := k.neighbour(ctx, link, a)
		switch {
		case errors.Is(err, unix.ENODEV):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("probe %s on %s: %w", a, link, err)
		case !l.Usable():
			return false, nil
		case state&nudStatic != 0 || flags&unresolved != 0:
			return true, nil
		case asked && state&nudAnswered != 0:
			return true, nil
		case asked && state&unix.NUD_FAILED != 0:
			return false, nil
		case !asked || state&nudAsking == 0:
			// Not asked yet, or the entry was given up or refreshed meanwhile.
			if err := k.askNeighbour(ctx, l.Index, a, state); err != nil {
				return false, fmt.Errorf("probe %s on %s: %w", a, link, err)
			}
			asked = true
		default: // asked, no answer yet
		}
		select {
		case <-time.After(wait):
		case <-k.closed:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errSilent) {
				return false, nil
			}
		}
	}
}

// Unanswered reports whether the kernel asks for a neighbour on a link just now, or has
// done so in vain, as when packets are sent to one that is gone. It makes nobody ask:
// of a neighbour that nobody has sent anything for a while it says nothing.
func (k *Kernel) Unanswered(ctx context.Context, link string, a netip.Addr) bool {
	l, flags, state, err := k.neighbour(ctx, link, a)
	return err == nil && l.Usable() && flags&unresolved == 0 && state&(unix.NUD_INCOMPLETE|unix.NUD_FAILED) != 0
}

// ErrNoSource means that an IPv6 next hop could not be asked: the kernel asks from
// the link-local address, and the link has none that is usable (yet). It says
// nothing about the next hop.
var ErrNoSource = errors.New("the link has no usable link-local address to ask from")

var errSilent = errors.New("no answer in time")

// unresolved are the flags of links that do without address resolution.
const unresolved = unix.IFF_NOARP | unix.IFF_LOOPBACK | unix.IFF_POINTOPOINT

// neighbour reads a link with its flags and the state of a neighbour on it; the
// state is 0 when the kernel has no entry.
func (k *Kernel) neighbour(ctx context.Context, link string, a netip.Addr) (l routing.Link, flags uint32, state uint16, err error) {
	k.probeMu.Lock()
	defer k.probeMu.Unlock()
	if err := k.ready(ctx, &k.probe); err != nil {
		return l, flags, 0, err
	}
	if l, flags, err = k.probe.link(link); err != nil {
		return l, flags, 0, err
	}
	b := appendNeighbour(k.probe.request(nil, unix.RTM_GETNEIGH, 0), l.Index, 0, 0, a)
	answer, err := k.probe.query(finish(b, 0))
	switch {
	case errors.Is(err, unix.ENOENT):
		return l, flags, 0, nil
	case err != nil:
		return l, flags, 0, err
	case len(answer) < unix.SizeofNdMsg:
		return l, flags, 0, errShort
	}
	return l, flags, native.Uint16(answer[8:]), nil
}

// askNeighbour makes the kernel ask now.
func (k *Kernel) askNeighbour(ctx context.Context, index int, a netip.Addr, state uint16) error {
	k.probeMu.Lock()
	defer k.probeMu.Unlock()
	if err := k.ready(ctx, &k.probe); err != nil {
		return err
	}
	if a.Is6() {
		if ok, err := k.probe.linkLocal(ctx, index); err != nil || !ok {
			return cmp.Or(err, ErrNoSource)
		}
	}
	// An entry without a link-layer address cannot be set to PROBE; using it
	// starts the resolution, and so it does for one that does not exist.
	nud, use, flags := uint16(unix.NUD_NONE), uint8(unix.NTF_USE), uint16(unix.NLM_F_CREATE)
	if state&nudKnown != 0 {
		nud, use, flags = unix.NUD_PROBE, 0, unix.NLM_F_REPLACE
	}
	b := k.probe.request(nil, unix.RTM_NEWNEIGH, flags|unix.NLM_F_ACK)
	_, err := k.probe.query(finish(appendNeighbour(b, index, nud, use, a), 0))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return nil // it went or lost its address meanwhile; the next look sees that
	}
	return err
}

// appendNeighbour encodes struct ndmsg and the neighbour's address.
func appendNeighbour(b []byte, index int, state uint16, flags uint8, a netip.Addr) []byte {
	b = append(b, familyNumber(a.Is4()), 0, 0, 0)
	b = native.AppendUint32(b, uint32(index))
	b = native.AppendUint16(b, state)
	b = append(b, flags, 0)
	return appendAddr(b, unix.NDA_DST, a)
}
