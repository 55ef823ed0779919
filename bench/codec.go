package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"testing"

	"github.com/feedctl/feedctl/page"
)

// codec reads pages with package page and with mime/multipart.
func (b *bench) codec() error {
	for _, shape := range []struct {
		entities, size int
		target         target
	}{
		{1000, 500, atLeastRatio(20)},
		{100, 10_000, noTarget()},
	} {
		boundary := page.NewBoundary()
		doc, err := codecPage(boundary, shape.entities, shape.size)
		if err != nil {
			return err
		}
		ours := testing.Benchmark(func(t *testing.B) { readPage(t, doc, boundary, shape.entities, true) })
		streamed := testing.Benchmark(func(t *testing.B) { readPage(t, doc, boundary, shape.entities, false) })
		other := testing.Benchmark(func(t *testing.B) { readMultipart(t, doc, boundary, shape.entities) })
		limit := testing.Benchmark(func(t *testing.B) { findEnds(t, doc, boundary, shape.entities, shape.size) })
		if ours.N == 0 || streamed.N == 0 || other.N == 0 || limit.N == 0 {
			return errors.New("benchmark of the codec did not finish")
		}
		name := fmt.Sprintf("read page, %d entities of %d B", shape.entities, shape.size)
		b.report.add(name, "MB/s", rate(ours), rate(other), "mime/multipart", shape.target)
		b.report.add(name+", from a stream", "MB/s", rate(streamed), rate(other), "mime/multipart", noTarget())
		b.report.add(name+", ends of lines only", "MB/s", rate(limit), rate(other), "mime/multipart", noTarget())
		b.report.add(name, "allocations/entity",
			float64(ours.AllocsPerOp())/float64(shape.entities),
			float64(other.AllocsPerOp())/float64(shape.entities), "mime/multipart", atMost(0))
	}
	return nil
}

// rate returns megabytes per second.
func rate(r testing.BenchmarkResult) float64 {
	return float64(r.Bytes) * float64(r.N) / r.T.Seconds() / 1e6
}

// codecPage returns a page whose entities have the seven header fields of a feed entity.
func codecPage(boundary string, entities, size int) ([]byte, error) {
	body := bytes.Repeat([]byte("0123456789abcde\n"), size/16+1)[:size]
	var doc []byte
	for i := range entities {
		header := page.Header{
			{Name: []byte("Last-Modified"), Value: []byte("Mon, 27 Nov 2023 03:10:00 GMT")},
			{Name: []byte("Content-Type"), Value: []byte("application/json")},
			{Name: []byte("Content-ID"), Value: fmt.Appendf(nil, "<%032x@feed>", i)},
			{Name: []byte("Operation-Type"), Value: []byte("http-equiv=PUT")},
			{Name: []byte("Content-Location"), Value: fmt.Appendf(nil, "thing-%d", i)},
			{Name: []byte("ETag"), Value: fmt.Appendf(nil, "\"%x\"", i)},
		}
		var err error
		if doc, err = page.AppendPart(doc, boundary, header, body); err != nil {
			return nil, err
		}
	}
	return page.AppendClose(doc, boundary), nil
}

// readPage reads a page from memory, as a consumer that verifies pages before it delivers their
// entities does, or from a stream.
func readPage(t *testing.B, doc []byte, boundary string, want int, inMemory bool) {
	src := bytes.NewReader(doc)
	r := page.NewReader(src, boundary, page.ReaderOptions{})
	t.SetBytes(int64(len(doc)))
	t.ReportAllocs()
	for t.Loop() {
		if inMemory {
			r.ResetBytes(doc, boundary)
		} else {
			src.Reset(doc)
			r.Reset(src, boundary)
		}
		n := 0
		for _, err := range r.Parts() {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != want {
			t.Fatalf("read %d parts, want %d", n, want)
		}
	}
}

// findEnds finds the ends of the header lines in a page, skips bodies of the given size, and compares
// the delimiters: the part of reading a page that no reader can leave out.
func findEnds(t *testing.B, doc []byte, boundary string, want, size int) {
	delimiter := []byte("\r\n--" + boundary)
	t.SetBytes(int64(len(doc)))
	for t.Loop() {
		n := 0
		for rest := doc; ; {
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				break
			}
			rest = rest[end+1:]
			if end == len("\r") && len(rest) > size { // the line is blank
				if rest = rest[size:]; bytes.HasPrefix(rest, delimiter) {
					rest, n = rest[len(delimiter)+2:], n+1 // and a line break, or the closing hyphens
				}
			}
		}
		if n != want {
			t.Fatalf("found %d parts, want %d", n, want)
		}
	}
}

func readMultipart(t *testing.B, doc []byte, boundary string, want int) {
	src := bytes.NewReader(doc)
	var body bytes.Buffer
	t.SetBytes(int64(len(doc)))
	t.ReportAllocs()
	for t.Loop() {
		src.Reset(doc)
		r := multipart.NewReader(src, boundary)
		n := 0
		for {
			part, err := r.NextRawPart()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			body.Reset()
			if _, err := body.ReadFrom(part); err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != want {
			t.Fatalf("read %d parts, want %d", n, want)
		}
	}
}
