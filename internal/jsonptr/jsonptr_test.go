package jsonptr_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/feedctl/feedctl/internal/jsonptr"
)

// rfc is the example document of RFC 6901, section 5.
const rfc = `{
   "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4,
   "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8
}`

func TestString(t *testing.T) {
	tests := []struct {
		doc, pointer, want string
		err                error
	}{
		{rfc, "/foo/0", "bar", nil},
		{rfc, "/foo/1", "baz", nil},
		{rfc, "/", "0", nil},
		{rfc, "/a~1b", "1", nil},
		{rfc, "/c%d", "2", nil},
		{rfc, "/e^f", "3", nil},
		{rfc, "/g|h", "4", nil},
		{rfc, `/i\j`, "5", nil},
		{rfc, `/k"l`, "6", nil},
		{rfc, "/ ", "7", nil},
		{rfc, "/m~0n", "8", nil},
		{rfc, "/foo", "", jsonptr.ErrType},
		{rfc, "", "", jsonptr.ErrType},
		{rfc, "/foo/2", "", jsonptr.ErrNotFound},
		{rfc, "/foo/-", "", jsonptr.ErrNotFound},
		{rfc, "/foo/00", "", jsonptr.ErrNotFound},
		{rfc, "/foo/", "", jsonptr.ErrNotFound},
		{rfc, "/foo/99999999999999999999999999", "", jsonptr.ErrNotFound},
		{rfc, "/foo/0/x", "", jsonptr.ErrNotFound},
		{rfc, "/nope", "", jsonptr.ErrNotFound},
		{`{"~1":"x"}`, "/~01", "x", nil},
		{`"top"`, "", "top", nil},
		{` true `, "", "true", nil},
		{`{"n":1.50e+3}`, "/n", "1.50e+3", nil},
		{`{"n":12345678901234567890123}`, "/n", "12345678901234567890123", nil},
		{`{"n":null}`, "/n", "", jsonptr.ErrType},
		{`{"n":{}}`, "/n", "", jsonptr.ErrType},
		{`{"id":1,"id":2}`, "/id", "2", nil},
		{`{"\u0069d":"a\nb\u00e9"}`, "/id", "a\nbé", nil},
		{`{"x":{"id":9},"id":"1"}`, "/id", "1", nil},
		{`{"x":"}\"{","id":"1"}`, "/id", "1", nil},
		{`[[],[1,[2,3]],{"a":[4]}]`, "/1/1/1", "3", nil},
		{`[[],[1,[2,3]],{"a":[4]}]`, "/2/a/0", "4", nil},
		{`[ ]`, "/0", "", jsonptr.ErrNotFound},
		{`{ }`, "/a", "", jsonptr.ErrNotFound},
		{`{"id":1`, "/id", "", jsonptr.ErrJSON},
		{``, "/id", "", jsonptr.ErrJSON},
		{"{\"id\":\"\xff\"}", "/id", "", jsonptr.ErrJSON},
		{`{"id":"\ud83d"}`, "/id", "", jsonptr.ErrJSON},
		{`{"id":"\ud83dA"}`, "/id", "", jsonptr.ErrJSON},
		{`{"id":"\ude00\ud83d"}`, "/id", "", jsonptr.ErrJSON},
		{`{"id":"\ud83d\ude00"}`, "/id", "😀", nil},
		{`{"id":"\ufffd\\ud83d"}`, "/id", "\uFFFD\\ud83d", nil},
	}
	for _, tt := range tests {
		p, err := jsonptr.Compile(tt.pointer)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.String([]byte(tt.doc))
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%q in %s: got %q, %v; want %q, %v", tt.pointer, tt.doc, got, err, tt.want, tt.err)
		}
		if err != nil && tt.err != jsonptr.ErrJSON && !strings.Contains(err.Error(), strconv.Quote(p.Text())) {
			t.Errorf("%q in %s: error %q does not name the pointer", tt.pointer, tt.doc, err)
		}
	}
}

func TestRaw(t *testing.T) {
	for _, c := range []struct{ doc, pointer, want string }{
		{` {"a": [1, {"b" : "x\"]" }], "n":null} `, "", `{"a": [1, {"b" : "x\"]" }], "n":null}`},
		{`{"a": [1, {"b" : "x\"]" }]}`, "/a", `[1, {"b" : "x\"]" }]`},
		{`{"a": [1, {"b" : "x\"]" }]}`, "/a/1/b", `"x\"]"`},
		{`{"a":1.50 }`, "/a", "1.50"},
		{`{"a":null}`, "/a", "null"},
		{`{"a":null}`, "/a/b", ""},
		{`{"a":1}`, "/b", ""},
		{`[[]]`, "/0", "[]"},
		{` 17 `, "", "17"},
	} {
		p, err := jsonptr.Compile(c.pointer)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Raw([]byte(c.doc)); string(got) != c.want || (got == nil) != (c.want == "") {
			t.Errorf("%q in %s: got %q, want %q", c.pointer, c.doc, got, c.want)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	for _, pointer := range []string{"id", "#/id", "/a~", "/a~2", "/~", "/a/~x/b"} {
		if _, err := jsonptr.Compile(pointer); !errors.Is(err, jsonptr.ErrSyntax) {
			t.Errorf("Compile(%q) = %v, want ErrSyntax", pointer, err)
		}
	}
}

// FuzzString compares the result with that of decoding the whole document.
func FuzzString(f *testing.F) {
	f.Add(rfc, "/foo/1")
	f.Add(`{"a":[{"b":"\u00e9"},[1,2.0,true]]}`, "/a/1/1")
	f.Add(`{"id":"x"`, "/id")
	f.Add("[0\x00}", "/0")
	f.Add(`["\ud83d\ude00","\ud83d","\ude00\ud83d","\\ud800"]`, "/1")
	f.Fuzz(func(t *testing.T, doc, pointer string) {
		p, err := jsonptr.Compile(pointer)
		if err != nil {
			return
		}
		_, _ = p.Lookup([]byte(doc)) // must not panic for any document
		got, err := p.String([]byte(doc))
		if !utf8.ValidString(doc) {
			return // the decoder replaces invalid UTF-8
		}
		want, ok := decode(doc, pointer)
		if surrogate.MatchString(doc) && strings.ContainsRune(want+pointer, utf8.RuneError) {
			return // the decoder replaces unpaired surrogates
		}
		if ok != (err == nil) || got != want {
			t.Errorf("%q in %q: got %q, %v; want %q, %v", pointer, doc, got, err, want, ok)
		}
	})
}

var surrogate = regexp.MustCompile(`(?i)\\ud[89a-f]`)

// decode is the oracle: it decodes the whole document and walks it.
func decode(doc, pointer string) (string, bool) {
	var value any
	d := json.NewDecoder(bytes.NewReader([]byte(doc)))
	d.UseNumber()
	if !json.Valid([]byte(doc)) || d.Decode(&value) != nil {
		return "", false
	}
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch v := value.(type) {
		case map[string]any:
			child, ok := v[token]
			if !ok {
				return "", false
			}
			value = child
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != token {
				return "", false
			}
			value = v[i]
		default:
			return "", false
		}
	}
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

func BenchmarkString(b *testing.B) {
	doc := []byte(`{"pad":"` + strings.Repeat("x", 900) + `","nested":{"a":[1,2,3]},"id":"key-17"}`)
	p, err := jsonptr.Compile("/id")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Lookup(doc); err != nil {
			b.Fatal(err)
		}
	}
}
