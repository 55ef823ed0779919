package page_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/feedctl/feedctl/page"
)

func zeros(n int64) io.Reader {
	return io.LimitReader(readerFunc(func(p []byte) (int, error) { clear(p); return len(p), nil }), n)
}

// A body of any size, and the part after it, are read in constant memory.
func TestLargeStream(t *testing.T) {
	const size = 16 << 20
	for _, header := range []string{"", "X: y\r\n", "Content-Length: 16777216\r\n", "Content-Length: 5\r\n", "Content-Length: 20000000\r\n"} {
		for _, skip := range []bool{false, true} {
			src := io.MultiReader(
				strings.NewReader("--B\r\n"+header+"\r\n"), zeros(size), strings.NewReader("\r\n--B\r\nA: b\r\n\r\nlast\r\n--B--"))
			r := page.NewReader(src, "B", page.ReaderOptions{})
			var last string
			for part, err := range r.Parts() {
				if err != nil {
					t.Fatal(err)
				}
				if part.Stream == nil {
					last = fmt.Sprintf("%s %s", part.Header, part.Body)
					if want := int64(len("--B\r\n"+header+"\r\n") + size + 2); part.Offset != want {
						t.Errorf("offset %d, want %d", part.Offset, want)
					}
					continue
				}
				if got := len(part.Header); got != min(1, len(header)) {
					t.Errorf("%d fields", got)
				}
				if skip {
					continue
				}
				if n, err := io.Copy(io.Discard, part.Stream); n != size || err != nil {
					t.Errorf("read %d bytes: %v", n, err)
				}
				if header != "" && part.Header[0].Name[0] != header[0] {
					t.Errorf("header changed: %q", part.Header)
				}
			}
			if last != "[{A b}] last" {
				t.Errorf("last part %q", last)
			}
			if got, limit := page.Memory(r), 1<<20+64<<10+page.BufferSlack; got > limit {
				t.Errorf("buffers of %d bytes, limit %d", got, limit)
			}
		}
	}
}

// The buffers stay within their limit, whatever the page contains.
func TestMemoryLimit(t *testing.T) {
	o := page.ReaderOptions{MaxHeader: 100_000, MaxWhole: 300_000}
	long := "A: " + strings.Repeat("x", o.MaxHeader-5) + "\r\n"
	for _, data := range []string{
		strings.Repeat("\r\n--B preamble", 200_000) + "\r\n--B\r\n" + long + "\r\n" + strings.Repeat("y", o.MaxWhole) + "\r\n--B--",
		"--B\r\n" + long + "\r\n" + strings.Repeat("\r\n--B    x", o.MaxWhole) + "\r\n--B--",
		"--B\r\n" + long + "\r\n" + strings.Repeat("\r\n--B"+strings.Repeat(" ", 1024)+"x", 5000) + "\r\n--B--",
		strings.Repeat("--B\r\n"+long+"\r\n"+strings.Repeat("y", o.MaxWhole)+"\r\n", 3) + "--B--",
	} {
		r := page.NewReader(iotest.HalfReader(strings.NewReader(data)), "B", o)
		for _, err := range r.Parts() {
			if err != nil {
				t.Error(err)
			}
		}
		if got, limit := page.Memory(r), o.MaxWhole+o.MaxHeader+page.BufferSlack; got > limit {
			t.Errorf("buffers of %d bytes, limit %d", got, limit)
		}
	}
}

// In steady state, a Reader does not allocate, whatever the number of parts.
func TestNoAllocations(t *testing.T) {
	for _, p := range benchPages {
		data := p.make(t)
		folded := bytes.ReplaceAll(data, []byte("GMT\r\n"), []byte("\r\n GMT\r\n"))
		for _, data := range [][]byte{data, folded} {
			src := bytes.NewReader(data)
			r := page.NewReader(src, benchBoundary, page.ReaderOptions{})
			parts := 0
			allocs := testing.AllocsPerRun(20, func() {
				src.Reset(data)
				r.Reset(src, benchBoundary)
				for _, err := range r.Parts() {
					if err != nil {
						t.Fatal(err)
					}
					parts++
				}
			})
			if allocs != 0 {
				t.Errorf("%s: %v allocations for %d parts", p.name, allocs, p.entities)
			}
			if parts != 21*p.entities {
				t.Errorf("read %d parts", parts)
			}
		}
	}
}

