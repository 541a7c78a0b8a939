package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// format is how answers are printed. It is a flag's value.
type format string

const (
	formatTable format = "table"
	formatWide  format = "wide"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
)

var formats = []string{string(formatTable), string(formatWide), string(formatJSON), string(formatYAML)}

// String implements flag.Value; the zero value is a table.
func (f *format) String() string {
	if *f == "" {
		return string(formatTable)
	}
	return string(*f)
}

// Set implements flag.Value.
func (f *format) Set(s string) error {
	if !slices.Contains(formats, s) {
		return fmt.Errorf("must be one of %s", strings.Join(formats, ", "))
	}
	*f = format(s)
	return nil
}

// Type implements pflag.Value.
func (f *format) Type() string { return "FORMAT" }

// everything writes zeros, what is false and what is empty as well, and null for a
// message that is absent: a program that asks for a count is then told 0.
var everything = protojson.MarshalOptions{EmitUnpopulated: true}

// document prints an answer for programs where that is wanted, and reports
// whether it did: one JSON document as grpcurl -emit-defaults prints it, or the same
// as YAML.
func (a *app) document(m proto.Message) (done bool, err error) {
	if a.format != formatJSON && a.format != formatYAML {
		return false, nil
	}
	text, err := marshal(m)
	if err != nil {
		return true, err
	}
	if a.format == formatYAML {
		if text, err = toYAML(text); err != nil {
			return true, err
		}
	}
	a.say("%s", text)
	return true, nil
}

// marshal gives the protobuf JSON of a message, indented. What protojson itself
// indents varies from build to build, on purpose.
func marshal(m proto.Message) ([]byte, error) {
	compact, err := everything.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("print the answer: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", "  "); err != nil {
		return nil, fmt.Errorf("print the answer: %w", err)
	}
	b.WriteByte('\n')
	return escapeHTML(escape(b.Bytes())), nil
}

// escapeHTML writes what HTML would take for markup as grpcurl does, so that the
// two can be compared byte by byte.
func escapeHTML(document []byte) []byte {
	var b bytes.Buffer
	json.HTMLEscape(&b, document)
	return b.Bytes()
}

// escape writes the characters that a terminal may obey, and that JSON lets
// stand, as JSON's escapes: the document stays the same.
func escape(document []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(document) {
		if r != '\n' && clean(string(r)) == " " && r != ' ' {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// line gives the protobuf JSON of a message in one line.
func line(m proto.Message) ([]byte, error) {
	text, err := everything.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("print the answer: %w", err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return nil, fmt.Errorf("print the answer: %w", err)
	}
	b.WriteByte('\n')
	return escape(b.Bytes()), nil
}
