package page_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/page"
)

// read reads a page with boundary B, first in one chunk and then byte by byte, and checks that the
// results are equal.
func read(t *testing.T, data string, o page.ReaderOptions) ([]gotPart, error) {
	t.Helper()
	parts, err := readAll(t, page.NewReader(strings.NewReader(data), "B", o))
	slow, slowErr := readAll(t, page.NewReader(iotest.OneByteReader(strings.NewReader(data)), "B", o))
	if diff := gocmp.Diff(parts, slow); diff != "" {
		t.Errorf("in one chunk (-), byte by byte (+):\n%s", diff)
	}
	checkError(t, slowErr, err)
	return parts, err
}

func TestTolerance(t *testing.T) {
	const kib = 1024
	for _, test := range []struct {
		name string
		page string
		want []string // for each part, its headers, "|", and its body
	}{
		{"CRLF", "--B\r\nA: b\r\n\r\nbody\r\n--B--\r\n", []string{"A: b|body"}},
		{"LF", "--B\nA: b\n\nbody\n--B\n\n2\n--B--\n", []string{"A: b|body", "|2"}},
		{"LF keeps a CR at the end of a body", "--B\n\nbody\r\n--B--\n", []string{"|body\r"}},
		{"CRLF and LF mixed", "--B\r\nA: b\nC: d\r\n\nbody\n--B\n\r\n2\n--B--\n", []string{"A: b,C: d|body", "|2"}},
		{"no final line break", "--B\r\n\r\nbody\r\n--B--", []string{"|body"}},
		{"half a final line break", "--B\r\n\r\nbody\r\n--B--\r", []string{"|body"}},
		{"white space at the very end", "--B\r\n\r\nbody\r\n--B-- \t", []string{"|body"}},
		{"white space after delimiters", "--B \t \r\n\r\nbody\r\n--B\t\r\n\r\n2\r\n--B-- \r\n", []string{"|body", "|2"}},
		{"much white space after a delimiter", "--B" + strings.Repeat(" ", kib) + "\r\n\r\nbody\r\n--B--", []string{"|body"}},
		{"too much white space", "--B\r\n\r\nx\r\n--B" + strings.Repeat(" ", kib+1) + "\r\n--B--", []string{"|x\r\n--B" + strings.Repeat(" ", kib+1)}},
		{"preamble", "This is\r\n--Bx\r\n --B\r\nx--B\r\na preamble.\r\n--B\r\n\r\nbody\r\n--B--\r\n", []string{"|body"}},
		{"empty line before", "\r\n--B\r\n\r\nbody\r\n--B--\r\n", []string{"|body"}},
		{"epilogue", "--B\r\n\r\nbody\r\n--B--\r\n--B\r\nnot: read\r\n", []string{"|body"}},
		{"no header", "--B\r\n\r\nbody\r\n--B--", []string{"|body"}},
		{"empty body", "--B\r\nA: b\r\n\r\n\r\n--B--", []string{"A: b|"}},
		{"empty body, no line break", "--B\r\nA: b\r\n\r\n--B--", []string{"A: b|"}},
		{"empty body, Content-Length", "--B\r\nContent-Length: 0\r\n\r\n\r\n--B\r\nContent-Length: 0\r\n\r\n--B--", []string{"Content-Length: 0|", "Content-Length: 0|"}},
		{"body of line breaks", "--B\r\n\r\n\r\n\r\n\r\n\r\n--B--", []string{"|\r\n\r\n\r\n"}},
		{"body begins with LF", "--B\r\n\r\n\nx\r\n--B--", []string{"|\nx"}},
		{"binary body", "--B\r\n\r\n\x00\xff\r\r\n\n\xfe\r\n--B--", []string{"|\x00\xff\r\r\n\n\xfe"}},
		{"boundary begins a line of a body", "--B\r\n\r\n--Bx\r\n--B-\r\n--B--x\r\n--B x\r\n--B\rx\r\n--B", []string{}},
		{"boundary begins a line of a body, page closed", "--B\r\n\r\n--Bx\r\n--B-\r\n--B--x\r\n--B x\r\n--B\rx\r\n--B--", []string{"|--Bx\r\n--B-\r\n--B--x\r\n--B x\r\n--B\rx"}},
		{"boundary inside a line", "--B\r\n\r\nx--B\r\n\r--B\r\n -\r\n--B--", []string{"|x--B\r\n\r--B\r\n -"}},
		{"nested multipart", "--B\r\nContent-Type: multipart/mixed; boundary=BC\r\n\r\n--BC\r\n\r\n1\r\n--BC--\r\n\r\n--B--", []string{"Content-Type: multipart/mixed; boundary=BC|--BC\r\n\r\n1\r\n--BC--\r\n"}},
		{"nested multipart, same boundary, right length", "--B\r\nContent-Length: 19\r\n\r\n--B\r\n\r\n1\r\n--B--\r\n\r\n--B--", nil},
		{"folded header", "--B\r\nA: b\r\n  c  \r\n\td\r\nE:\r\n f\r\n\r\nx\r\n--B--", []string{"A: b c d,E: f|x"}},
		{"folded header, blank", "--B\nA: b \n \n\t\n c\nD: e\n\nx\n--B--", []string{"A: b c,D: e|x"}},
		{"white space around values", "--B\r\nA:b\r\nC: \t d e\t \r\nF:\r\nG: \r\n\r\nx\r\n--B--", []string{"A: b,C: d e,F: ,G: |x"}},
		{"same field twice", "--B\r\nA: 1\r\na: 2\r\n\r\nx\r\n--B--", []string{"A: 1,a: 2|x"}},
		{"8-bit value", "--B\r\nA: \xc3\xa9\xff\r\n\r\nx\r\n--B--", []string{"A: \xc3\xa9\xff|x"}},
		{"Content-Length too small", "--B\r\nContent-Length: 2\r\n\r\nbody\r\n--B--", []string{"Content-Length: 2|body"}},
		{"Content-Length too large", "--B\r\nContent-Length: 5\r\n\r\nbody\r\n--B\r\n\r\n2\r\n--B--", []string{"Content-Length: 5|body", "|2"}},
		{"Content-Length beyond the page", "--B\r\nContent-Length: 999\r\n\r\nbody\r\n--B--", []string{"Content-Length: 999|body"}},
		{"Content-Length beyond MaxWhole", "--B\r\nContent-Length: 99999999999\r\n\r\nbody\r\n--B--", []string{"Content-Length: 99999999999|body"}},
		{"Content-Length beyond int64", "--B\r\nContent-Length: 99999999999999999999\r\n\r\nbody\r\n--B--", []string{"Content-Length: 99999999999999999999|body"}},
		{"Content-Length negative", "--B\r\nContent-Length: -4\r\n\r\nbody\r\n--B--", []string{"Content-Length: -4|body"}},
		{"Content-Length garbage", "--B\r\nContent-Length: 4 bytes\r\n\r\nbody\r\n--B--", []string{"Content-Length: 4 bytes|body"}},
		{"Content-Length empty", "--B\r\nContent-Length:\r\n\r\nbody\r\n--B--", []string{"Content-Length: |body"}},
		{"Content-Length twice", "--B\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nbody\r\n--B--", []string{"Content-Length: 4,Content-Length: 4|body"}},
		{"Content-Length contradictory", "--B\r\nContent-Length: 4\r\nContent-Length: 1\r\n\r\nbody\r\n--B--", []string{"Content-Length: 4,Content-Length: 1|body"}},
		{"Content-Length includes a delimiter in a body", "--B\r\nContent-Length: 8\r\n\r\nx\r\n--B\r\n\r\n--B--", []string{"Content-Length: 8|x\r\n--B\r\n"}},
		{"Content-Length excludes a CR", "--B\nContent-Length: 1\n\nx\r\n--B--", []string{"Content-Length: 1|x"}},
		{"Content-Length ends within a CRLF", "--B\r\nContent-Length: 2\r\n\r\nx\r\n--B--", []string{"Content-Length: 2|x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			parts, err := read(t, test.page, page.ReaderOptions{})
			if len(test.want) == 0 {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range parts {
				got = append(got, strings.Join(p.Header, ",")+"|"+p.Body)
			}
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	const first = "--B\r\n\r\nx\r\n" // 10 bytes
	for _, test := range []struct {
		name   string
		page   string
		o      page.ReaderOptions
		part   int
		offset int64
		err    error
	}{
		{"nothing", "", page.ReaderOptions{}, -1, 0, page.ErrTruncated},
		{"no delimiter", "text\r\n--C\r\n", page.ReaderOptions{}, -1, 11, page.ErrTruncated},
		{"no parts", "x\r\n--B--\r\n--B\r\n\r\n", page.ReaderOptions{}, -1, 3, page.ErrNoParts},
		{"cut in the first delimiter", "--B", page.ReaderOptions{}, -1, 3, page.ErrTruncated},
		{"cut after a delimiter", first + "--B\r\n", page.ReaderOptions{}, 1, 15, page.ErrTruncated},
		{"cut in a header", first + "--B\r\nA: b\r", page.ReaderOptions{}, 1, 20, page.ErrTruncated},
		{"cut after a header", first + "--B\r\nA: b\r\n", page.ReaderOptions{}, 1, 21, page.ErrTruncated},
		{"cut after a blank line", first + "--B\r\n\r\n", page.ReaderOptions{}, 1, 17, page.ErrTruncated},
		{"cut in a body", first + "--B\r\n\r\nbo", page.ReaderOptions{}, 1, 19, page.ErrTruncated},
		{"cut in a body with length", first + "--B\r\nContent-Length: 9\r\n\r\nbo", page.ReaderOptions{Strict: true}, 1, 38, page.ErrTruncated},
		{"cut after a body", first + "--B\r\n\r\nbo\r\n", page.ReaderOptions{}, 1, 21, page.ErrTruncated},
		{"cut in a delimiter", first + "--", page.ReaderOptions{}, 0, 12, page.ErrTruncated},
		{"cut before the end of a delimiter", first + "--B", page.ReaderOptions{}, 0, 13, page.ErrTruncated},
		{"cut in the line break of a delimiter", first + "--B\r", page.ReaderOptions{}, 0, 14, page.ErrTruncated},
		{"cut in the closing delimiter", first + "--B-", page.ReaderOptions{}, 0, 14, page.ErrTruncated},
		{"cut in a delimiter, length right", "--B\r\nContent-Length: 2\r\n\r\nbo\r\n--B", page.ReaderOptions{Strict: true}, 0, 33, page.ErrTruncated},

		{"no colon", first + "--B\r\nA: b\r\nabc\r\n\r\n", page.ReaderOptions{}, 1, 21, page.ErrMalformedHeader},
		{"no name", "--B\r\n: b\r\n\r\n", page.ReaderOptions{}, 0, 5, page.ErrMalformedHeader},
		{"space in a name", "--B\r\nA b: c\r\n\r\n", page.ReaderOptions{}, 0, 5, page.ErrMalformedHeader},
		{"space after a name", "--B\r\nA : c\r\n\r\n", page.ReaderOptions{}, 0, 5, page.ErrMalformedHeader},
		{"8-bit name", "--B\r\n\xc3\xa9: c\r\n\r\n", page.ReaderOptions{}, 0, 5, page.ErrMalformedHeader},
		{"fold without a field", "--B\r\n A: b\r\n\r\n", page.ReaderOptions{}, 0, 5, page.ErrMalformedHeader},
		{"NUL in a value", "--B\r\nA: b\r\nA: \x00\r\n\r\n", page.ReaderOptions{}, 0, 14, page.ErrMalformedHeader},
		{"CR in a value", "--B\r\nA: b\r\nA: \rb\r\n\r\n", page.ReaderOptions{}, 0, 14, page.ErrMalformedHeader},
		{"CR in a folded value", "--B\r\nA: b\r\n c\rd\r\n\r\n", page.ReaderOptions{}, 0, 13, page.ErrMalformedHeader},
		{"delimiter in a header", "--B\r\nA: b\r\n--B\r\n\r\n", page.ReaderOptions{}, 0, 11, page.ErrMalformedHeader},
		{"closing delimiter in a header", "--B\r\nA: b\r\n--B--", page.ReaderOptions{}, 0, 11, page.ErrMalformedHeader},

		{"header at the limit", "--B\r\nA: 34\r\n\r\n", page.ReaderOptions{MaxHeader: 7}, 0, 14, page.ErrTruncated},
		{"header over the limit", "--B\r\nA: 34\r\n\r\n", page.ReaderOptions{MaxHeader: 6}, 0, 11, page.ErrHeaderTooLarge},
		{"header over the default", first + "--B\r\nA: " + strings.Repeat("x", 64<<10), page.ReaderOptions{}, 1, 15 + 64<<10, page.ErrHeaderTooLarge},
		{"many lines over the default", first + "--B\r\n" + strings.Repeat("A:\r\n", 20<<10), page.ReaderOptions{}, 1, 15 + 64<<10, page.ErrHeaderTooLarge},

		{"part over the limit", first + "--B\r\n\r\n1234\r\n--B--", page.ReaderOptions{MaxPart: 3}, 1, 17, page.ErrPartTooLarge},
		{"part over the limit, its length known", first + "--B\r\nContent-Length: 4\r\n\r\n1234\r\n--B--", page.ReaderOptions{MaxPart: 3}, 1, 36, page.ErrPartTooLarge},
		{"stream over the limit", first + "--B\r\n\r\n1234\r\n--B--", page.ReaderOptions{MaxPart: 3, MaxWhole: 2}, 1, 20, page.ErrPartTooLarge},
		{"stream over the limit, its length known", first + "--B\r\nContent-Length: 4\r\n\r\n1234\r\n--B--", page.ReaderOptions{MaxPart: 3, MaxWhole: 2}, 1, 36, page.ErrPartTooLarge},
		{"endless part", first + "--B\r\n\r\n" + strings.Repeat("1234", 10), page.ReaderOptions{MaxPart: 3}, 1, 17, page.ErrPartTooLarge},

		{"strict: length too small", "--B\r\nContent-Length: 1\r\n\r\nxy\r\n--B--", page.ReaderOptions{Strict: true}, 0, 27, page.ErrContentLength},
		{"strict: length too large", "--B\r\nContent-Length: 3\r\n\r\nxy\r\n--B--", page.ReaderOptions{Strict: true}, 0, 29, page.ErrContentLength},
		{"strict: length beyond the page", "--B\r\nContent-Length: 99\r\n\r\nxy\r\n--B--", page.ReaderOptions{Strict: true}, 0, 29, page.ErrContentLength},
		{"strict: length negative", "--B\r\nContent-Length: -2\r\n\r\nxy\r\n--B--", page.ReaderOptions{Strict: true}, 0, 27, page.ErrContentLength},
		{"strict: length not a number", "--B\r\nContent-Length: 0x2\r\n\r\nxy\r\n--B--", page.ReaderOptions{Strict: true}, 0, 28, page.ErrContentLength},
		{"strict: length contradictory", "--B\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nxy\r\n--B--", page.ReaderOptions{Strict: true}, 0, 45, page.ErrContentLength},
		{"strict: stream too short", "--B\r\nContent-Length: 99\r\n\r\nxy\r\n--B--", page.ReaderOptions{Strict: true, MaxWhole: 1}, 0, 29, page.ErrContentLength},
		{"strict: stream too long", "--B\r\nContent-Length: 2\r\n\r\nxyz\r\n--B--", page.ReaderOptions{Strict: true, MaxWhole: 1}, 0, 29, page.ErrContentLength},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := read(t, test.page, test.o)
			checkError(t, err, &page.Error{Part: test.part, Offset: test.offset, Err: test.err})
		})
	}
}

// Every proper prefix of a page is truncated, or lacks only the line break at the end of the page.
// Reading it yields no incomplete part.
func TestEveryPrefix(t *testing.T) {
	const whole = "preamble\r\n--B\r\nA: b\r\nContent-Length: 5\r\n\r\nhello\r\n--B \r\n\r\n--B-\r\n\r\n--B\n\n\r\n--B--\r\n"
	for _, maxWhole := range []int{0, 1} {
		all, err := read(t, whole, page.ReaderOptions{MaxWhole: maxWhole})
		if err != nil || len(all) != 3 {
			t.Fatal(all, err)
		}
		for n := range len(whole) - len("\r\n") {
			parts, err := read(t, whole[:n], page.ReaderOptions{MaxWhole: maxWhole})
			if !errors.Is(err, page.ErrTruncated) {
				t.Errorf("prefix of %d bytes: error %v", n, err)
			}
			if diff := gocmp.Diff(all[:len(parts)], parts); len(parts) > 0 && diff != "" {
				t.Errorf("prefix of %d bytes: %s", n, diff)
			}
		}
	}
}

// An error from the source is returned, wherever it occurs.
func TestSourceError(t *testing.T) {
	const whole = "--B\r\nA: b\r\n\r\nbody\r\n--B\r\n\r\nbody\r\n--B--"
	for n := range len(whole) + 1 {
		for _, maxWhole := range []int{0, 1} {
			for _, cause := range []error{io.ErrUnexpectedEOF, errors.New("connection reset")} {
				src := io.MultiReader(strings.NewReader(whole[:n]), iotest.ErrReader(cause))
				_, err := readAll(t, page.NewReader(src, "B", page.ReaderOptions{MaxWhole: maxWhole}))
				var at *page.Error
				if !errors.Is(err, cause) || !errors.As(err, &at) || at.Offset != int64(n) {
					t.Errorf("source fails after %d bytes: %v, want %v", n, err, cause)
				}
			}
		}
	}
}

func TestSourceWithoutProgress(t *testing.T) {
	src := readerFunc(func([]byte) (int, error) { return 0, nil })
	if _, err := readAll(t, page.NewReader(src, "B", page.ReaderOptions{})); !errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestInvalidBoundary(t *testing.T) {
	for _, boundary := range []string{"", "a\nb", "a\x00", strings.Repeat("b", 257)} {
		_, err := readAll(t, page.NewReader(strings.NewReader("--\r\n\r\n"), boundary, page.ReaderOptions{}))
		checkError(t, err, &page.Error{Part: -1, Err: page.ErrBoundary})
	}
}

// A boundary with a colon makes delimiter lines look like fields.
func TestBoundaryWithColon(t *testing.T) {
	data := "--a:b\r\nC: d\r\n--a:bc\r\n\r\nx\r\n--a:b--"
	parts, err := readAll(t, page.NewReader(strings.NewReader(data), "a:b", page.ReaderOptions{}))
	if err != nil || len(parts) != 1 {
		t.Error(parts, err)
	}
	_, err = readAll(t, page.NewReader(strings.NewReader("--a:b\r\nC: d\r\n--a:b\r\n\r\nx\r\n--a:b--"), "a:b", page.ReaderOptions{}))
	checkError(t, err, &page.Error{Part: 0, Offset: 13, Err: page.ErrMalformedHeader})
}

// TestIterations: a new iteration continues where the previous one stopped, and errors are
// sticky.
func TestIterations(t *testing.T) {
	r := page.NewReader(strings.NewReader("--B\r\n\r\n1\r\n--B\r\n\r\n2\r\n--B--"), "B", page.ReaderOptions{})
	for part := range r.Parts() {
		if part.Index != 0 {
			t.Error(part.Index)
		}
		break
	}
	rest, err := readAll(t, r)
	if err != nil || len(rest) != 1 || rest[0].Body != "2" {
		t.Error(rest, err)
	}
	if again, err := readAll(t, r); again != nil || err != nil {
		t.Error(again, err)
	}
	if r.Offset() != 20 {
		t.Error(r.Offset())
	}

	r.Reset(strings.NewReader("--B\r\n"), "B")
	_, first := readAll(t, r)
	_, second := readAll(t, r)
	if first == nil || first != second {
		t.Error(first, second)
	}
}

// The iteration does not read the source beyond the closing delimiter.
func TestEpilogueIsUnread(t *testing.T) {
	src := io.MultiReader(strings.NewReader("--B\r\n\r\n1\r\n--B--\r\n"), strings.NewReader("epilogue"))
	if _, err := readAll(t, page.NewReader(src, "B", page.ReaderOptions{})); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(src); string(rest) != "epilogue" {
		t.Errorf("left %q", rest)
	}
}

func TestHeaderGet(t *testing.T) {
	h := page.Header{field("Content-ID", "<1>"), field("content-id", "<2>"), field("Empty", "")}
	if got := h.Get("CONTENT-id"); string(got) != "<1>" {
		t.Errorf("%q", got)
	}
	if got := h.Get("Content-I@"); got != nil {
		t.Errorf("%q", got)
	}
	if got := h.Get("empty"); got == nil || len(got) != 0 {
		t.Errorf("%v", got)
	}
	if n := testing.AllocsPerRun(100, func() { h.Get("Content-Id") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Appending to a name or value does not overwrite what follows it in the buffer.
func TestSlicesAreClipped(t *testing.T) {
	const data = "--B\r\nA: b\r\nC: d\r\n\r\nbody\r\n--B\r\n\r\n2\r\n--B--"
	for part, err := range page.NewReader(strings.NewReader(data), "B", page.ReaderOptions{}).Parts() {
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range part.Header {
			_ = append(append(f.Name, "xxxx"...), append(f.Value, "xxxx"...)...)
		}
		_ = append(part.Body, "xxxxxxxxxxxx"...)
		if part.Index == 0 && !bytes.Equal(part.Header.Get("C"), []byte("d")) || part.Index == 1 && string(part.Body) != "2" {
			t.Errorf("damaged: %q %q", part.Header, part.Body)
		}
	}
}

// A name is compared with the name in the previous part even if the buffer has moved, and the
// memory of the previous name now holds other bytes, possibly those of the new name.
func TestBufferMovesUnderNames(t *testing.T) {
	for room := range 60 {
		for preamble := range 60 {
			data := strings.Repeat("-", preamble) + "\n--B\r\nabc: v\r\n\r\nx\r\n--B\r\na c: v\r\n\r\ny\r\n--B--"
			r := page.NewReader(iotest.OneByteReader(strings.NewReader(data)), "B", page.ReaderOptions{})
			page.SetBuffer(r, room)
			_, err := readAll(t, r)
			checkError(t, err, &page.Error{Part: 1, Offset: int64(strings.Index(data, "a c")), Err: page.ErrMalformedHeader})
		}
	}
}
