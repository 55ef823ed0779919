package kinto

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math"
	"strconv"
)

// digestOf returns the SHA-256 of a record, or nil if it is not valid. Records have the same digest if
// they differ only in the order of their members, in the notation of numbers and strings, or in members
// that servers set.
func digestOf(record []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(record))
	d.UseNumber()
	var members map[string]any
	if d.Decode(&members) != nil {
		return nil
	}
	for _, name := range []string{"id", "last_modified", "schema"} {
		delete(members, name)
	}
	text, err := json.Marshal(canonical(members))
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(text)
	return sum[:]
}

// canonical replaces the numbers in a value with int64 and float64.
func canonical(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = canonical(v[name])
		}
	case []any:
		for i := range v {
			v[i] = canonical(v[i])
		}
	case json.Number:
		return number(v.String())
	}
	return v
}

// exact is the number up to which a float64 represents every integer exactly.
const exact = 1 << 53

// number returns an int64 if that has the same value, because servers write 1e3 as 1000.0.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil: // out of range, and so never stored
		return text
	case f == math.Trunc(f) && math.Abs(f) < exact:
		return int64(f)
	}
	return f
}
