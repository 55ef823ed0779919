package page_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/feedctl/feedctl/page"
)

func TestAppendPart(t *testing.T) {
	h := page.Header{field("Z", "1"), field("content-length", "99"), field("A", ""), field("z", "a\tb")}
	got, err := page.AppendPart([]byte("before"), "B", h, []byte("body"))
	if err != nil {
		t.Fatal(err)
	}
	got = page.AppendClose(got, "B")
	const want = "before--B\r\nZ: 1\r\nA: \r\nz: a\tb\r\nContent-Length: 4\r\n\r\nbody\r\n--B--\r\n"
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAppendPartHeader(t *testing.T) {
	got, err := page.AppendPartHeader(nil, "B", nil, 1<<40)
	if err != nil || string(got) != "--B\r\nContent-Length: 1099511627776\r\n\r\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := page.AppendPartHeader(nil, "B", nil, -1); !errors.Is(err, page.ErrContentLength) {
		t.Error(err)
	}
}

func TestAppendPartErrors(t *testing.T) {
	for _, test := range []struct {
		name     string
		boundary string
		field    page.Field
		body     string
		err      error
	}{
		{"CR in a value", "B", field("A", "b\rc"), "", page.ErrInvalidFieldText},
		{"LF in a value", "B", field("A", "b\n c"), "", page.ErrInvalidFieldText},
		{"NUL in a value", "B", field("A", "\x00"), "", page.ErrInvalidFieldText},
		{"CR in a name", "B", field("A\r", "b"), "", page.ErrInvalidFieldText},
		{"LF in a name", "B", field("A\n", "b"), "", page.ErrInvalidFieldText},
		{"NUL in a name", "B", field("A\x00", "b"), "", page.ErrInvalidFieldText},
		{"colon in a name", "B", field("A:", "b"), "", page.ErrInvalidFieldText},
		{"space in a name", "B", field("A b", "b"), "", page.ErrInvalidFieldText},
		{"no name", "B", field("", "b"), "", page.ErrInvalidFieldText},
		{"field like a delimiter", "a:", field("--a", ""), "", page.ErrInvalidFieldText},
		{"bad text in a length", "B", field("Content-Length", "1\r\nA: b"), "", page.ErrInvalidFieldText},
		{"boundary in the body", "B", field("A", "b"), "x--By", page.ErrBoundaryInBody},
		{"no boundary", "", field("A", "b"), "", page.ErrBoundary},
		{"boundary of 71", strings.Repeat("b", 71), field("A", "b"), "", page.ErrBoundary},
		{"boundary ends with space", "B ", field("A", "b"), "", page.ErrBoundary},
		{"quote in a boundary", `B"`, field("A", "b"), "", page.ErrBoundary},
		{"line break in a boundary", "B\r\n", field("A", "b"), "", page.ErrBoundary},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := page.AppendPart([]byte("before"), test.boundary, page.Header{test.field}, []byte(test.body))
			if !errors.Is(err, test.err) || string(got) != "before" {
				t.Errorf("%q, %v; want %v", got, err, test.err)
			}
			var out bytes.Buffer
			w := page.NewWriter(&out, test.boundary)
			err = w.WritePart(page.Header{test.field}, []byte(test.body))
			if !errors.Is(err, test.err) || out.Len() > 0 {
				t.Errorf("%q, %v; want %v", &out, err, test.err)
			}
			if again := w.Close(); again != err {
				t.Errorf("closed with %v, want %v", again, err)
			}
		})
	}
	// The boundary has the maximum length, and all characters that RFC 2046
	// allows.
	const longest = "'()+_,-./:=? 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstu"
	if _, err := page.AppendPart(nil, longest, nil, nil); err != nil {
		t.Error(err)
	}
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w := page.NewWriter(&out, "B")
	h := page.Header{field("A", "b")}
	if err := w.WritePart(h, []byte("one")); err != nil {
		t.Error(err)
	}
	if err := w.WriteStream(h, 3, strings.NewReader("two")); err != nil {
		t.Error(err)
	}
	if err := w.WriteStream(h, 0, strings.NewReader("")); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	const want = "--B\r\nA: b\r\nContent-Length: 3\r\n\r\none\r\n" +
		"--B\r\nA: b\r\nContent-Length: 3\r\n\r\ntwo\r\n" +
		"--B\r\nA: b\r\nContent-Length: 0\r\n\r\n\r\n--B--\r\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
	if err := w.WritePart(h, nil); err == nil {
		t.Error("written to a closed page")
	}
	if err := w.Close(); err == nil {
		t.Error("closed twice")
	}
	if out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
}

func TestWriterWithoutParts(t *testing.T) {
	if err := page.NewWriter(io.Discard, "B").Close(); !errors.Is(err, page.ErrNoParts) {
		t.Error(err)
	}
}

// If WriteStream returns an error, no reader considers the page complete.
func TestWriteStreamErrors(t *testing.T) {
	cause := errors.New("disk is gone")
	for _, test := range []struct {
		name string
		size int64
		body io.Reader
		err  error
	}{
		{"too short", 5, strings.NewReader("1234"), page.ErrContentLength},
		{"too long", 3, strings.NewReader("1234"), page.ErrContentLength},
		{"negative", -1, strings.NewReader(""), page.ErrContentLength},
		{"boundary", 3, strings.NewReader("--B"), page.ErrBoundaryInBody},
		{"boundary, byte by byte", 8, iotest.OneByteReader(strings.NewReader("ab\r\n--Bc")), page.ErrBoundaryInBody},
		{"boundary across chunks", 100_000, strings.NewReader(strings.Repeat("-", 32<<10) + "B" + strings.Repeat("-", 100_000-32<<10-1)), page.ErrBoundaryInBody},
		{"source fails", 5, io.MultiReader(strings.NewReader("12"), iotest.ErrReader(cause)), cause},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			w := page.NewWriter(&out, "B")
			if err := w.WritePart(nil, []byte("first")); err != nil {
				t.Fatal(err)
			}
			err := w.WriteStream(nil, test.size, test.body)
			if !errors.Is(err, test.err) {
				t.Errorf("%v, want %v", err, test.err)
			}
			if again := w.Close(); again != err {
				t.Errorf("closed with %v, want %v", again, err)
			}
			if _, err := readAll(t, page.NewReader(&out, "B", page.ReaderOptions{})); err == nil {
				t.Error("the page can be read although WriteStream failed")
			}
		})
	}
}

func TestWriterErrors(t *testing.T) {
	cause := errors.New("no space left")
	for n := range 5 {
		w := page.NewWriter(&failingWriter{left: n, err: cause}, "B")
		err := errors.Join(w.WritePart(nil, []byte("x")), w.Close())
		if failed := n < 4; failed != errors.Is(err, cause) {
			t.Errorf("write %d fails: %v", n, err)
		}
	}
}

type failingWriter struct {
	left int
	err  error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, w.err
	}
	return len(p), nil
}
