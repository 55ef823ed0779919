package couchtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A member is a name and its value in a JSON object. The bytes of the value are preserved, so numbers
// keep their digits, and objects keep the order of their members.
type member struct {
	name  string
	value []byte
}

// parseObject returns the members of an object in their order. If two members have the same name, the
// last one counts, as in CouchDB.
func parseObject(text []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, fmt.Errorf("%.40q is not a JSON object", text)
	}
	var members []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		members = slices.DeleteFunc(members, func(m member) bool { return m.name == name })
		members = append(members, member{name.(string), value})
	}
	return members, nil
}

// object returns an object as JSON. Members without a value are left out.
func object(members ...member) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, m := range members {
		if m.value == nil {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(quote(m.name))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// array returns an array as JSON.
func array(values ...[]byte) []byte {
	return slices.Concat([]byte("["), bytes.Join(values, []byte(",")), []byte("]"))
}

// quote returns a string as JSON. Bytes that are not UTF-8 are left unchanged, since some servers
// have sent ids with such bytes.
func quote(s string) []byte {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	b.WriteByte('"')
	return []byte(b.String())
}

func quoteAll(list []string) []byte {
	quoted := make([][]byte, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return array(quoted...)
}

func number(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }

// yes returns the value true if b is true, and otherwise no value.
func yes(b bool) []byte {
	if b {
		return []byte("true")
	}
	return nil
}
