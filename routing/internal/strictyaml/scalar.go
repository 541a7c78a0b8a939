package strictyaml

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// wrong reports that the value is not of the wanted kind.
func (n *Node) wrong(want string) {
	hint := ""
	switch collection := want == "a list" || want == "a mapping"; {
	case n.kind == kindNull && collection:
		n.Errorf("%s has no value, want %s; indent what belongs to it, or leave the key out for its default", n.label(), want)
		return
	case n.kind == kindNull:
		n.Errorf("%s has no value, want %s; leave the key out for its default", n.label(), want)
		return
	case want == "a list" && n.kind == kindText:
		hint = "; write [" + n.quoted() + "]"
	case want == "a list" && n.kind == kindMap:
		hint = "; begin each item with a dash"
	case n.kind == kindMap && want != "a mapping":
		hint = "; a value with colons needs quotes inside braces"
	}
	n.Errorf("%s must be %s, not %s%s", n.label(), want, n.kind, hint)
}

// Example returns a scalar as it may be written inside brackets or braces; "" for
// what is none.
func (n *Node) Example() string {
	switch n.kind {
	case kindText:
		return n.quoted()
	case kindInt:
		return n.text
	}
	return ""
}

func (n *Node) quoted() string {
	if n.text == "" || strings.ContainsAny(n.text, "\"'\n:,[]{}#&*!|>%@` ") {
		return strconv.Quote(n.text)
	}
	return n.text
}

func (n *Node) label() string {
	if n.Key == "" {
		return "the document"
	}
	return n.Key
}

// IsText reports whether the value is a string.
func (n *Node) IsText() bool { return n != nil && n.kind == kindText }

// IsInt reports whether the value is a whole number.
func (n *Node) IsInt() bool { return n != nil && n.kind == kindInt }

// IsList reports whether the value is a list.
func (n *Node) IsList() bool { return n != nil && n.kind == kindList }

// IsMap reports whether the value is a mapping.
func (n *Node) IsMap() bool { return n != nil && n.kind == kindMap }

// Text returns a string.
func (n *Node) Text(absent string) string {
	switch {
	case n == nil:
		return absent
	case n.kind == kindText:
		return n.text
	case n.kind == kindInt || n.kind == kindFloat || n.kind == kindBool:
		n.Errorf("%s must be text, not %s; put it in quotes", n.label(), n.kind)
	default:
		n.wrong("text")
	}
	return absent
}

// Bool returns true or false.
func (n *Node) Bool(absent bool) bool {
	if n == nil {
		return absent
	}
	if n.kind != kindBool {
		n.wrong("true or false")
		return absent
	}
	return n.text == "true"
}

// Uint returns a whole number from least to most.
func (n *Node) Uint(least, most, absent uint64) uint64 {
	if n == nil {
		return absent
	}
	if n.kind != kindInt {
		n.wrong("a whole number")
		return absent
	}
	digits := strings.TrimPrefix(n.text, "-")
	// A leading zero is octal to some readers and decimal to others.
	if strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0' {
		n.Errorf("%s must be a plain decimal number, not %s", n.label(), n.text)
		return absent
	}
	v, err := strconv.ParseUint(n.text, 10, 64)
	if err != nil || v < least || v > most {
		n.Errorf("%s must be %d to %d, not %s", n.label(), least, most, n.text)
		return absent
	}
	return v
}

// Duration returns a length of time from least to most.
func (n *Node) Duration(least, most, absent time.Duration) time.Duration {
	if n == nil {
		return absent
	}
	if n.kind != kindText {
		n.wrong("a time with its unit, such as 10s")
		return absent
	}
	v, err := time.ParseDuration(n.text)
	if err != nil {
		n.Errorf("%s must be a time with its unit, such as 10s, not %q", n.label(), n.text)
		return absent
	}
	if v < least || v > most {
		n.Errorf("%s must be %s to %s, not %s", n.label(), short(least), short(most), n.text)
		return absent
	}
	return v
}

// short gives a duration without its zero parts: 5m, not 5m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Enum returns one of the words. An unquoted off, which some tools write as
// false, is the word off.
func (n *Node) Enum(absent string, words ...string) string {
	if n == nil {
		return absent
	}
	text := n.text
	if n.kind == kindBool && text == "" && slices.Contains(words, "off") {
		return "off"
	}
	want := "one of " + strings.Join(words, ", ")
	if len(words) == 1 {
		want = words[0]
	}
	if n.kind != kindText {
		n.wrong(want)
		return absent
	}
	if !slices.Contains(words, text) {
		n.Errorf("%s must be %s, not %q%s", n.label(), want, text, DidYouMean(text, words))
		return absent
	}
	return text
}