// A stream can be abandoned at any point.
func TestAbandonedStream(t *testing.T) {
	const data = "--B\r\nA: b\r\n\r\n0123456789\r\n--B\r\nC: d\r\n\r\nabcdefghij\r\n--B--"
	for n := range 11 {
		r := page.NewReader(strings.NewReader(data), "B", page.ReaderOptions{MaxWhole: 1})
		var got []string
		for part, err := range r.Parts() {
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, n)
			if _, err := io.ReadFull(part.Stream, buf); err != nil {
				t.Fatal(err)
			}
			if want := part.Offset + int64(len("--B\r\nA: b\r\n\r\n")+n); n < 10 && r.Offset() != want {
				t.Errorf("offset %d after %d bytes of part %d, want %d", r.Offset(), n, part.Index, want)
			}
			got = append(got, string(buf))
		}
		if want := fmt.Sprint([]string{"0123456789"[:n], "abcdefghij"[:n]}); fmt.Sprint(got) != want {
			t.Errorf("read %q, want %q", got, want)
		}
	}
}

// A stream that is read too late does not return bytes of the next part.
func TestStaleStream(t *testing.T) {
	const data = "--B\r\n\r\n0123456789\r\n--B\r\n\r\nabcdefghij\r\n--B--"
	r := page.NewReader(strings.NewReader(data), "B", page.ReaderOptions{MaxWhole: 1})
	var streams []io.Reader
	for part, err := range r.Parts() {
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, part.Stream)
	}
	r.Reset(strings.NewReader(data), "B")
	for part := range r.Parts() {
		streams = append(streams, part.Stream)
		break
	}
	r.Reset(strings.NewReader(data), "B")
	for i, s := range streams {
		if n, err := s.Read(make([]byte, 4)); n != 0 || err == nil || err == io.EOF {
			t.Errorf("stream %d: %d, %v", i, n, err)
		}
	}
}

// A stream satisfies the contract of io.Reader, as far as this can be tested.
func TestStreamContract(t *testing.T) {
	body := strings.Repeat("x\r\n--B y\r\n--", 3000)
	r := page.NewReader(strings.NewReader("--B\r\n\r\n"+body+"\r\n--B--"), "B", page.ReaderOptions{MaxWhole: 1})
	for part, err := range r.Parts() {
		if err != nil {
			t.Fatal(err)
		}
		if err := iotest.TestReader(part.Stream, []byte(body)); err != nil {
			t.Error(err)
		}
	}
}

// Bodies, whole or streamed, are correct even if buffers move.
func TestLongPage(t *testing.T) {
	var data []byte
	var want [][32]byte
	for i := range 400 {
		body := bytes.Repeat([]byte{byte(i), '\r', '\n', '-'}, i*i%7919)
		want = append(want, sha256.Sum256(body))
		var err error
		if data, err = page.AppendPart(data, "B", page.Header{field("N", fmt.Sprint(i))}, body); err != nil {
			t.Fatal(err)
		}
	}
	data = page.AppendClose(data, "B")
	r := page.NewReader(bytes.NewReader(data), "B", page.ReaderOptions{MaxWhole: 20_000})
	parts, err := readAll(t, r)
	if err != nil || len(parts) != len(want) {
		t.Fatal(len(parts), err)
	}
	streams := 0
	for i, p := range parts {
		if p.Header[0] != fmt.Sprintf("N: %d", i) || sha256.Sum256([]byte(p.Body)) != want[i] {
			t.Errorf("part %d is %s with %d bytes", i, p.Header, len(p.Body))
		}
		if p.Streamed {
			streams++
		}
	}
	if streams == 0 || streams == len(parts) {
		t.Errorf("%d streams", streams)
	}
}
