package bgp

import (
	"fmt"
	"strconv"
	"strings"
)

// wellKnown holds the communities that have a name (IANA's registry of BGP
// well-known communities).
var wellKnown = map[string]string{
	"graceful-shutdown":   "65535:0",
	"accept-own":          "65535:1",
	"blackhole":           "65535:666",
	"no-export":           "65535:65281",
	"no-advertise":        "65535:65282",
	"no-export-subconfed": "65535:65283",
	"local-as":            "65535:65283",
	"no-peer":             "65535:65284",
}

// parseCommunity returns a community as numbers: two for a plain one (RFC
// 1997), three for a large one (RFC 8092).
func parseCommunity(c string) (string, error) {
	if n, ok := wellKnown[strings.ToLower(c)]; ok {
		return n, nil
	}
	parts := strings.Split(c, ":")
	bits := map[int]int{2: 16, 3: 32}[len(parts)]
	if bits == 0 {
		return "", fmt.Errorf("community %q is neither A:B nor A:B:C nor a known name", c)
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, bits)
		if err != nil {
			return "", fmt.Errorf("community %q: %q is not a number of %d bits", c, p, bits)
		}
		parts[i] = strconv.FormatUint(n, 10)
	}
	return strings.Join(parts, ":"), nil
}
