package strictyaml

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// parse makes d.Root of d.text.
func (d *Document) parse(limits Limits) {
	tokens, ok := d.scan(limits)
	if !ok {
		return
	}
	body, ok := d.parseTokens(tokens)
	if !ok || body == nil {
		return
	}
	root := d.convert(body, "")
	if root != nil && root.kind == kindNull && root.text == "" {
		return
	}
	d.Root = root
}

// scan splits the text into tokens, and stops before a file of unusual shape
// could make the parser expensive. It reports false when nothing can be parsed.
func (d *Document) scan(limits Limits) (token.Tokens, bool) {
	var (
		s        scanner.Scanner
		tokens   token.Tokens
		shape    shape
		previous *token.Token // not counting comments
		plain    = true
	)
	s.Init(d.text)
	for {
		some, err := s.Scan()
		if errors.Is(err, io.EOF) {
			return tokens, plain
		}
		for _, t := range some {
			if t.Type == token.InvalidType {
				d.at(t, "%s", helpful(t.Error))
				return nil, false
			}
			if t.Type == token.DirectiveType {
				d.at(t, "directives are not supported; leave the line out")
				return nil, false
			}
			if t.Type == token.DocumentHeaderType && previous != nil {
				d.at(t, "a second YAML document is not allowed")
				return tokens, plain
			}
			if what := exotic[t.Type]; what != "" {
				d.at(t, "%s are not supported; write the value out", what)
				plain = false
			}
			if message := shape.add(previous, t); message != "" {
				d.at(t, "%s", message)
				return nil, false
			}
			if t.Type != token.CommentType {
				previous = t
			}
			tokens.Add(t)
			if len(tokens) > limits.Tokens {
				d.at(t, "file is too large: more than %d words and signs", limits.Tokens)
				return nil, false
			}
		}
		if err != nil {
			d.at(nil, "not readable as YAML: %v", err)
			return nil, false
		}
	}
}

// exotic names the parts of YAML that we do not take.
var exotic = map[token.Type]string{
	token.AnchorType:     "anchors",
	token.AliasType:      "aliases",
	token.TagType:        "tags",
	token.MergeKeyType:   "merge keys",
	token.MappingKeyType: "complex keys",
}

// parseTokens runs the parser. Its panics, should it have any left, are an
// error of the file: a configuration must not be able to end the daemon.
func (d *Document) parseTokens(tokens token.Tokens) (body ast.Node, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			d.at(nil, "not readable as YAML: %v", r)
			body, ok = nil, false
		}
	}()
	if len(tokens) == 0 {
		return nil, true
	}
	tokens[len(tokens)-1].Next = nil
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var syntax interface {
			GetMessage() string
			GetToken() *token.Token
		}
		if errors.As(err, &syntax) {
			d.at(syntax.GetToken(), "%s", helpful(syntax.GetMessage()))
		} else {
			d.at(nil, "not readable as YAML: %v", err)
		}
		return nil, false
	}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			if body != nil {
				d.at(doc.Body.GetToken(), "a second YAML document is not allowed")
				break
			}
			body = doc.Body
		}
	}
	return body, true
}

// helpful adds to a message of the parser's what has most likely happened.
func helpful(message string) string {
	switch {
	case strings.HasPrefix(message, "found character '\t'"):
		return "a tab cannot indent; use spaces"
	case strings.HasSuffix(message, "value is not allowed in this context"):
		return message + "; is it indented like what it belongs with, and on a line of its own?"
	case message == "non-map value is specified":
		return message + "; a key needs a colon and a space behind it"
	}
	return message
}

// at reports an error at a token's place.
func (d *Document) at(t *token.Token, format string, args ...any) {
	line, column := 1, 1
	if t != nil && t.Position != nil {
		line, column = t.Position.Line, t.Position.Column
	}
	d.add(line, column, Problem{Message: fmt.Sprintf(format, args...)})
}
