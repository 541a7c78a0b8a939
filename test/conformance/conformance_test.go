package conformance_test

import (
	"context"
	"net/netip"
	"testing"

	"netclass.dev/routing"
	"netclass.dev/routing/kernel"
	"netclass.dev/test/conformance"
	"netclass.dev/test/fakekernel"
	"netclass.dev/test/netns"
)

func TestFakeKernel(t *testing.T) {
	conformance.Run(t, func(testing.TB) conformance.Subject { return fakekernel.New() })
}

// real is the machine's kernel in a namespace of its own. The far end of each
// link is a link of the same name in another namespace.
type real struct {
	*kernel.Kernel
	*netns.NS
	far   *netns.NS
	other *kernel.Kernel // another process, as far as the kernel knows
}

func TestRealKernel(t *testing.T) {
	conformance.Run(t, func(t testing.TB) conformance.Subject {
		s := &real{NS: netns.New(t), far: netns.New(t)}
		for _, k := range []**kernel.Kernel{&s.Kernel, &s.other} {
			var err error
			if *k, err = kernel.Open(kernel.Config{NetNS: s.Fd()}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = (*k).Close() })
		}
		return s
	})
}

func (s *real) Close() error { return nil } // both embedded types have one; cleanups call them

func (s *real) AddLink(name string) error {
	if err := s.Veth(name, s.far, name); err != nil {
		return err
	}
	if err := s.far.Up(name); err != nil {
		return err
	}
	return s.Up(name)
}

func (s *real) DeleteLink(name string) error { return s.Delete(name) }

func (s *real) SetUp(link string, up bool) error {
	if up {
		return s.Up(link)
	}
	return s.Down(link)
}

func (s *real) SetCarrier(link string, on bool) error {
	if on {
		return s.far.Up(link)
	}
	return s.far.Down(link)
}

func (s *real) AddAddr(link string, p netip.Prefix) error { return s.Addr(link, p.String()) }
func (s *real) DelAddr(link string, p netip.Prefix) error { return s.NS.DelAddr(link, p.String()) }

func (s *real) Foreign(op routing.Op) error {
	for _, err := range s.other.Apply(context.Background(), []routing.Op{op}) {
		return err
	}
	return nil
}

func (s *real) Neighbour(link string, p netip.Prefix) error { return s.far.Addr(link, p.String()) }
