package drain

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/statefile"
)

// recordFile is the record's name in the state directory, recordVersion the
// version of its form, recordLimit what is more than it ever has, in bytes.
const (
	recordFile    = "drain.json"
	recordVersion = 1
	recordLimit   = 1 << 20
)

// record is what must outlive the process. It is on disk only while there is
// something to remember.
type record struct {
	Version int                  `json:"version"`
	Request routing.DrainRequest `json:"request"`
	Phase   routing.DrainPhase   `json:"phase"` // empty: there is no drain
	Step    routing.DrainStep    `json:"step"`
	Since   time.Time            `json:"since"` // of the phase
	// Locked: the lock has been won. Marker: it is the one in BGP.
	Locked bool `json:"locked"`
	Marker bool `json:"marker"`
	// Leases are those that name this node, or may do so: "kube-system/netclass-drain".
	Leases []string `json:"leases,omitempty"`
	// Sessions are those over its links that were up when it began: "k8s-2/ipv4".
	Sessions []string `json:"sessions,omitempty"`
	// Cause is the error of a drain that is rolled back, and Failure what kind it is.
	Cause   string               `json:"cause,omitempty"`
	Failure routing.DrainFailure `json:"failure,omitzero"`
	Undoer  string               `json:"undoer,omitempty"`
	// Answering is the request over the lease that is being answered; nil: none.
	Answering *routing.DrainRequest `json:"answering,omitempty"`
	// Releasing: nothing is drained any more, but the lease still says so.
	Releasing bool `json:"releasing,omitempty"`
	// Overridden: it was undrained though its Node is cordoned, and stays so.
	Overridden bool `json:"overridden,omitempty"`
}

// active reports whether anything is, or is being, drained.
func (r *record) active() bool { return active(r.Phase) }

// active reports whether something is, or is being, drained in a phase.
func active(p routing.DrainPhase) bool {
	return p != "" && p != routing.DrainEnded && p != routing.DrainWaiting
}

// empty reports whether there is nothing to remember.
func (r *record) empty() bool { return !r.active() && !r.Releasing && !r.Overridden }

// order is what the record asks of the engine.
func (r *record) order() routing.Draining {
	if !r.active() {
		return routing.Draining{Overridden: r.Overridden}
	}
	return routing.Draining{
		Overridden: r.Overridden, Step: r.Step, Phase: r.Phase, Classes: r.Request.Classes, KeepEgress: r.Request.KeepEgress,
		Marker: r.Marker && r.Step > routing.DrainNone,
	}
}

// phases are those that a record can be in.
var phases = []routing.DrainPhase{"", routing.DrainGoing, routing.DrainDone, routing.DrainUndoing, routing.DrainBack, routing.DrainEnded}

// readRecord reads the record of a state directory. A missing one is empty.
func readRecord(dir string) (r record, err error) {
	if dir == "" {
		return r, nil
	}
	data, err := statefile.Read(filepath.Join(dir, recordFile), recordLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	switch {
	case err != nil:
	case r.Version != recordVersion:
		err = fmt.Errorf("version %d is not known", r.Version)
	case r.Step > routing.DrainPaths || !slices.Contains(phases, r.Phase):
		err = fmt.Errorf("there is no phase %q with step %d", r.Phase, r.Step)
	}
	if err != nil {
		return record{}, fmt.Errorf("read drain: %w", err)
	}
	return r, nil
}

// load takes up the record. One that cannot be read is put aside, and taken to say
// that this node is drained: somebody may be working on its links, and pods work
// either way. Where a lease says who is drained, that counts instead.
func (d *Drainer) load() {
	r, err := readRecord(d.opt.StateDir)
	if err == nil {
		d.rec = r
		if l := d.lease(); l != nil && !r.Marker && len(r.Leases) == 0 && (r.active() || r.Releasing) {
			d.rec.Leases = []string{l.String()} // which older releases did not write
		}
		if l := d.lease(); l != nil && r.Locked && slices.Contains(d.rec.Leases, l.String()) {
			d.joined = l.String()
		}
		if r.Answering != nil {
			d.callers = []*caller{{request: *r.Answering, far: true, done: make(chan struct{})}}
			d.handled[r.Answering.ID] = time.Now()
		}
		if r.Releasing {
			d.ended[r.Request.ID] = true
		}
		return
	}
	path := filepath.Join(d.opt.StateDir, recordFile)
	aside := path + ".unreadable"
	if moved := os.Rename(path, aside); moved != nil {
		err = errors.Join(err, moved)
	}
	if d.lease() != nil {
		d.log.Error("drain not read: the lease says whether this node is drained", "error", err, "aside", aside)
		return
	}
	d.log.Error("drain not read: this node is taken to be drained, until it is undrained", "error", err, "aside", aside)
	d.rec = record{
		Request: routing.DrainRequest{ID: newID(), Reason: "what was remembered of a drain could not be read", By: "netclassd", At: time.Now()},
		Phase:   routing.DrainDone, Step: routing.DrainPaths, Since: time.Now(), Locked: true, Marker: true,
	}
	if err := d.save(); err != nil {
		d.log.Error("drain not saved", "error", err)
	}
}

// save brings the record to disk.
func (d *Drainer) save() error {
	if d.opt.StateDir == "" {
		return nil
	}
	path := filepath.Join(d.opt.StateDir, recordFile)
	if d.rec.empty() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget drain: %w", err)
		}
		return nil
	}
	d.rec.Version = recordVersion
	data, err := json.MarshalIndent(&d.rec, "", "  ")
	if err == nil {
		err = os.MkdirAll(d.opt.StateDir, 0o700)
	}
	if err == nil {
		err = statefile.Replace(path, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("save drain: %w", err)
	}
	return nil
}
