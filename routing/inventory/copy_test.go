package inventory

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"netclass.dev/routing"
)

func copyOf() copied {
	return copied{
		taken: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
		nodes: []routing.Node{
			{Name: "a", UID: "uid-a", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24")}, Protected: true},
			{Name: "b", UID: "uid-b", NotReady: true, Cordoned: true},
		},
		services: []routing.Service{
			{Name: "default/any", Class: "c", Labels: map[string]string{"pool": "red"}, Addresses: []netip.Addr{netip.MustParseAddr("10.47.64.1")}},
			{Name: "default/local", Local: true, Nodes: []string{"a"}},
		},
	}
}

// TestCopy loads a copy in the same boot of the machine, in another, and by another
// selector of protected nodes.
func TestCopy(t *testing.T) {
	saved := copyFile{dir: t.TempDir(), origin: "test", boot: "boot-1", protect: "storage"}
	if err := saved.save(copyOf()); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		boot, protect string
		change        func(*copied)
	}{
		"same boot": {"boot-1", "storage", func(*copied) {}},
		"another boot": {"boot-2", "storage", func(c *copied) {
			c.nodes[0].NotReady, c.services = true, nil
		}},
		"boot not known": {"", "storage", func(c *copied) {
			c.nodes[0].NotReady, c.services = true, nil
		}},
		"another selector": {"boot-1", "osd", func(c *copied) { c.nodes[1].Protected = true }},
		"no selector":      {"boot-1", "", func(c *copied) { c.nodes[0].Protected = false }},
	} {
		want := copyOf()
		want.services[1].Nodes = nil
		c.change(&want)
		file := saved
		file.boot, file.protect = c.boot, c.protect
		got, err := file.load()
		if err != nil || got == nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v, %v\nwant %+v", what, got, err, want)
		}
	}
	other := saved
	other.origin = "another"
	if got, err := other.load(); got != nil || err != nil {
		t.Errorf("another's: %+v, %v", got, err)
	}
}

// TestCopyOfNone keeps none of a boot that cannot be told apart, which could be any.
func TestCopyOfNone(t *testing.T) {
	file := copyFile{dir: t.TempDir(), origin: "test"}
	if err := file.save(copyOf()); err != nil {
		t.Fatal(err)
	}
	got, err := file.load()
	if err != nil || got == nil || !got.nodes[0].NotReady || got.services != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestCopyOld loads a copy as releases wrote it that knew of pod CIDRs and addresses
// alone.
func TestCopyOld(t *testing.T) {
	file := copyFile{dir: t.TempDir(), origin: "test", boot: "boot-1", protect: "storage"}
	const text = `{"version":1,"origin":"test","taken":"2026-11-30T12:00:00Z",` +
		`"sha256":"a58461d5b4528af1254d3a0519821f933c2c988fb6d8ae9bbd30a36460c37394",` +
		`"nodes":[{"name":"a","podCIDRs":["10.0.1.0/24"]}]}`
	if err := os.WriteFile(filepath.Join(file.dir, copyName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := file.load()
	want := routing.Node{Name: "a", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24")}, NotReady: true, Protected: true}
	if err != nil || got == nil || len(got.nodes) != 1 || !equalNode(got.nodes[0], want) || got.services != nil {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}
