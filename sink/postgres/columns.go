package postgres

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/feedctl/feedctl/internal/jsonptr"
	"github.com/feedctl/feedctl/sink"
)

// A projection describes a column whose value is taken from the entity.
type projection struct {
	name     string
	field    string          // "@key", "@content_id" or "@last_modified"; "" for a pointer
	pointer  jsonptr.Pointer // into the body
	declared string          // type, as given
	notNull  bool

	// From the server's catalog.
	typ  string // its name, without length or precision
	kind kind
}

// A kind says how a JSON value is converted to a type.
type kind int

const (
	scalar   kind = iota // from its text
	record               // an array or a composite type, by json_to_record
	jsonText             // unchanged
)

var (
	columnName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)
	// typeName matches names of types, and nothing that could inject SQL.
	typeName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_. ]*(\([0-9]+(, ?-?[0-9]+)?\))?( with(out)? time zone)?(\[\])*$`)
	notNull  = regexp.MustCompile(`(?i)\s+not\s+null$`)
)

func parseColumns(text string) ([]projection, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var all []projection
	names, keys := map[string]bool{}, 0
	for _, part := range splitColumns(text) {
		p, err := parseColumn(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if names[p.name] {
			return nil, fmt.Errorf("%w: column %q is named twice", sink.ErrSpec, p.name)
		}
		names[p.name] = true
		if p.field == fieldKey {
			keys++
		}
		all = append(all, p)
	}
	if keys > 1 {
		return nil, fmt.Errorf("%w: more than one column is @key", sink.ErrSpec)
	}
	if keys == 0 {
		if names[keyColumn] {
			return nil, fmt.Errorf("%w: column %q is reserved for the key of the entity: use @key for it, or another name", sink.ErrSpec, keyColumn)
		}
		key := projection{name: keyColumn, field: fieldKey, declared: "text", notNull: true}
		all = append([]projection{key}, all...)
	}
	return all, nil
}

// splitColumns splits at the commas that are not within parentheses.
func splitColumns(text string) (parts []string) {
	depth, start := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, text[start:i])
				start = i + 1
			}
		}
	}
	return append(parts, text[start:])
}

func parseColumn(text string) (p projection, err error) {
	bad := func(why string) error {
		return fmt.Errorf("%w: column %q: %s; want NAME=POINTER:TYPE, as in price=/price:numeric", sink.ErrSpec, text, why)
	}
	name, rest, ok := strings.Cut(text, "=")
	// A pointer may contain colons, but a type may not.
	colon := strings.LastIndexByte(rest, ':')
	if !ok || colon < 0 {
		return p, bad("incomplete")
	}
	p.name = strings.TrimSpace(name)
	if !columnName.MatchString(p.name) {
		return p, bad("the name must consist of letters, digits and _")
	}
	switch from := rest[:colon]; {
	case from == fieldKey, from == fieldContentID, from == fieldLastModified:
		p.field = from
	case strings.HasPrefix(from, "@"):
		return p, bad("want @key, @content_id or @last_modified")
	default:
		if p.pointer, err = jsonptr.Compile(from); err != nil {
			return p, bad(err.Error())
		}
	}
	declared := strings.TrimSpace(rest[colon+1:])
	p.declared = notNull.ReplaceAllString(declared, "")
	p.notNull = p.declared != declared || p.field == fieldKey
	if !typeName.MatchString(p.declared) {
		return p, bad("the type is not a valid type name")
	}
	return p, nil
}
