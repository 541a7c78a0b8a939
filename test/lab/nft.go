package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// nft loads a ruleset in the host's namespace.
func (h *Host) nft(ruleset string) error {
	_, err := h.ExecInput(context.Background(), strings.NewReader(ruleset), "nft", "-f", "-")
	return err
}

// declare declares named counters.
func declare(names []string) string {
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "\tcounter %s { }\n", n)
	}
	return b.String()
}

// nftCounters returns the packets of every named counter.
func (h *Host) nftCounters() (map[string]uint64, error) {
	text, err := h.Exec(context.Background(), "nft", "-j", "list", "counters", "table", "inet", "lab")
	if err != nil {
		return nil, err
	}
	var doc struct {
		Nftables []struct {
			Counter struct {
				Name    string `json:"name"`
				Packets uint64 `json:"packets"`
			} `json:"counter"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("read counters of %s: %w", h.Name, err)
	}
	out := map[string]uint64{}
	for _, item := range doc.Nftables {
		if item.Counter.Name != "" {
			out[item.Counter.Name] = item.Counter.Packets
		}
	}
	return out, nil
}
