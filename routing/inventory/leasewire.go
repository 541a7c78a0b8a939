package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"netclass.dev/routing"
)

// What others write into the Lease is shown on the terminals of all nodes, and
// anybody with the right to may write anything: it is bounded.
const (
	maxWire    = 8 << 10 // bytes of an annotation of ours
	maxName    = 253     // bytes of a name: a node's, a class's, an ID
	maxHolder  = 512     // bytes
	maxText    = 256     // bytes of a reason, a cost, a caller
	maxMessage = 512     // bytes of a message or an error
	maxListed  = 32      // classes, costs, links
	maxWait    = 7 * 24 * time.Hour
)

// wireRequest is a routing.DrainRequest in an annotation. That of a dry run names its
// node in another place: a release that knows no dry run finds no node, and drains none.
type wireRequest struct {
	ID         string        `json:"id"`
	Node       string        `json:"node,omitempty"`
	DryRunOf   string        `json:"dryRunOf,omitempty"`
	Undrain    bool          `json:"undrain,omitempty"`
	Reason     string        `json:"reason,omitempty"`
	Classes    []string      `json:"classes,omitempty"`
	Grace      *wireDuration `json:"grace,omitempty"`
	Wait       *wireDuration `json:"wait,omitempty"`
	KeepEgress bool          `json:"keepEgress,omitempty"`
	Force      bool          `json:"force,omitempty"`
	Holder     string        `json:"holder,omitempty"`
	By         string        `json:"by,omitempty"`
	Cordon     bool          `json:"cordon,omitempty"`
	At         time.Time     `json:"at,omitzero"`
}

// wireStatus is a routing.DrainStatus in an annotation.
type wireStatus struct {
	Request wireRequest `json:"request"`
	Phase   string      `json:"phase"`
	Step    string      `json:"step"`
	Message string      `json:"message,omitempty"`
	Costs   []string    `json:"costs,omitempty"`
	Rates   []wireRate  `json:"rates,omitempty"`
	At      time.Time   `json:"at,omitzero"`
	Error   string      `json:"error,omitempty"`
	Failure wireFailure `json:"failure,omitzero"`
	Since   time.Time   `json:"since,omitzero"`
	Lock    string      `json:"lock,omitempty"`
}

// wireRate is a routing.LinkRate, in packets per second.
type wireRate struct {
	Link     string  `json:"link"`
	Received float64 `json:"received"`
	Sent     float64 `json:"sent"`
}

// wireDuration is written as Go writes durations: "1m30s".
type wireDuration time.Duration

func (d wireDuration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *wireDuration) UnmarshalText(text []byte) error {
	read, err := time.ParseDuration(string(text))
	if err == nil && (read < 0 || read > maxWait) {
		err = fmt.Errorf("%s is not from 0 to %s", read, maxWait)
	}
	*d = wireDuration(read)
	return err
}

// wireSteps are the steps' names in the annotation, which other releases read too.
var wireSteps = [...]string{"None", "Claim", "Shutdown", "Upstream", "Mesh", "Default", "Paths"}

var phases = []routing.DrainPhase{routing.DrainWaiting, routing.DrainGoing, routing.DrainDone, routing.DrainUndoing, routing.DrainBack, routing.DrainEnded}

