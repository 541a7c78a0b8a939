package routing

import "net/netip"

// Family is an address family.
type Family uint8

// The two families, by the number people call them.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// Families lists both families in the order they are planned and shown.
var Families = [...]Family{IPv4, IPv6}

func (f Family) String() string {
	switch f {
	case IPv4:
		return "ipv4"
	case IPv6:
		return "ipv6"
	}
	return "unspec"
}

// Default returns the family's default prefix, 0.0.0.0/0 or ::/0.
func (f Family) Default() netip.Prefix {
	if f == IPv4 {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

// Bits returns the length of an address of the family: 32 or 128.
func (f Family) Bits() int {
	if f == IPv4 {
		return 32
	}
	return 128
}

// FamilyOf returns the family of an address. A mapped address is IPv6.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// PerFamily holds one value for each family.
type PerFamily[T any] struct{ IPv4, IPv6 T }

// Of returns the value for f.
func (p PerFamily[T]) Of(f Family) T {
	if f == IPv4 {
		return p.IPv4
	}
	return p.IPv6
}

// Set stores the value for f.
func (p *PerFamily[T]) Set(f Family, v T) {
	if f == IPv4 {
		p.IPv4 = v
	} else {
		p.IPv6 = v
	}
}
