package drain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"netclass.dev/routing"
)

// tick is the time between looks at the counters.
const tick = time.Second

// sample is one look at the counters.
type sample struct {
	at    time.Time
	links map[string]routing.LinkCounters
}

// prove sees that what was withdrawn has left, and that nothing uses the links any
// more, in either direction and for long enough. It returns what that proves.
func (d *Drainer) prove(ctx context.Context, deadline time.Time) (proof string, err error) {
	var samples []sample
	for {
		if err := d.attend(ctx); err != nil {
			return "", err
		}
		s := d.opt.Engine.State()
		watched, left := watchable(s, &d.rec.Request)
		now, err := d.look(ctx)
		if err != nil {
			samples = nil
			d.sayOn("the counters cannot be read: "+err.Error(), nil)
		} else {
			samples = within(append(samples, now), quietFor(s))
			pending := unproven(s, watched, samples)
			if missing := d.missing(s, true); missing != "" && s.Drain == d.status {
				pending = missing
			} else if s.Drain != d.status && pending == "" {
				pending = "the newest look is still to come"
			}
			if pending == "" {
				d.seen = rates(watched, samples)
				return quietText(watched, left, s), nil
			}
			d.sayOn("waiting until the links are quiet: "+pending, rates(watched, samples))
			err = errors.New(pending)
		}
		if !time.Now().Before(deadline) {
			return "", late("the proof that the links are free ("+err.Error()+")", d.patience())
		}
		for until := time.Now().Add(tick); time.Now().Before(until); {
			if err := d.pause(ctx, until); err != nil {
				return "", err
			}
		}
	}
}

// look reads the counters.
func (d *Drainer) look(ctx context.Context) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	links, err := d.opt.Counters(ctx)
	return sample{time.Now(), links}, err
}

// within drops the samples that are not needed to look back over a time.
func within(samples []sample, back time.Duration) []sample {
	last := samples[len(samples)-1].at
	for len(samples) > 2 && last.Sub(samples[1].at) >= back {
		samples = samples[1:]
	}
	return samples
}

// quietFor is how long it must be quiet: at least from one look to the next.
func quietFor(s *routing.State) time.Duration {
	if c := s.Config.Config; c != nil {
		return max(c.Drain.QuietFor, tick)
	}
	return tick
}

// unproven says what is not quiet yet; empty: everything is.
func unproven(s *routing.State, watched []string, samples []sample) string {
	if rest := unsent(s); rest != "" {
		return "what was withdrawn " + rest
	}
	first, last := samples[0], samples[len(samples)-1]
	need := quietFor(s)
	if span := last.at.Sub(first.at); span < need {
		return fmt.Sprintf("watched for %v of %v", span.Round(tick/10), need)
	}
	for _, link := range watched {
		limit := allowance(s, link)
		if rate := rateOf(link, first, last); rate.Received > limit || rate.Sent > limit {
			return fmt.Sprintf("over %v %s has received %.1f and sent %.1f packets per second, at most %.1f may pass", need, link, rate.Received, rate.Sent, limit)
		}
	}
	return ""
}

// unsent ends a sentence with the peer that has not been told everything; empty: there
// is none. What is not acknowledged by its kernel may never arrive.
func unsent(s *routing.State) string {
	for i := range s.Peers {
		if p := &s.Peers[i].Session; p.State == routing.Established && p.Unsent > 0 {
			return fmt.Sprintf("has not all reached %s yet (%d)", p.Key, p.Unsent)
		}
	}
	return ""
}

// allowance is how many packets per second count as quiet in each direction: as
// configured, and what the BGP sessions on the link need to stay up. With a router that
// is each side's keepalive, which the other acknowledges. Members of the mesh ask each
// other, too, once nothing has passed for a second, whether they are alive, which is
// answered: what passes more often than that takes the place of questions.
func allowance(s *routing.State, link string) float64 {
	limit := 0.0
	if c := s.Config.Config; c != nil {
		limit = float64(c.Drain.QuietPPS)
	}
	if s.Plan.Speak == nil {
		return limit
	}
	for i := range s.Plan.Speak.Neighbors {
		if n := &s.Plan.Speak.Neighbors[i]; n.Link == link && n.Timers.Keepalive > 0 {
			each := 2 / n.Timers.Keepalive.Seconds()
			if !n.Upstream {
				each = max(each, 2)
			}
			limit += each
		}
	}
	return limit
}

// rates are those since the look before, for people.
func rates(watched []string, samples []sample) (list []routing.LinkRate) {
	if len(samples) < 2 {
		return nil
	}
	for _, link := range watched {
		list = append(list, rateOf(link, samples[len(samples)-2], samples[len(samples)-1]))
	}
	return list
}

// rateOf is what passed over a link between two looks, but for what came in for a
// group: no class's traffic does. A link that was made anew in between has counted from
// zero; one that is gone is quiet.
func rateOf(link string, first, last sample) routing.LinkRate {
	was, now := first.links[link], last.links[link]
	span := last.at.Sub(first.at).Seconds()
	if now.Received < was.Received || now.Sent < was.Sent {
		was = routing.LinkCounters{}
	}
	per := func(packets uint64) float64 {
		if span <= 0 {
			return math.Inf(1)
		}
		return float64(packets) / span
	}
	received := now.Received - was.Received
	if now.Multicast > was.Multicast { // the two are not read at one moment
		received -= min(now.Multicast-was.Multicast, received)
	}
	return routing.LinkRate{Link: link, Received: per(received), Sent: per(now.Sent - was.Sent)}
}

// watchable are the links of a drain that nothing else uses, and why the others are
// not watched.
func watchable(s *routing.State, req *routing.DrainRequest) (links, left []string) {
	for _, link := range drainable(s, req) {
		if why := shared(s, req, link); why != "" {
			left = append(left, link+" ("+why+")")
		} else {
			links = append(links, link)
		}
	}
	return links, left
}

// shared says what else uses a link; empty: nothing.
func shared(s *routing.State, req *routing.DrainRequest, link string) string {
	cfg := s.Config.Config
	for i := range s.Plan.Classes {
		c := &s.Plan.Classes[i]
		if c.Class.Link == link && !c.Health.TakenOut() && c.Health != routing.Delegated {
			return "it also carries " + c.Class.Name
		}
	}
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		if p := t.Routes.Peers; p != nil && p.Fallback.Link == link {
			return "it is the fallback of table " + t.Name
		}
		if d := t.Routes.Default; d != nil && d.Link == link && req.KeepEgress {
			return "the pods' way out stays there"
		}
	}
	if req.KeepEgress && imported(s, link) > 0 {
		return "the networks that routers tell of stay there"
	}
	if s.Kernel != nil && slices.ContainsFunc(s.Kernel.Routes, func(r routing.Route) bool {
		return r.Table == routing.MainID && r.Dst.Bits() == 0 && r.Link == link && !r.Type.Reject()
	}) {
		return "it has main's default"
	}
	return ""
}

// quietText says what has been proved.
func quietText(watched, left []string, s *routing.State) string {
	text := "nothing was left to watch"
	if len(watched) > 0 {
		var limits []string
		for _, link := range watched {
			limits = append(limits, fmt.Sprintf("%s at most %.1f packets per second", link, allowance(s, link)))
		}
		text = fmt.Sprintf("quiet for %v: %s", quietFor(s), strings.Join(limits, ", "))
	}
	if len(left) > 0 {
		text += "; not watched: " + list(left)
	}
	return text
}