// encode writes an annotation.
func encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	if b.Len() > maxWire {
		return "", fmt.Errorf("it is longer than %d bytes", maxWire)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// encodeRequest writes a request as the annotation has it; nil: no annotation.
func encodeRequest(r *routing.DrainRequest) (string, error) {
	if r == nil {
		return "", nil
	}
	w := toWire(r)
	err := w.check()
	var text string
	if err == nil {
		text, err = encode(w)
	}
	if err != nil {
		return "", fmt.Errorf("write drain request: %w", err)
	}
	return text, nil
}

// encodeStatus writes a status as the annotation has it; nil: no annotation.
func encodeStatus(s *routing.DrainStatus) (string, error) {
	if s == nil {
		return "", nil
	}
	w := &wireStatus{
		Request: *toWire(&s.Request), Phase: string(s.Progress.Phase), Message: plain(s.Progress.Message, maxMessage),
		At: s.Progress.At.UTC(), Error: plain(s.Progress.Error, maxMessage), Failure: toWireFailure(&s.Progress.Failure),
		Since: s.Since.UTC(), Lock: plain(s.Lock, maxText),
	}
	if int(s.Progress.Step) < len(wireSteps) {
		w.Step = wireSteps[s.Progress.Step]
	}
	for _, cost := range first(s.Progress.Costs) {
		w.Costs = append(w.Costs, plain(cost, maxText))
	}
	for _, r := range first(s.Progress.Rates) {
		w.Rates = append(w.Rates, wireRate{plain(r.Link, maxName), finite(r.Received), finite(r.Sent)})
	}
	err := w.check()
	var text string
	if err == nil {
		text, err = w.encode()
	}
	if err != nil {
		return "", fmt.Errorf("write drain status: %w", err)
	}
	return text, nil
}

// encode writes the annotation. Where that would be too long, it is written without
// what others can do without.
func (w *wireStatus) encode() (text string, err error) {
	if text, err = encode(w); err != nil {
		w.Costs, w.Rates = nil, nil
		text, err = encode(w)
	}
	if err != nil {
		w.Failure.Refused = w.Failure.Refused[:min(len(w.Failure.Refused), 1)]
		text, err = encode(w)
	}
	return text, err
}

func toWire(r *routing.DrainRequest) *wireRequest {
	w := &wireRequest{
		ID: r.ID, Node: r.Node, Undrain: r.Undrain, Reason: plain(r.Reason, maxText), Classes: r.Classes,
		Grace: (*wireDuration)(r.Grace), Wait: (*wireDuration)(r.Wait), KeepEgress: r.KeepEgress, Force: r.Force,
		Holder: r.Holder, By: plain(r.By, maxText), Cordon: r.Cordon, At: r.At.UTC(),
	}
	if r.DryRun {
		w.Node, w.DryRunOf = "", r.Node
	}
	return w
}

// decodeRequest reads the annotation.
func decodeRequest(text string) (*routing.DrainRequest, error) {
	var w wireRequest
	err := decode(text, &w)
	if err == nil {
		err = w.check()
	}
	if err != nil {
		return nil, fmt.Errorf("annotation %s is ignored: %w", requestAnnotation, err)
	}
	r := w.request()
	return &r, nil
}

// decodeStatus reads the annotation.
func decodeStatus(text string) (*routing.DrainStatus, error) {
	var w wireStatus
	err := decode(text, &w)
	if err == nil {
		err = w.check()
	}
	if err != nil {
		return nil, fmt.Errorf("annotation %s is ignored: %w", statusAnnotation, err)
	}
	s := &routing.DrainStatus{Request: w.Request.request(), Since: w.Since, Lock: plain(w.Lock, maxText)}
	s.Progress = routing.DrainProgress{
		Phase: routing.DrainPhase(w.Phase), Step: routing.DrainStep(slices.Index(wireSteps[:], w.Step)),
		Message: plain(w.Message, maxMessage), At: w.At, Error: plain(w.Error, maxMessage),
		Failure: w.Failure.failure(),
	}
	for _, cost := range first(w.Costs) {
		s.Progress.Costs = append(s.Progress.Costs, plain(cost, maxText))
	}
	for _, r := range first(w.Rates) {
		s.Progress.Rates = append(s.Progress.Rates, routing.LinkRate{Link: plain(r.Link, maxName), Received: r.Received, Sent: r.Sent})
	}
	return s, nil
}

func decode(text string, into any) error {
	if len(text) > maxWire {
		return fmt.Errorf("it is longer than %d bytes", maxWire)
	}
	return json.Unmarshal([]byte(text), into)
}

func (w *wireRequest) request() routing.DrainRequest {
	return routing.DrainRequest{
		ID: w.ID, Node: w.Node + w.DryRunOf, DryRun: w.DryRunOf != "", Undrain: w.Undrain, Reason: plain(w.Reason, maxText), Classes: w.Classes,
		Grace: (*time.Duration)(w.Grace), Wait: (*time.Duration)(w.Wait), KeepEgress: w.KeepEgress, Force: w.Force,
		Holder: w.Holder, By: plain(w.By, maxText), Cordon: w.Cordon, At: w.At,
	}
}

// check reports what of a request cannot be meant. Names are what they are: a
// name that would have to be changed to be shown is none.
func (w *wireRequest) check() error {
	switch {
	case w.ID == "":
		return errors.New("it has no id")
	case w.Node == "" && w.DryRunOf == "":
		return errors.New("it names no node")
	case w.Node != "" && w.DryRunOf != "":
		return errors.New("it names two nodes")
	case w.DryRunOf != "" && w.Undrain:
		return errors.New("it is a dry run of an undrain")
	case len(w.Classes) > maxListed:
		return fmt.Errorf("it names more than %d classes", maxListed)
	}
	for _, name := range append([]string{w.ID, w.Node, w.DryRunOf}, w.Classes...) {
		if plain(name, maxName) != name {
			return fmt.Errorf("%.40q is no name", name)
		}
	}
	if plain(w.Holder, maxHolder) != w.Holder {
		return fmt.Errorf("%.40q is no holder", w.Holder)
	}
	return nil
}

func (w *wireStatus) check() error {
	if err := w.Request.check(); err != nil {
		return fmt.Errorf("its request: %w", err)
	}
	if !slices.Contains(phases, routing.DrainPhase(w.Phase)) {
		return fmt.Errorf("the phase %.40q is not known", w.Phase)
	}
	if !slices.Contains(wireSteps[:], w.Step) {
		return fmt.Errorf("the step %.40q is not known", w.Step)
	}
	return nil
}

// first returns as many as are taken in.
func first[T any](list []T) []T { return list[:min(len(list), maxListed)] }

func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// plain returns a text as it may be shown on a terminal: in one line, without what
// is not seen or moves what is, and not longer than limit bytes.
func plain(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return -1
	}, text[:min(len(text), 4*limit)])
	if len(text) <= limit {
		return text
	}
	const ellipsis = "…"
	return strings.ToValidUTF8(text[:limit-len(ellipsis)], "") + ellipsis
}
