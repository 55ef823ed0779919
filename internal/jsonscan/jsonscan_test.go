package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// texts holds JSON, and text that is almost JSON.
var texts = []string{
	`{}`, `[]`, `null`, `true`, `false`, `""`, `0`, `-0`, `12.50e+3`, `1E-9`, ` [1 , 2 ]`, "{\"a\" : [ {\"b\":\"\\u00e9\\n\"} ] }\r\n",
	`{"_id":"a","n":1.10,"big":123456789012345678901234567890}`, `"` + strings.Repeat("x", 300) + `\""`, `[[[[[[]]]]]]`,
	"\"\xff\"", `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83d\u0041"`, `"\/\b\f\r\t"`,
	``, ` `, `{`, `[`, `"`, `"\`, `"\u12`, `"\u12g4"`, `"\x"`, "\"\n\"", `nul`, `nulll`, `01`, `-`, `1.`, `.1`, `1e`, `1e+`, `+1`, `--1`, `[1,]`, `[,1]`,
	`[1 2]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `{"a":1 "b":2}`, `{1:2}`, `[}`, `{]`, `]`, `}`, `1 2`, `{} {}`, "\x00",
}

// whole reads a single value, which must be all of r. limit is the limit of Reader.Value; a larger
// value is read with Rest.
func whole(r io.Reader, limit int) ([]byte, error) {
	s := NewReader(r)
	b, isWhole, err := s.Value(limit)
	got := bytes.Clone(b)
	if err != nil {
		return nil, err
	}
	if !isWhole {
		var rest bytes.Buffer
		if err := s.Rest(&rest); err != nil {
			return nil, err
		}
		got = append(got, rest.Bytes()...)
		if len(got) <= limit {
			return nil, fmt.Errorf("%d bytes are incomplete with a limit of %d", len(got), limit)
		}
	}
	if _, err := s.Peek(); err != io.EOF {
		return nil, errors.New("more than one value")
	}
	return got, nil
}

// checkValue checks that Valid and Reader accept the same texts as encoding/json, and return the
// same bytes.
func checkValue(t *testing.T, text []byte, limit int) {
	t.Helper()
	if got, want := Valid(text), json.Valid(text); got != want {
		t.Fatalf("%.200q: Valid is %v, want %v", text, got, want)
	}
	for name, r := range map[string]io.Reader{
		"at once": bytes.NewReader(text), "bytes": iotest.OneByteReader(bytes.NewReader(text)),
		"halves": iotest.HalfReader(bytes.NewReader(text)), "with EOF": iotest.DataErrReader(bytes.NewReader(text)),
	} {
		got, err := whole(r, limit)
		if valid := json.Valid(text); valid != (err == nil) {
			t.Fatalf("%s: %.200q: valid: %v, error: %v", name, text, valid, err)
		}
		if err == nil && !bytes.Equal(got, bytes.Trim(text, " \t\r\n")) {
			t.Fatalf("%s: %.200q was read as %.200q", name, text, got)
		}
	}
}

func TestValue(t *testing.T) {
	deep := strings.Repeat("[", maxDepth)
	for _, text := range append(texts, deep+strings.Repeat("]", maxDepth), deep+"[", strings.Repeat(`{"a":`, 200)+"1"+strings.Repeat("}", 200)) {
		for _, limit := range []int{0, 1, 5, 1 << 20} {
			checkValue(t, []byte(text), limit)
		}
	}
}

func FuzzValue(f *testing.F) {
	for i, text := range texts {
		f.Add([]byte(text), uint16(i))
	}
	f.Fuzz(func(t *testing.T, text []byte, limit uint16) { checkValue(t, text, int(limit)) })
}

func checkText(t *testing.T, text []byte) {
	t.Helper()
	if !json.Valid(text) {
		return
	}
	trimmed := bytes.Trim(text, " \t\r\n")
	var want string
	switch got, err := Unquote(trimmed); {
	case trimmed[0] != '"':
		if !errors.Is(err, errNotString) {
			t.Errorf("%q: %v", text, err)
		}
	case err != nil:
		t.Errorf("%q: %v", text, err)
	case !utf8.Valid(text): // Unquote keeps invalid UTF-8, but encoding/json replaces it
	case json.Unmarshal(trimmed, &want) == nil && got != want:
		t.Errorf("%q was read as %q, want %q", text, got, want)
	}
	var members, expected []string
	for name, value := range Members(text) {
		members = append(members, string(name), string(value))
	}
	if trimmed[0] == '{' {
		d := json.NewDecoder(bytes.NewReader(text))
		_, _ = d.Token()
		for d.More() {
			var name, value json.RawMessage
			start := d.InputOffset()
			key, _ := d.Token()
			name = bytes.TrimLeft(text[start:d.InputOffset()], ", \t\r\n")
			if err := d.Decode(&value); err != nil {
				t.Fatalf("%v: %v", key, err)
			}
			expected = append(expected, string(name), string(value))
		}
	}
	if diff := cmp.Diff(expected, members); diff != "" {
		t.Errorf("%q: %s", text, diff)
	}
}

func TestText(t *testing.T) {
	for _, text := range texts {
		checkText(t, []byte(text))
	}
	if got, err := Unquote([]byte("\"a\xff\\\"\"")); got != "a\xff\"" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzText(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkText(t, text) })
}

// walk reads a JSON text from r, entering objects and arrays, and writes it without white space.
func walk(r *Reader, out *bytes.Buffer) error {
	c, err := r.Peek()
	if err != nil {
		return err
	}
	if c != '{' && c != '[' {
		b, _, err := r.Value(1 << 20)
		out.Write(b)
		return err
	}
	if err := r.enter(c); err != nil {
		return err
	}
	out.WriteByte(c)
	for n := 0; ; n++ {
		var key []byte
		more := false
		if c == '[' {
			more, err = r.more()
		} else {
			key, err = r.Key()
			more = key != nil
		}
		if err != nil {
			return err
		}
		if !more {
			out.WriteByte(c + 2)
			return nil
		}
		if n > 0 {
			out.WriteByte(',')
		}
		if key != nil {
			out.Write(key)
			out.WriteByte(':')
		}
		if err := walk(r, out); err != nil {
			return err
		}
	}
}

func checkWalk(t *testing.T, text []byte) {
	t.Helper()
	if len(text) > 64<<10 {
		return
	}
	var want bytes.Buffer
	valid := json.Compact(&want, text) == nil
	r := NewReader(iotest.HalfReader(bytes.NewReader(text)))
	var got bytes.Buffer
	err := walk(r, &got)
	if err == nil {
		if _, err = r.Peek(); err == io.EOF {
			err = nil
		} else {
			err = errors.New("more than one value")
		}
	}
	if valid != (err == nil) || valid && got.String() != want.String() {
		t.Errorf("%q was written as %q, want %q (valid: %v, error: %v)", text, got.String(), want.String(), valid, err)
	}
}

func TestWalk(t *testing.T) {
	for _, text := range texts {
		checkWalk(t, []byte(text))
	}
}

func FuzzWalk(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkWalk(t, text) })
}

// TestResync: lines that are not JSON are skipped, and reading continues after them.
func TestResync(t *testing.T) {
	tests := []struct{ in, want string }{
		{"[\n1,\n2\n]", "1 2"},
		{"[\n1,\n{\"a\",\n2\n]", "1 (bad {\"a\",) 2"},
		{"[\n{\"a\":1\n2\n]", "(bad {\"a\":1) 2"},
		{"[\n{\"a\":1,\n{\"b\":2},\n3\n]", "(bad {\"a\":1,) {\"b\":2} 3"},
		{"[\n\"a,\n3\n]", "(bad \"a,) 3"},
		{"[\n1,\nx\n]", "1 (bad x)"},
		{"[\n1,\nx,\n]", "1 (bad x,)"},
		{"[\nx\n,2\n]", "(bad x) 2"},
		{"[\nx\r\n,\n2]", "(bad x\r) 2"},
		{"[\nx\n]", "(bad x)"},
		{"[x", "(bad x) unexpected EOF"},
		{"[\n1", "1 unexpected EOF"}, // the number is complete, the array is not
	}
	for _, test := range tests {
		for name, in := range map[string]io.Reader{"at once": strings.NewReader(test.in), "bytes": iotest.OneByteReader(strings.NewReader(test.in))} {
			var got []string
			r := NewReader(in)
			err := r.enter('[')
			for err == nil {
				var more bool
				if more, err = r.more(); err != nil || !more {
					break
				}
				r.Mark()
				var b []byte
				b, _, err = r.Value(100)
				if err == nil {
					got = append(got, string(b))
				}
				var syntax *SyntaxError
				if errors.As(err, &syntax) {
					b, err = r.Resync(100)
					got = append(got, "(bad "+string(b)+")")
				}
			}
			if err != nil {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("%s: %q: %s", name, test.in, diff)
			}
		}
	}
}

// TestDroppedMark: if the beginning of an invalid element is no longer in memory, the element is
// skipped from the place where it is invalid.
func TestDroppedMark(t *testing.T) {
	many := strings.Repeat(`"name":"`+strings.Repeat("x", 1000)+`",`, 12000)
	r := NewReader(strings.NewReader("[\n{" + many + "x:1}\n,2]"))
	if err := r.enter('['); err != nil {
		t.Fatal(err)
	}
	_, err := r.more()
	r.Mark()
	if err == nil {
		err = r.enter('{')
	}
	for err == nil {
		if _, err = r.Key(); err == nil {
			err = r.Skip()
		}
	}
	var syntax *SyntaxError
	if !errors.As(err, &syntax) {
		t.Fatal(err)
	}
	passed, err := r.Resync(100)
	if err != nil || string(passed) != "x:1}" {
		t.Errorf("skipped %q, %v", passed, err)
	}
	more, err := r.more()
	if !more || err != nil {
		t.Fatal(more, err)
	}
	if b, _, err := r.Value(10); string(b) != "2" || err != nil {
		t.Errorf("value %q, %v", b, err)
	}
}

// TestLines: if Lines is set, a truncated value ends at the end of its line.
func TestLines(t *testing.T) {
	in := "\n{\"a\":1}\r\n\n{\"b\":[\n{\"c\":{\"d\":[1\n\n{\"e\"\n{\"f\":\n{\"g\":{}}\n{\"h\":2"
	for name, in := range map[string]io.Reader{"at once": strings.NewReader(in), "bytes": iotest.OneByteReader(strings.NewReader(in))} {
		r := NewReader(in)
		r.Lines = true
		var got []string
		for {
			if _, err := r.Peek(); err == io.EOF {
				break
			}
			r.Mark()
			err := r.enter('{')
			for err == nil {
				var key []byte
				if key, err = r.Key(); err != nil || key == nil {
					break
				}
				got = append(got, string(key))
				err = r.Skip()
			}
			var syntax *SyntaxError
			if errors.As(err, &syntax) {
				var passed []byte
				passed, err = r.Resync(5)
				got = append(got, "("+string(passed)+")")
			}
			if err != nil {
				got = append(got, err.Error())
			}
		}
		want := "\"a\" \"b\" ({\"b\":) \"c\" ({\"c\":) ({\"e\") \"f\" ({\"f\":) \"g\" \"h\" unexpected EOF"
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// endless is a reader of an array with an endless string. It counts the bytes that were read.
type endless struct{ n int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	if e.n == 0 {
		p[0] = '"'
	}
	e.n += int64(len(p))
	return len(p), nil
}

// TestBuffer: large values are read through a small buffer.
func TestBuffer(t *testing.T) {
	const size = 64 << 20
	r := NewReader(io.MultiReader(io.LimitReader(new(endless), size), strings.NewReader(`" 1`)))
	if _, whole, err := r.Value(1 << 10); whole || err != nil {
		t.Fatal(whole, err)
	}
	var n counter
	if err := r.Rest(&n); err != nil || len(r.buf) > 4*firstBuffer {
		t.Errorf("buffer of %d bytes, %v", len(r.buf), err)
	}
	if b, _, err := r.Value(1); string(b) != "1" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	r.Reset(io.MultiReader(io.LimitReader(new(endless), size), strings.NewReader(`" 1`)))
	if err := r.Skip(); err != nil || len(r.buf) > 4*firstBuffer {
		t.Errorf("buffer of %d bytes, %v", len(r.buf), err)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

func BenchmarkValue(b *testing.B) {
	doc := []byte(`{"_id":"doc-000001","_rev":"1-43a36d04d31d38efc5b9245c53e00627","name":"some one","tags":["a","b","c"],"n":123.25,"text":"` +
		strings.Repeat("lorem ipsum ", 30) + `"}`)
	b.SetBytes(int64(len(doc)))
	var v value
	for b.Loop() {
		v.reset()
		if _, err := v.scan(doc); err != nil || v.state != ended {
			b.Fatal(err)
		}
	}
}

// TestResyncAfterRest: if an element is truncated after a value that was read with Rest, the
// element on the next line is not skipped with it.
func TestResyncAfterRest(t *testing.T) {
	for _, first := range []string{`{"a":"xxxx"`, `{"a":"xxxx",`, `{"a":["xxxx"`, `{"a":"xxxx","b":`} {
		for _, chunks := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
			r := NewReader(chunks(strings.NewReader("[" + first + "\n{\"c\":1}\n]")))
			if err := r.enter('['); err != nil {
				t.Fatal(err)
			}
			if more, err := r.more(); !more || err != nil {
				t.Fatal(more, err)
			}
			r.Mark()
			var syntax *SyntaxError
			if err := readMembers(r, func(r *Reader) error {
				if _, _, err := r.Value(2); err != nil {
					return err
				}
				return r.Rest(io.Discard)
			}); !errors.As(err, &syntax) {
				t.Fatalf("%q: %v, want a syntax error", first, err)
			}
			if _, err := r.Resync(100); err != nil {
				t.Fatal(err)
			}
			if more, err := r.more(); !more || err != nil {
				t.Fatalf("%q: %v, %v", first, more, err)
			}
			got, _, err := r.Value(100)
			if string(got) != `{"c":1}` || err != nil {
				t.Errorf("%q: next is %q, %v", first, got, err)
			}
		}
	}
}

// TestResyncAfterDroppedMark: if an element of many small values is truncated, and is so long,
// together with the next element, that its mark is dropped, the next element is nevertheless read.
func TestResyncAfterDroppedMark(t *testing.T) {
	name := `"name":"` + strings.Repeat("x", 1000) + `",`
	first := "{" + strings.Repeat(name, maxMarked/len(name)-100) + `"y":`
	second := "{" + strings.Repeat(name, 200) + `"z":1}`
	r := NewReader(iotest.OneByteReader(strings.NewReader("[" + first + "\n" + second + ",\n3]")))
	if err := r.enter('['); err != nil {
		t.Fatal(err)
	}
	if more, err := r.more(); !more || err != nil {
		t.Fatal(more, err)
	}
	r.Mark()
	var syntax *SyntaxError
	if err := readMembers(r, (*Reader).Skip); !errors.As(err, &syntax) {
		t.Fatalf("%v, want a syntax error", err)
	}
	if _, err := r.Resync(100); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{second, "3"} {
		if more, err := r.more(); !more || err != nil {
			t.Fatal(more, err)
		}
		if got, _, err := r.Value(1 << 20); string(got) != want || err != nil {
			t.Errorf("next is %.100q, %v", got, err)
		}
	}
}

func readMembers(r *Reader, value func(*Reader) error) error {
	err := r.enter('{')
	for err == nil {
		var name []byte
		if name, err = r.Key(); err != nil || name == nil {
			return err
		}
		err = value(r)
	}
	return err
}
