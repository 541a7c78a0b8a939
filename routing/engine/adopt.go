package engine

import (
	"fmt"
	"net/netip"
	"slices"

	"netclass.dev/routing"
	"netclass.dev/routing/plan"
)

// Takeover is what becomes of one route that is adopted.
type Takeover struct {
	Route routing.Route
	// By is what its packets follow afterwards: the planned route of the same
	// destination, or the next wider one of the table. Its Dst is zero when
	// there is none: the rules after the table's decide.
	By routing.Route
	// InPlace says that By has its destination and metric, so that the kernel
	// changes the one into the other.
	InPlace bool
}

// Kept reports whether the destination stays in the table.
func (t Takeover) Kept() bool { return t.By.Dst == t.Route.Dst }

func (t Takeover) String() string {
	switch {
	case t.InPlace:
		return "replaced in place by " + t.By.String()
	case t.Kept():
		return "removed once " + t.By.String() + " is in"
	case t.By.Dst.IsValid():
		return "removed; its packets follow " + t.By.String()
	}
	return "removed; the rules that follow decide"
}

// Adopting says what would become of the routes of an adoption, in the order of
// the kernel's.
func Adopting(in routing.Inputs, a routing.Adoption) []Takeover {
	ledger := *in.Ledger
	ledger.Adopted = append(slices.Clone(ledger.Adopted), a)
	in.Ledger = &ledger
	p := plan.Make(&in)
	var list []Takeover
	for i := range in.Kernel.Routes {
		r := &in.Kernel.Routes[i]
		if !a.Has(r) {
			continue
		}
		t := Takeover{Route: *r}
		for _, by := range p.Routes {
			if by.Table == a.Table && by.Family() == r.Family() && covers(by.Dst, r.Dst) && better(by, t.By) {
				t.By = by
			}
		}
		t.InPlace = t.By.Key() == r.Key()
		list = append(list, t)
	}
	return list
}

func covers(wide, narrow netip.Prefix) bool {
	return wide.Bits() <= narrow.Bits() && wide.Contains(narrow.Addr())
}

// better reports whether the kernel prefers a over b, of two that cover one
// destination.
func better(a, b routing.Route) bool {
	if !b.Dst.IsValid() || a.Dst.Bits() != b.Dst.Bits() {
		return !b.Dst.IsValid() || a.Dst.Bits() > b.Dst.Bits()
	}
	return a.Metric < b.Metric
}

// RecordAdoption has the next start adopt. No daemon may run on the directory.
func RecordAdoption(dir string, a routing.Adoption) error {
	l, err := LoadLedger(dir)
	if err != nil {
		return err
	}
	if slices.Contains(l.Adopted, a) {
		return nil
	}
	l.Adopted = append(l.Adopted, a)
	return writeLedger(dir, l)
}

// unfinished returns the adoptions that have not been carried out yet. One that
// has been is forgotten: should its routes come back their owner lives, and they
// are foreign again.
func (e *Engine) unfinished(p *routing.Plan) []routing.Adoption {
	var rest []routing.Adoption
	for _, a := range e.ledger.Adopted {
		left := 0
		for i := range e.kernel.Routes {
			if a.Has(&e.kernel.Routes[i]) {
				left++
			}
		}
		if left > 0 {
			e.conditions.add(fmt.Sprintf("table/%d", a.Table), "Adopting", fmt.Sprintf("%d routes of protocol %s are being taken over", left, a.Protocol))
		}
		if left > 0 || p.Hold != "" {
			rest = append(rest, a)
		}
	}
	return rest
}
