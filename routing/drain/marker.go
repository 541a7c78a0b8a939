package drain

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"netclass.dev/routing"
)

// winMarker claims the right to be drained by the marker in BGP, which has been
// announced with the claim. Once every session has been up for two keepalives, every
// peer has heard it, and we theirs: of those who claim at one time the lowest BGP
// identifier wins, once the others have taken theirs back. One who does not has had
// it before, and always wins.
func (d *Drainer) winMarker(ctx context.Context) error {
	before := d.opt.Engine.State().Plan.Drained
	if err := d.applied(ctx, time.Now().Add(d.patience())); err != nil {
		return err
	}
	d.lock = d.markerName()
	s := d.opt.Engine.State()
	if d.rec.Request.Force || !anyPeer(s) {
		return nil
	}
	wait := claimTime(s)
	d.say(fmt.Sprintf("the others are told by a marker in BGP; in %v it shows whether another was first", wait), nil)
	claimed, giveUp := time.Now(), time.Now().Add(d.patience())
	for {
		if d.hear() {
			return errTurned
		}
		s = d.opt.Engine.State()
		now, until := time.Now(), latest(claimed, newestSession(s)).Add(wait)
		if !now.Before(until) {
			first, later := rivals(s, before)
			if until = until.Add(wait); !now.Before(until) {
				first = append(first, later...)
			}
			if len(first) > 0 {
				return &routing.Refused{Reasons: []string{fmt.Sprintf("%s began to drain before, or at the same time and goes first: undrain it first", list(first))}}
			}
			if len(later) == 0 {
				return nil
			}
		}
		if now.After(giveUp) {
			return late("the wait until every session has been up for "+wait.String(), d.patience())
		}
		if err := d.pause(ctx, until); err != nil {
			return err
		}
	}
}

// rivals returns the nodes whose marker goes before ours, which are those that had it
// before we claimed, that have a lower identifier, or whose identifier is not known;
// and the others, which are to take theirs back.
func rivals(s *routing.State, before []string) (first, later []string) {
	ours := netip.Addr{}
	if s.Plan.Speak != nil {
		ours = s.Plan.Speak.RouterID
	}
	for _, name := range s.Plan.Drained {
		if name == s.Node {
			continue
		}
		theirs := routerID(s, name)
		if slices.Contains(before, name) || !theirs.IsValid() || theirs.Less(ours) {
			first = append(first, name)
		} else {
			later = append(later, name)
		}
	}
	return first, later
}

func routerID(s *routing.State, node string) netip.Addr {
	for i := range s.Peers {
		if p := &s.Peers[i]; p.Neighbor.Key.Peer == node && !p.Neighbor.Upstream && p.Session.RouterID.IsValid() {
			return p.Session.RouterID
		}
	}
	return netip.Addr{}
}

// anyPeer reports whether there is somebody to tell.
func anyPeer(s *routing.State) bool {
	return s.Plan.Speak != nil && slices.ContainsFunc(s.Plan.Speak.Neighbors, func(n routing.Neighbor) bool { return !n.Upstream })
}

// newestSession is when the last of the sessions with the mesh came up.
func newestSession(s *routing.State) (at time.Time) {
	for i := range s.Peers {
		if p := &s.Peers[i]; !p.Neighbor.Upstream && p.Session.State == routing.Established {
			at = latest(at, p.Session.Since)
		}
	}
	return at
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// claimTime is two keepalives: within one, an update that was lost has been sent
// again, or the session has a doubt.
func claimTime(s *routing.State) time.Duration {
	longest := 3 * time.Second
	if s.Plan.Speak != nil {
		for i := range s.Plan.Speak.Neighbors {
			if n := &s.Plan.Speak.Neighbors[i]; !n.Upstream {
				longest = max(longest, n.Timers.Keepalive)
			}
		}
	}
	return 2 * longest
}

// markerName names the marker for people.
func (d *Drainer) markerName() string {
	s := d.opt.Engine.State()
	if s.Plan == nil || s.Plan.Speak == nil || !anyPeer(s) {
		return "nobody: there is no Kubernetes API, and no mesh that could be told by BGP"
	}
	return fmt.Sprintf("marker %s in BGP", routing.DrainMarker(s.Plan.Speak.RouterID, routing.IPv4))
}
