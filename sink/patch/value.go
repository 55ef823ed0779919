package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/internal/jsonscan"
)

// A value is a JSON value that is parsed as far as operations reach into it. The rest
// remains text.
type value struct {
	text    []byte         // without white space; nil once the value is parsed
	items   []*value       // of an array
	members []*objectValue // of an object, in order; nil where one was removed
	index   map[string]int // of members by name; nil for an array
}

type objectValue struct {
	name  json.RawMessage // with its quotes and escapes
	value *value
}

// kind returns '{' for an object, '[' for an array, and the first byte of any other value.
func (v *value) kind() byte {
	switch {
	case v.text != nil:
		return v.text[0]
	case v.index != nil:
		return '{'
	}
	return '['
}

// open parses an object or array. It does nothing to other values.
func (v *value) open() error {
	if v.text == nil {
		return nil
	}
	switch v.text[0] {
	case '{':
		given, err := members(v.text)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoFit, err)
		}
		v.index = make(map[string]int, len(given))
		for i, m := range given {
			v.index[m.decoded] = i
			v.members = append(v.members, &objectValue{m.name, &value{text: m.value}})
		}
		v.text = nil
	case '[':
		var items []json.RawMessage
		if err := json.Unmarshal(v.text, &items); err != nil {
			return fmt.Errorf("%w: %w", ErrNoFit, err)
		}
		for _, item := range items {
			v.items = append(v.items, &value{text: item})
		}
		v.text = nil
	}
	return nil
}

// child returns the member or element with the name.
func (v *value) child(name string) (*value, error) {
	if err := v.open(); err != nil {
		return nil, err
	}
	switch v.kind() {
	case '{':
		i, ok := v.index[name]
		if !ok {
			return nil, fmt.Errorf("%w: no member %q", ErrNoFit, name)
		}
		return v.members[i].value, nil
	case '[':
		i, err := index(name, len(v.items))
		if err != nil {
			return nil, err
		}
		return v.items[i], nil
	}
	return nil, noParent(name)
}

// set sets a member of a parsed object. It replaces a member with the same name in its
// position.
func (v *value) set(name string, to *value) {
	if i, ok := v.index[name]; ok {
		v.members[i].value = to
		return
	}
	v.index[name] = len(v.members)
	v.members = append(v.members, &objectValue{quote(name), to})
}

// quote returns a string as JSON, with no more escapes than JSON needs.
func quote(s string) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // cannot fail for a string and a Buffer
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// unset removes a member, which must exist, of a parsed object.
func (v *value) unset(name string) {
	v.members[v.index[name]] = nil
	delete(v.index, name)
}

// append appends the JSON text of a value.
func (v *value) append(dst []byte) []byte {
	if v.text != nil {
		return append(dst, v.text...)
	}
	kind := v.kind()
	dst = append(dst, kind)
	start := len(dst)
	separate := func() {
		if len(dst) > start {
			dst = append(dst, ',')
		}
	}
	for _, m := range v.members {
		if m != nil {
			separate()
			dst = append(append(dst, m.name...), ':')
			dst = m.value.append(dst)
		}
	}
	for _, item := range v.items {
		separate()
		dst = item.append(dst)
	}
	return append(dst, kind+2) // '}' is '{'+2, and ']' is '['+2
}

// Equal reports whether two texts are the same JSON value: numbers are compared by their value, strings by
// their characters, and objects in any order. It returns false if one of them is not valid JSON.
func Equal(a, b []byte) bool {
	a, valid := jsonscan.AppendCompact(nil, a)
	b, both := jsonscan.AppendCompact(nil, b)
	if !valid || !both {
		return false
	}
	same, err := equal(&value{text: a}, &value{text: b})
	return same && err == nil
}

// equal compares values as the operation "test" does (RFC 6902, section 4.6): numbers
// by their value, strings by their characters, objects in any order.
func equal(a, b *value) (bool, error) {
	if err := a.open(); err != nil {
		return false, err
	}
	if err := b.open(); err != nil {
		return false, err
	}
	switch a.kind() {
	case '{':
		return equalObjects(a, b)
	case '[':
		return equalArrays(a, b)
	case '"':
		return b.kind() == '"' && equalStrings(a.text, b.text), nil
	case 't', 'f', 'n':
		return bytes.Equal(a.text, b.text), nil
	}
	return isNumber(b) && equalNumbers(a.text, b.text), nil
}

func isNumber(v *value) bool { return v.kind() == '-' || '0' <= v.kind() && v.kind() <= '9' }

func equalObjects(a, b *value) (bool, error) {
	if b.kind() != '{' || len(a.index) != len(b.index) {
		return false, nil
	}
	for name, i := range a.index {
		k, ok := b.index[name]
		if !ok {
			return false, nil
		}
		if same, err := equal(a.members[i].value, b.members[k].value); !same {
			return false, err
		}
	}
	return true, nil
}

func equalArrays(a, b *value) (bool, error) {
	if b.kind() != '[' || len(a.items) != len(b.items) {
		return false, nil
	}
	for i := range a.items {
		if same, err := equal(a.items[i], b.items[i]); !same {
			return false, err
		}
	}
	return true, nil
}

func equalStrings(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var s, t string
	return json.Unmarshal(a, &s) == nil && json.Unmarshal(b, &t) == nil && s == t
}

// equalNumbers compares numbers without rounding them or expanding exponents.
func equalNumbers(a, b []byte) bool {
	return bytes.Equal(a, b) || decimal(string(a)) == decimal(string(b))
}

// A number is ±0.digits times ten to the power of exponent, without leading or trailing
// zeros in digits. For zero, digits and exponent are empty.
type number struct {
	negative bool
	digits   string
	exponent string
}

func decimal(text string) number {
	n := number{}
	text, n.negative = strings.CutPrefix(text, "-")
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := strings.TrimLeft(whole+fraction, "0")
	n.digits = strings.TrimRight(all, "0")
	if n.digits == "" {
		return number{}
	}
	exponent, err := strconv.ParseInt(power, 10, 64)
	if power != "" && err != nil {
		n.exponent = mantissa + "e" + power // out of range: equal only if spelled the same
		return n
	}
	n.exponent = strconv.FormatInt(exponent+int64(len(all)-len(fraction)), 10)
	return n
}
