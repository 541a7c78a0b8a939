package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/statefile"
)

// ledgerFile is the ledger's name in the state directory.
const ledgerFile = "ledger.json"

// ledgerVersion is the version of the file's form, ledgerLimit what is more than it
// ever has, in bytes.
const (
	ledgerVersion = 1
	ledgerLimit   = 64 << 20
)

// ledger is the ledger in force and how it stands to its file.
type ledger struct {
	routing.Ledger
	unread  bool // there is one that cannot be read
	looked  bool // the kernel has been looked at for what an earlier run left
	adopted bool // and it had class paths of ours
	saved   bool // the file holds this ledger
}

// ledgerDocument is the file's form.
type ledgerDocument struct {
	Version    int                       `json:"version"`
	Protocols  []uint32                  `json:"protocols"`
	Tables     []routing.TableID         `json:"tables"`
	Priorities []uint32                  `json:"priorities"`
	Links      map[string][]netip.Prefix `json:"links"`
	Holders    map[netip.Prefix]string   `json:"holders,omitempty"`
	Drained    []string                  `json:"drained,omitempty"`
	// DrainPhases is of Drained.
	DrainPhases map[string]routing.DrainPhase `json:"drainPhases,omitempty"`
	Adopted     []adoptionDocument            `json:"adopted,omitempty"`
}

type adoptionDocument struct {
	Protocol uint32          `json:"protocol"`
	Table    routing.TableID `json:"table"`
}

// LoadLedger reads the ledger of a state directory. A missing one is empty.
func LoadLedger(dir string) (routing.Ledger, error) {
	var l routing.Ledger
	if dir == "" {
		return l, nil
	}
	data, err := statefile.Read(filepath.Join(dir, ledgerFile), ledgerLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, fmt.Errorf("read ledger: %w", err)
	}
	var doc ledgerDocument
	if err := json.Unmarshal(data, &doc); err != nil {
		return l, fmt.Errorf("read ledger %s: %w", filepath.Join(dir, ledgerFile), err)
	}
	if doc.Version != ledgerVersion {
		return l, fmt.Errorf("read ledger %s: version %d is not known", filepath.Join(dir, ledgerFile), doc.Version)
	}
	for _, p := range doc.Protocols {
		// No configuration may name these; what has them is the kernel's or an
		// administrator's.
		if p > 255 || p <= uint32(routing.ProtocolStatic) {
			return routing.Ledger{}, fmt.Errorf("read ledger %s: protocol %d cannot be ours", filepath.Join(dir, ledgerFile), p)
		}
		l.Protocols = append(l.Protocols, routing.Protocol(p))
	}
	for _, a := range doc.Adopted {
		if a.Protocol > 255 || a.Protocol <= uint32(routing.ProtocolKernel) || a.Table >= routing.DefaultID && a.Table <= routing.LocalID {
			return routing.Ledger{}, fmt.Errorf("read ledger %s: protocol %d in table %d cannot be adopted", filepath.Join(dir, ledgerFile), a.Protocol, a.Table)
		}
		l.Adopted = append(l.Adopted, routing.Adoption{Protocol: routing.Protocol(a.Protocol), Table: a.Table})
	}
	l.Tables, l.Priorities, l.Links, l.Holders, l.Drained = doc.Tables, doc.Priorities, doc.Links, doc.Holders, doc.Drained
	l.DrainPhases = doc.DrainPhases
	return l, nil
}

// loadLedger takes up what an earlier run left. Of one that cannot be read the
// configuration in force still finds what was named, and recoverLinks the rest.
func (e *Engine) loadLedger() {
	l, err := LoadLedger(e.opt.StateDir)
	if err != nil {
		e.log.Warn("state not read", "error", err)
	}
	e.ledger.Ledger, e.ledger.unread = l, err != nil
}

// saveLedger puts a ledger in force and on disk, where it differs.
func (e *Engine) saveLedger(l routing.Ledger) error {
	if e.ledger.saved && sameLedger(e.ledger.Ledger, l) {
		return nil
	}
	e.ledger.Ledger = l
	if e.opt.StateDir == "" {
		e.ledger.saved = true
		return nil
	}
	err := writeLedger(e.opt.StateDir, l)
	e.ledger.saved = err == nil
	return err
}

func writeLedger(dir string, l routing.Ledger) error {
	doc := ledgerDocument{
		Version: ledgerVersion, Tables: l.Tables, Priorities: l.Priorities, Links: l.Links, Holders: l.Holders,
		Drained: l.Drained, DrainPhases: l.DrainPhases,
	}
	for _, p := range l.Protocols {
		doc.Protocols = append(doc.Protocols, uint32(p))
	}
	for _, a := range l.Adopted {
		doc.Adopted = append(doc.Adopted, adoptionDocument{uint32(a.Protocol), a.Table})
	}
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("save ledger: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("save ledger: %w", err)
	}
	if err := statefile.Replace(filepath.Join(dir, ledgerFile), append(data, '\n')); err != nil {
		return fmt.Errorf("save ledger: %w", err)
	}
	return nil
}

func sameLedger(a, b routing.Ledger) bool {
	return slices.Equal(a.Protocols, b.Protocols) && slices.Equal(a.Tables, b.Tables) && slices.Equal(a.Priorities, b.Priorities) &&
		maps.EqualFunc(a.Links, b.Links, slices.Equal) && maps.Equal(a.Holders, b.Holders) &&
		slices.Equal(a.Drained, b.Drained) && maps.Equal(a.DrainPhases, b.DrainPhases) && slices.Equal(a.Adopted, b.Adopted)
}
