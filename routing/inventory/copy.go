package inventory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"netclass.dev/routing"
	"netclass.dev/routing/internal/statefile"
)

const (
	copyName    = "nodes.json" // in the state directory
	copyVersion = 1            // of the file's form
	copyLimit   = 64 << 20     // bytes; ten thousand nodes with many annotations take a tenth of it
)

// copyFile is the last good copy of the nodes on disk, and of the Services.
type copyFile struct {
	dir     string // empty: none is kept
	origin  string // where the nodes are from; another's copy is not used
	boot    string // of the machine; empty: not known
	protect string // the label selector of protected nodes
}

// copied is what a copy holds.
type copied struct {
	nodes    []routing.Node
	services []routing.Service // without their nodes
	taken    time.Time         // when it was read
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
	// What is from here on, older releases did not write, and do not read.
	Boot           string          `json:"boot,omitempty"`
	Protect        string          `json:"protect,omitempty"`
	ServicesSHA256 string          `json:"servicesSHA256,omitempty"`
	Services       json.RawMessage `json:"services,omitempty"`
}

type copiedNode struct {
	Name        string            `json:"name"`
	PodCIDRs    []netip.Prefix    `json:"podCIDRs,omitempty"`
	InternalIPs []netip.Addr      `json:"internalIPs,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	UID         string            `json:"uid,omitempty"`
	NotReady    bool              `json:"notReady,omitempty"`
	Cordoned    bool              `json:"cordoned,omitempty"`
	Protected   bool              `json:"protected,omitempty"`
}

// copiedService has no nodes: where a Service of policy Local is ready now, no
// copy says.
type copiedService struct {
	Name      string            `json:"name"`
	Class     string            `json:"class,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Addresses []netip.Addr      `json:"addresses,omitempty"`
	Local     bool              `json:"local,omitempty"`
}

// load returns the copy; nil: there is none of the same origin.
func (c copyFile) load() (*copied, error) {
	if c.dir == "" {
		return nil, nil
	}
	path := filepath.Join(c.dir, copyName)
	doc, err := readCopy(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && doc.Origin == c.origin {
		var of *copied
		if of, err = c.unpack(doc); err == nil {
			return of, nil
		}
	}
	if err != nil {
		err = fmt.Errorf("read copy of the nodes %s: %w", path, err)
	}
	return nil, err
}

// readCopy reads the file, if it is whole.
func readCopy(path string) (*copyDocument, error) {
	data, err := statefile.Read(path, copyLimit)
	if err != nil {
		return nil, err
	}
	var doc copyDocument
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if doc.Version != copyVersion {
		return nil, fmt.Errorf("version %d is not known", doc.Version)
	}
	if sum(doc.Nodes) != doc.SHA256 || doc.Services != nil && sum(doc.Services) != doc.ServicesSHA256 {
		return nil, errors.New("its checksum is another: it is damaged")
	}
	return &doc, nil
}

// unpack takes in what of a copy still counts. Of another boot of the machine
// nobody knows whether a node is ready, nor whether a Service is served: other
// nodes may have been down too.
func (c copyFile) unpack(doc *copyDocument) (*copied, error) {
	var nodes []copiedNode
	if err := json.Unmarshal(doc.Nodes, &nodes); err != nil {
		return nil, err
	}
	sameBoot := c.boot != "" && doc.Boot == c.boot
	of := &copied{nodes: make([]routing.Node, 0, len(nodes)), taken: doc.Taken}
	for _, n := range nodes {
		of.nodes = append(of.nodes, routing.Node{
			Name: n.Name, PodCIDRs: n.PodCIDRs, InternalIPs: n.InternalIPs, Annotations: n.Annotations,
			UID: n.UID, NotReady: n.NotReady || !sameBoot, Cordoned: n.Cordoned,
			// By another selector it may be.
			Protected: c.protect != "" && (n.Protected || doc.Protect != c.protect),
		})
	}
	if doc.Services == nil || !sameBoot {
		return of, nil
	}
	var services []copiedService
	if err := json.Unmarshal(doc.Services, &services); err != nil {
		return nil, err
	}
	for _, s := range services {
		of.services = append(of.services, routing.Service{Name: s.Name, Class: s.Class, Labels: s.Labels, Addresses: s.Addresses, Local: s.Local})
	}
	return of, nil
}

// save writes the copy whole or not at all.
func (c copyFile) save(of copied) error {
	if c.dir == "" {
		return nil
	}
	data, err := c.pack(of)
	if err == nil && len(data) > copyLimit {
		err = fmt.Errorf("it would be longer than %d bytes", copyLimit)
	}
	if err == nil {
		err = os.MkdirAll(c.dir, 0o700)
	}
	if err == nil {
		err = statefile.Replace(filepath.Join(c.dir, copyName), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("save copy of the nodes: %w", err)
	}
	return nil
}

func (c copyFile) pack(of copied) ([]byte, error) {
	nodes := make([]copiedNode, 0, len(of.nodes))
	for _, n := range of.nodes {
		nodes = append(nodes, copiedNode{
			Name: n.Name, PodCIDRs: n.PodCIDRs, InternalIPs: n.InternalIPs, Annotations: n.Annotations,
			UID: n.UID, NotReady: n.NotReady, Cordoned: n.Cordoned, Protected: n.Protected,
		})
	}
	raw, err := json.Marshal(nodes)
	if err != nil {
		return nil, err
	}
	doc := copyDocument{
		Version: copyVersion, Origin: c.origin, Taken: of.taken.UTC().Round(time.Second), SHA256: sum(raw), Nodes: raw,
		Boot: c.boot, Protect: c.protect,
	}
	if of.services != nil {
		services := make([]copiedService, 0, len(of.services))
		for _, s := range of.services {
			services = append(services, copiedService{s.Name, s.Class, s.Labels, s.Addresses, s.Local})
		}
		if doc.Services, err = json.Marshal(services); err != nil {
			return nil, err
		}
		doc.ServicesSHA256 = sum(doc.Services)
	}
	return json.Marshal(doc)
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
