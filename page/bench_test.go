package page_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/page"
)

// A benchPage describes a page of a feed.
type benchPage struct {
	name     string
	entities int
	size     int
}

var benchPages = []benchPage{
	{"1000x500B", 1000, 500},
	{"100x10KB", 100, 10_000},
}

const benchBoundary = "Q3V7ZK2MZ4XW5N6PTRA7JHYB2C"

// make returns the page in wire format. Its entities have the seven headers of a feed entity, and
// varied JSON bodies.
func (p benchPage) make(tb testing.TB) []byte {
	var data []byte
	for i := range p.entities {
		id := fmt.Sprintf("<%08d@orders.example>", i)
		body := fmt.Appendf(nil, `{"id":%d,"name":"customer %d","note":"`, i, i*7919)
		for n := i; len(body) < p.size-len(`"}`); n++ {
			body = fmt.Appendf(body, "%x-", n*2654435761)
		}
		body = append(body[:p.size-len(`"}`)], `"}`...)
		h := page.Header{
			field("Last-Modified", "Mon, 27 Nov 2023 03:10:00 GMT"),
			field("Content-Type", "application/json"),
			field("Content-ID", id),
			field("Operation-Type", "http-equiv=PUT"),
			field("Content-Location", fmt.Sprintf("/orders/%d", i)),
			field("ETag", fmt.Sprintf(`"%016x"`, i*2654435761)),
		}
		var err error
		if data, err = page.AppendPart(data, benchBoundary, h, body); err != nil {
			tb.Fatal(err)
		}
	}
	return page.AppendClose(data, benchBoundary)
}

func field(name, value string) page.Field {
	return page.Field{Name: []byte(name), Value: []byte(value)}
}

// BenchmarkRead reads pages, each body to its end. "page" reads pages with Content-Length from an
// io.Reader, and "scan" pages without Content-Length; "memory" reads pages in memory, and
// "multipart" uses mime/multipart.
func BenchmarkRead(b *testing.B) {
	for _, p := range benchPages {
		data := p.make(b)
		scan := bytes.ReplaceAll(data, []byte("Content-Length:"), []byte("Content-Extent:"))
		b.Run(p.name+"/page", func(b *testing.B) { benchmarkPage(b, p, data, false) })
		b.Run(p.name+"/scan", func(b *testing.B) { benchmarkPage(b, p, scan, false) })
		b.Run(p.name+"/memory", func(b *testing.B) { benchmarkPage(b, p, data, true) })
		b.Run(p.name+"/multipart", func(b *testing.B) { benchmarkMultipart(b, p, data) })
	}
}

func benchmarkPage(b *testing.B, p benchPage, data []byte, inMemory bool) {
	src := bytes.NewReader(data)
	var reader io.Reader = onlyReader{src}
	r := page.NewReader(reader, benchBoundary, page.ReaderOptions{})
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if src.Reset(data); inMemory {
			r.ResetBytes(data, benchBoundary)
		} else {
			r.Reset(reader, benchBoundary)
		}
		entities, size := 0, 0
		for part, err := range r.Parts() {
			if err != nil {
				b.Fatal(err)
			}
			entities++
			size += len(part.Body)
		}
		p.check(b, entities, size)
	}
	p.report(b)
}

func benchmarkMultipart(b *testing.B, p benchPage, data []byte) {
	src := bytes.NewReader(data)
	buf := make([]byte, p.size+1)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		src.Reset(data)
		r := multipart.NewReader(onlyReader{src}, benchBoundary)
		entities, size := 0, 0
		for {
			part, err := r.NextRawPart()
			if err == io.EOF {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			n, err := io.ReadFull(part, buf)
			if err != io.ErrUnexpectedEOF {
				b.Fatal(err)
			}
			entities++
			size += n
		}
		p.check(b, entities, size)
	}
	p.report(b)
}

// onlyReader hides the other methods of a reader.
type onlyReader struct{ io.Reader }

func (p benchPage) check(b *testing.B, entities, size int) {
	if entities != p.entities || size != p.entities*p.size {
		b.Fatalf("read %d entities, %d bytes", entities, size)
	}
}

func (p benchPage) report(b *testing.B) {
	b.ReportMetric(float64(b.N)*float64(p.entities)/b.Elapsed().Seconds(), "entities/s")
}

// BenchmarkNearDelimiters reads a body in which every line is almost a delimiter. Reading it must
// not be much slower per byte than reading other bodies.
func BenchmarkNearDelimiters(b *testing.B) {
	for _, line := range []string{"x", "\n", "\n-", "\n--" + benchBoundary + "x", "\n--" + benchBoundary + "--" + strings.Repeat(" ", 1000) + "x"} {
		body := strings.Repeat(line, 1<<20/len(line))
		data := []byte("--" + benchBoundary + "\r\n\r\n" + body + "\r\n--" + benchBoundary + "--\r\n")
		b.Run(fmt.Sprintf("%.32q", line), func(b *testing.B) {
			src := bytes.NewReader(data)
			r := page.NewReader(src, benchBoundary, page.ReaderOptions{})
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				src.Reset(data)
				r.Reset(src, benchBoundary)
				for part, err := range r.Parts() {
					if err != nil || len(part.Body) != len(body) {
						b.Fatal(err, len(part.Body))
					}
				}
			}
		})
	}
}
