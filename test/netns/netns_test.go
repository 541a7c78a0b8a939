package netns_test

import (
	"os"
	"strings"
	"testing"

	"netclass.dev/test/netns"
)

func TestNamespaces(t *testing.T) {
	t.Parallel()
	a, b := netns.New(t), netns.New(t)
	for _, err := range []error{
		a.Veth("pod0", b, "port1"),
		a.Up("pod0"), b.Up("port1"),
		a.Addr("pod0", "10.48.0.1/24", "fd00:48::1/64"),
		b.Addr("port1", "10.48.0.2/24"),
		a.Sysctl("ipv4/conf/all/forwarding", "1"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if out := a.MustIP(t, "-br addr show pod0"); !strings.Contains(out, "10.48.0.1/24") || !strings.Contains(out, "fd00:48::1/64") {
		t.Errorf("addresses of pod0: %q", out)
	}
	if _, err := b.IP("link show pod0"); err == nil {
		t.Error("pod0 shows in the other namespace")
	}
	err := a.Do(func() error {
		got, err := os.ReadFile("/proc/sys/net/ipv4/conf/all/forwarding")
		if err == nil && strings.TrimSpace(string(got)) != "1" {
			t.Errorf("forwarding is %q", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.DelAddr("pod0", "10.48.0.1/24"); err != nil {
		t.Fatal(err)
	}
	if err := a.Down("pod0"); err != nil {
		t.Fatal(err)
	}
	if err := a.Delete("pod0"); err != nil {
		t.Fatal(err)
	}
	if err := a.Delete("pod0"); err == nil {
		t.Error("deleting a link that is gone worked")
	}
}
