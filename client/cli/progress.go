package cli

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	pb "netclass.dev/proto/netclass/v1"
)

// ratesPause is the least time between two lines of rates that stay: where they
// cannot be written over.
const ratesPause = 5 * time.Second

// progress shows a drain or undrain as it goes on.
type progress struct {
	app    *app
	what   string // "drain" or "undrain"
	node   string // as asked for; empty: the one that answers
	byName bool   // it was asked for: it may be another
	forced bool
	dryRun bool

	begin time.Time
	costs []string
	last  proto.Message // the newest response
	drain *pb.Drain     // of it
	done  bool
	steps int // responses that were a step of this run

	said    string // the newest line of a step
	failed  string // why it is taken back, as it has been said
	onRates bool   // the cursor is in a line that is written over
	rates   time.Time
}

// show prints what a response has that is new.
func (p *progress) show(d *pb.Drain, done bool) {
	first := p.drain == nil
	p.drain, p.done = d, done
	if d.GetNode() != "" {
		p.node = d.GetNode()
	}
	if !done {
		p.steps++
	}
	if p.app.format == formatJSON || p.app.format == formatYAML {
		return
	}
	if first && len(p.costs) > 0 && !done {
		p.app.say("draining %s costs:\n", p.named())
		for _, c := range p.costs {
			p.app.say("  - ")
			p.app.fold(cell{text: clean(c)}, 4)
		}
	}
	if p.dryRun {
		return
	}
	switch {
	case done && (p.steps == 0 || d.GetMessage() == ""): // there is no more to say
	case len(d.GetRates()) > 0 && !done:
		p.showRates(d)
	default:
		p.step(d)
	}
}

// step prints a line when there is a word that has not been said.
func (p *progress) step(d *pb.Drain) {
	if d.GetError() != "" && p.failed == "" {
		p.failed = d.GetError()
		p.line(cell{"failed", bad}, d.GetError())
	}
	word := cell{text: stepName(d.GetStep())}
	switch d.GetPhase() {
	case pb.DrainPhase_DRAIN_PHASE_WAITING:
		word = cell{"waiting", fair}
	case pb.DrainPhase_DRAIN_PHASE_UNDRAINING: // the step is what is still out, which would read as what is done
		word = cell{text: "undraining"}
	case pb.DrainPhase_DRAIN_PHASE_ROLLING_BACK:
		word = cell{"rolling back", fair}
	case pb.DrainPhase_DRAIN_PHASE_UNDRAINED:
		word.text = ""
	}
	if line := word.text + "\x00" + d.GetMessage(); line != p.said && (word.text != "" || d.GetMessage() != "") {
		p.said = line
		p.line(word, d.GetMessage())
	}
}

// line prints a word and a text behind the time since the beginning.
func (p *progress) line(word cell, text string) {
	const width = len("graceful shutdown")
	p.clear()
	a := p.app
	a.say("%s%s", p.age(), a.paint(word))
	if text == "" {
		a.say("\n")
		return
	}
	a.say("%*s", width-len(word.text)+2, "")
	a.fold(cell{text: clean(text)}, len(p.age())+width+2)
}

// age is the time since the beginning, in a column.
func (p *progress) age() string { return fmt.Sprintf("%6s  ", short(p.app.env.Now().Sub(p.begin))) }

// stepName names a step as people read it.
func stepName(s pb.DrainStep) string {
	if s == pb.DrainStep_DRAIN_STEP_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(s.String(), "DRAIN_STEP_"), "_", " "))
}

// showRates tells what passes over the links: on a terminal in one line that the
// next takes the place of, elsewhere now and then.
func (p *progress) showRates(d *pb.Drain) {
	// Of "waiting for this: that" the step's own line has said the first half.
	news := d.GetMessage()
	if head, rest, ok := strings.Cut(news, ": "); ok && strings.Contains(p.said, "\x00"+head) {
		news = rest
	}
	text := p.age() + clean(join("; ", ratesText(d.GetRates()), news))
	a, now := p.app, p.app.env.Now()
	switch {
	case p.rewrites():
		p.clear()
		a.say("%s", a.paint(cell{shorten(text, a.env.Width-1), faint}))
		p.onRates = true
	case p.rates.IsZero() || now.Sub(p.rates) >= ratesPause:
		p.rates = now
		a.say("%s\n", text)
	}
}

// ratesText is empty where none are known.
func ratesText(list []*pb.LinkRate) string {
	var parts []string
	for _, r := range list {
		parts = append(parts, fmt.Sprintf("%s %s in %s out", r.GetLink(), rate(r.GetReceivedPacketsPerSecond()), rate(r.GetSentPacketsPerSecond())))
	}
	return prefixed("packets/s: ", strings.Join(parts, ", "))
}

// rate shows packets per second: a tenth matters only where there are few.
func rate(pps float64) string {
	if pps < 10 && pps != float64(int(pps)) {
		return fmt.Sprintf("%.1f", pps)
	}
	return fmt.Sprintf("%.0f", pps)
}

// rewrites reports whether a line can be written over.
func (p *progress) rewrites() bool {
	return p.app.env.Width > 0 && p.app.env.Getenv("TERM") != "dumb"
}

// clear takes the line of rates away.
func (p *progress) clear() {
	if p.onRates {
		p.app.say("\r\x1b[K")
		p.onRates = false
	}
}

// end says that it went well.
func (p *progress) end() {
	a := p.app
	if a.format == formatJSON || a.format == formatYAML {
		return
	}
	word := cell{"DRAINED", good}
	if p.what == "undrain" {
		word.text = "UNDRAINED"
	}
	switch took := short(a.env.Now().Sub(p.begin)); {
	case p.dryRun:
		a.say("%s can be drained now; nothing has been changed\n", p.named())
	case p.steps > 0:
		a.say("%s %s in %s\n", a.paint(word), p.named(), took)
	case p.what == "undrain":
		a.say("%s %s: %s\n", a.paint(word), p.named(), either(clean(p.drain.GetMessage()), "it was not drained"))
	default: // it was so before
		a.say("%s %s%s\n", a.paint(word), p.named(), prefixed(" already, ", a.drainSince(p.drain, !p.byName)))
	}
}

// named is the node in a sentence.
func (p *progress) named() string { return either(clean(p.node), "this node") }

// goesOn says what becomes of a drain that nobody follows, and what to do.
func (p *progress) goesOn() string {
	back := ""
	if p.what == "drain" {
		back = strings.TrimSpace(", netclassctl undrain "+clean(p.node)) + " takes it back"
	}
	return fmt.Sprintf("the %s of %s goes on: netclassctl nodes shows how far it is%s", p.what, p.named(), back)
}

// failure is why it failed, and where to see how the node is left, unless all has
// been put back.
func (p *progress) failure(err error) error {
	if p.what == "drain" && p.drain.GetPhase() == pb.DrainPhase_DRAIN_PHASE_UNDRAINED {
		return err
	}
	return fmt.Errorf("%w; netclassctl nodes %s shows how it stands", err, clean(p.node))
}
