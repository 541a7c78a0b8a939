package inventory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"netclass.dev/routing"
)

const (
	copyName    = "nodes.json" // in the state directory
	copyVersion = 1            // of the file's form
	copyLimit   = 64 << 20     // bytes; ten thousand nodes with many annotations take a tenth of it
)

// copyFile is the last good copy of the nodes on disk.
type copyFile struct {
	dir    string // empty: none is kept
	origin string // where the nodes are from; another's copy is not used
}

// copyDocument is the file's form.
type copyDocument struct {
	Version int       `json:"version"`
	Origin  string    `json:"origin"`
	Taken   time.Time `json:"taken"`
	// SHA256 is of Nodes as they stand in the file: a file that is damaged is not
	// taken for one with other nodes.
	SHA256 string          `json:"sha256"`
	Nodes  json.RawMessage `json:"nodes"`
}

type copiedNode struct {
	Name        string            `json:"name"`
	PodCIDRs    []netip.Prefix    `json:"podCIDRs,omitempty"`
	InternalIPs []netip.Addr      `json:"internalIPs,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// load returns the nodes and when they were read. Without a copy of the same
// origin the nodes are nil.
func (c copyFile) load() (nodes []routing.Node, taken time.Time, err error) {
	if c.dir == "" {
		return nil, taken, nil
	}
	path := filepath.Join(c.dir, copyName)
	fail := func(err error) ([]routing.Node, time.Time, error) {
		return nil, time.Time{}, fmt.Errorf("read copy of the nodes %s: %w", path, err)
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, taken, nil
	}
	if err != nil {
		return fail(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, copyLimit+1))
	if err != nil {
		return fail(err)
	}
	if len(data) > copyLimit {
		return fail(fmt.Errorf("it is longer than %d bytes", copyLimit))
	}
	var doc copyDocument
	if err := json.Unmarshal(data, &doc); err != nil {
		return fail(err)
	}
	if doc.Version != copyVersion {
		return fail(fmt.Errorf("version %d is not known", doc.Version))
	}
	if sum(doc.Nodes) != doc.SHA256 {
		return fail(errors.New("its checksum is another: it is damaged"))
	}
	if doc.Origin != c.origin {
		return nil, taken, nil
	}
	var copied []copiedNode
	if err := json.Unmarshal(doc.Nodes, &copied); err != nil {
		return fail(err)
	}
	nodes = make([]routing.Node, 0, len(copied))
	for _, n := range copied {
		nodes = append(nodes, routing.Node{Name: n.Name, PodCIDRs: n.PodCIDRs, InternalIPs: n.InternalIPs, Annotations: n.Annotations})
	}
	return nodes, doc.Taken, nil
}

// save writes the copy whole or not at all.
func (c copyFile) save(nodes []routing.Node, taken time.Time) error {
	if c.dir == "" {
		return nil
	}
	copied := make([]copiedNode, 0, len(nodes))
	for _, n := range nodes {
		copied = append(copied, copiedNode{Name: n.Name, PodCIDRs: n.PodCIDRs, InternalIPs: n.InternalIPs, Annotations: n.Annotations})
	}
	raw, err := json.Marshal(copied)
	if err != nil {
		return fmt.Errorf("save copy of the nodes: %w", err)
	}
	data, err := json.Marshal(copyDocument{Version: copyVersion, Origin: c.origin, Taken: taken.UTC().Round(time.Second), SHA256: sum(raw), Nodes: raw})
	if err != nil {
		return fmt.Errorf("save copy of the nodes: %w", err)
	}
	if len(data) > copyLimit {
		return fmt.Errorf("save copy of the nodes: it would be longer than %d bytes", copyLimit)
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("save copy of the nodes: %w", err)
	}
	if err := replaceFile(filepath.Join(c.dir, copyName), append(data, '\n')); err != nil {
		return fmt.Errorf("save copy of the nodes: %w", err)
	}
	return nil
}

// sum is the checksum of JSON, however it is spaced.
func sum(raw []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	s := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(s[:])
}

// replaceFile writes a file whole or not at all: after a crash the name holds the
// old text or the new. The new text's own name is always the same, so that
// crashes leave no litter; one daemon alone writes a state directory.
func replaceFile(path string, data []byte) (err error) {
	fresh := path + ".new"
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(fresh)
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(fresh, path)
}
