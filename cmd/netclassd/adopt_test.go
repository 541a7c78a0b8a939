package main

import (
	"testing"

	"netclass.dev/routing"
)

func TestAdoption(t *testing.T) {
	c := &routing.Config{Tables: []routing.Table{{Name: "pods", ID: 47}}}
	c.Daemon.Protocol = routing.ProtocolNetclass
	for _, tt := range []struct {
		protocol, table string
		want            routing.Adoption
		err             string
	}{
		{"bird", "47", routing.Adoption{Protocol: 12, Table: 47}, ""},
		{"BIRD", "pods", routing.Adoption{Protocol: 12, Table: 47}, ""},
		{"12", "pods", routing.Adoption{Protocol: 12, Table: 47}, ""},
		{"bgp", "pods", routing.Adoption{Protocol: 186, Table: 47}, ""},
		{"kernel", "pods", routing.Adoption{}, `adopt: "kernel" is no protocol whose routes can be taken over`},
		{"2", "pods", routing.Adoption{}, `adopt: "2" is no protocol whose routes can be taken over`},
		{"256", "pods", routing.Adoption{}, `adopt: "256" is no protocol whose routes can be taken over`},
		{"148", "pods", routing.Adoption{}, `adopt: protocol 148 is our own`},
		{"bird", "main", routing.Adoption{}, `adopt: the configuration has no table "main"`},
		{"bird", "254", routing.Adoption{}, `adopt: the configuration has no table "254"`},
		{"bird", "", routing.Adoption{}, `adopt: --protocol and --table are needed`},
		{"", "pods", routing.Adoption{}, `adopt: --protocol and --table are needed`},
	} {
		got, err := adoption(c, tt.protocol, tt.table)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != tt.err || err == nil && got != tt.want {
			t.Errorf("adoption of %q in %q: %v, %q; want %v, %q", tt.protocol, tt.table, got, text, tt.want, tt.err)
		}
	}
}
