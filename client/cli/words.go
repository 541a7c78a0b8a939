package cli

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "netclass.dev/proto/netclass/v1"
)

// camel makes "NoCarrier" of LINK_STATE_NO_CARRIER without its prefix; a value
// that this build does not know shows as its number.
func camel(enum fmt.Stringer, prefix string) string {
	name, known := strings.CutPrefix(enum.String(), prefix)
	if !known {
		return name
	}
	if name == "UNSPECIFIED" {
		return ""
	}
	var b strings.Builder
	for _, word := range strings.Split(name, "_") {
		b.WriteString(word[:1] + strings.ToLower(word[1:]))
	}
	return b.String()
}

func health(h pb.Health) cell {
	tones := map[pb.Health]tone{
		pb.Health_HEALTH_READY: good, pb.Health_HEALTH_DELEGATED: good, pb.Health_HEALTH_SHARED: fair,
		pb.Health_HEALTH_WAITING: fair, pb.Health_HEALTH_DEGRADED: bad, pb.Health_HEALTH_IDLE: faint, pb.Health_HEALTH_DRAINED: fair,
		pb.Health_HEALTH_DRAINING: fair,
	}
	return cell{camel(h, "HEALTH_"), tones[h]}
}

func objectState(s pb.ObjectState) cell {
	tones := map[pb.ObjectState]tone{
		pb.ObjectState_OBJECT_STATE_INSTALLED: good, pb.ObjectState_OBJECT_STATE_HELD: fair, pb.ObjectState_OBJECT_STATE_WAITING: fair,
		pb.ObjectState_OBJECT_STATE_LEFTOVER: fair, pb.ObjectState_OBJECT_STATE_MISSING: bad, pb.ObjectState_OBJECT_STATE_DIFFERENT: bad,
		pb.ObjectState_OBJECT_STATE_FOREIGN: faint,
	}
	return cell{camel(s, "OBJECT_STATE_"), tones[s]}
}

func linkState(s pb.LinkState) string { return camel(s, "LINK_STATE_") }

func family(f pb.Family) string {
	return strings.ToLower(strings.TrimPrefix(f.String(), "FAMILY_"))
}

// protocol names an RTPROT number as iproute2 does, with ours added.
func protocol(n uint32) string {
	names := map[uint32]string{
		0: "unspec", 1: "redirect", 2: "kernel", 3: "boot", 4: "static", 9: "ra", 11: "zebra", 12: "bird", 16: "dhcp", 17: "kube-router",
		42: "babel", 148: "netclass", 186: "bgp", 187: "isis", 188: "ospf", 189: "rip", 192: "eigrp",
	}
	if name := names[n]; name != "" {
		return name
	}
	return fmt.Sprint(n)
}

// number shows 0 as nothing, where it means "none".
func number(n uint32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// since says how long ago a time was; empty when there is none.
func (a *app) since(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return short(a.env.Now().Sub(t.AsTime()))
}

// until says how long a time is off.
func (a *app) until(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return short(t.AsTime().Sub(a.env.Now()))
}

// short shows a span with at most two units: "4s", "12m5s", "3h2m", "2d4h".
func short(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	day := 24 * time.Hour
	switch {
	case d >= 10*day:
		return fmt.Sprintf("%dd", d/day)
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= 10*time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// span shows a duration of the configuration or of a pass; empty when there is
// none.
func span(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	v := d.AsDuration()
	switch {
	case v >= time.Second:
		return v.Round(10 * time.Millisecond).String()
	case v >= time.Millisecond:
		return v.Round(100 * time.Microsecond).String()
	}
	return v.Round(time.Microsecond).String()
}

// count writes "1 node", "3 nodes".
func count[N int | uint32 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "s") || strings.HasSuffix(noun, "x") {
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// clean makes a text fit for one line of a terminal: part of it comes from peers
// and files, which must not move the cursor or colour what follows.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, s)
}

// join joins the texts that are not empty.
func join(separator string, texts ...string) string {
	var some []string
	for _, t := range texts {
		if t != "" {
			some = append(some, t)
		}
	}
	return strings.Join(some, separator)
}
