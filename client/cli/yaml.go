package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// toYAML writes a JSON document as YAML, with its keys in the same order.
func toYAML(document []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	w := yamlWriter{in: d}
	if err := w.value(0, ""); err != nil {
		return nil, fmt.Errorf("print as YAML: %w", err)
	}
	return w.out.Bytes(), nil
}

// yamlWriter turns JSON tokens into block style as they come.
type yamlWriter struct {
	in  *json.Decoder
	out bytes.Buffer
}

// value writes the next value. before is what stands on its line already without
// having been written: the indent of a list's item, or a key.
func (w *yamlWriter) value(indent int, before string) error {
	token, err := w.in.Token()
	if err != nil {
		return err
	}
	delim, compound := token.(json.Delim)
	switch {
	case !compound:
		w.out.WriteString(spaced(before) + scalar(token) + "\n")
		return nil
	case !w.in.More():
		w.out.WriteString(spaced(before) + map[json.Delim]string{'{': "{}", '[': "[]"}[delim] + "\n")
	case delim == '{':
		err = w.object(indent, before)
	default:
		err = w.list(indent, before)
	}
	if err != nil {
		return err
	}
	_, err = w.in.Token() // the closing delimiter
	return err
}

// object writes the members of an object. Behind the dash of a list's item the
// first member stays on the line.
func (w *yamlWriter) object(indent int, before string) error {
	first := ""
	if strings.HasSuffix(before, "-") {
		first = before + " "
	} else if before != "" {
		w.out.WriteString(before + "\n")
	}
	for w.in.More() {
		key, err := w.in.Token()
		if err != nil {
			return err
		}
		lead := strings.Repeat(" ", indent)
		if first != "" {
			lead, first = first, ""
		}
		if err := w.value(indent+2, lead+scalar(key)+":"); err != nil {
			return err
		}
	}
	return nil
}

func (w *yamlWriter) list(indent int, before string) error {
	if before != "" {
		w.out.WriteString(before + "\n")
	}
	for w.in.More() {
		if err := w.value(indent+2, strings.Repeat(" ", indent)+"-"); err != nil {
			return err
		}
	}
	return nil
}

func spaced(before string) string {
	if before == "" {
		return ""
	}
	return before + " "
}

// plainScalar is a text that no YAML reader takes for anything but a text: it
// does not begin like a number and has no character with a meaning.
var plainScalar = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*$`)

// reserved are words that YAML 1.1 or 1.2 takes for something else.
var reserved = map[string]bool{"true": true, "false": true, "yes": true, "no": true, "on": true, "off": true, "y": true, "n": true, "null": true}

func scalar(token json.Token) string {
	switch v := token.(type) {
	case nil:
		return "null"
	case string:
		if plainScalar.MatchString(v) && !reserved[strings.ToLower(v)] {
			return v
		}
		quoted, err := json.Marshal(v) // JSON's strings are YAML's double-quoted ones
		if err != nil {
			return `""`
		}
		return string(escape(quoted))
	default:
		return fmt.Sprint(v)
	}
}
