package sinktest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
)

func (s suite) bodies(t *testing.T) {
	s.needsWhole(t)
	keys := []string{"a", ".", "..", "../up", "/etc/passwd", ".feedctl", "a b", "a%20b", "ü/世界", "A", "\xff\x00\n", "C:\\x", "-", strings.Repeat("k", 3000), strings.Repeat("k", 2999) + "j", strings.Repeat("é", 200)}
	bodies := []struct{ contentType, body string }{
		{"application/json", `{"a":[1.50,1e400,"\u00e9<é>"],"b":{}}`},
		{"application/json", ``},
		{"application/json; charset=utf-8", `"text"`},
		{"application/geo+json", `12345678901234567890.123`},
		{"application/json", `{"not": json`},
		{"application/json", "\"\xff\""},
		{"text/plain", "line\nline\r\n\t\"quoted\" \\ \x00\x01\x7f 世界\u2028"},
		{"text/plain; charset=iso-8859-1", "gr\xfc\xdfe"},
		{"text/csv", ``},
		{"image/svg+xml", `<svg/>`},
		{"application/octet-stream", "\x00\x01\xff\n"},
		{"image/png", ``},
		{"text/plain", strings.Repeat("x", sink.MaxInline)},
		{"text/plain", strings.Repeat("y", sink.MaxInline+1)},
		{"application/json", `"` + strings.Repeat("z", sink.MaxInline) + `"`},
		{"", "no type"},
	}
	var entities []*feed.Entity
	var want []Record
	for i := range max(len(keys), len(bodies)) {
		b := bodies[i%len(bodies)]
		e := entity(i+1, feed.Put, keys[i%len(keys)], b.contentType, b.body)
		e.Header = append(e.Header, feed.Field{Name: "X-Odd", Value: "\"q\" \\ ü"})
		entities = append(entities, e)
		want = append(want, record(e, []byte(b.body)))
	}
	s.check(t, s.filled(t, entities...), want...)
}

// streams tests bodies of about the size up to which a sink holds them in memory, and a much larger
// one, for which the memory is measured. With -short, only a few sizes are tested: each byte that a
// sink encodes is expensive under the race detector.
func (s suite) streams(t *testing.T) {
	s.needsWhole(t)
	sizes := []int{0, 1, sink.MaxInline - 1, sink.MaxInline, sink.MaxInline + 1, 3*sink.MaxInline + 7}
	if testing.Short() {
		sizes = []int{0, sink.MaxInline, sink.MaxInline + 1}
	}
	var want []Record
	dir := t.TempDir()
	k := s.open(t, dir)
	b := begin(t, k)
	n := 0
	for _, size := range sizes {
		for _, known := range []bool{true, false} {
			n++
			body := randomBody(size)
			e := streamed(n, bytes.NewReader(body), int64(size))
			if !known {
				e.Size = -1
			}
			apply(t, b, e)
			want = append(want, record(e, body))
		}
	}
	if !testing.Short() {
		large := randomBody(8 << 20)
		for _, size := range []int64{int64(len(large)), -1} {
			n++
			e := streamed(n, bytes.NewReader(large), size)
			if used := allocated(func() { apply(t, b, e) }); used > 4<<20 {
				t.Errorf("a stream of %d bytes took %d bytes of memory", len(large), used)
			}
			want = append(want, record(e, large))
		}
	}
	commit(t, b, at(n))
	closeSink(t, k)
	s.check(t, dir, want...)
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// streamed returns an entity with a stream that implements only Read.
func streamed(n int, stream io.Reader, size int64) *feed.Entity {
	e := entity(n, feed.Put, fmt.Sprintf("stream/%d", n), "application/octet-stream", "")
	e.Body, e.Stream, e.Size = nil, struct{ io.Reader }{stream}, size
	return e
}

func randomBody(size int) []byte {
	body := make([]byte, size)
	source := rand.NewChaCha8([32]byte{1})
	source.Read(body)
	return body
}

var errStream = errors.New("stream broke")

// failingStreams tests streams that fail, end early, or are too long. Their batches
// are discarded, and the sink continues.
func (s suite) failingStreams(t *testing.T) {
	for _, size := range []int{10, sink.MaxInline, 3 * sink.MaxInline} {
		for _, known := range []int64{int64(size), -1} {
			for _, c := range []struct {
				name   string
				stream func(body []byte) io.Reader
				want   error
				isFine bool
			}{
				{"breaks", func(body []byte) io.Reader {
					return io.MultiReader(bytes.NewReader(body[:size-3]), &broken{errStream})
				}, errStream, false},
				{"is cut", func(body []byte) io.Reader {
					return io.MultiReader(bytes.NewReader(body[:size-3]), &broken{io.ErrUnexpectedEOF})
				}, io.ErrUnexpectedEOF, false},
				{"breaks at the end", func(body []byte) io.Reader {
					return io.MultiReader(bytes.NewReader(body), &broken{errStream})
				}, errStream, false},
				{"is short", func(body []byte) io.Reader { return bytes.NewReader(body[:size-1]) }, nil, known < 0},
				{"is long", func(body []byte) io.Reader {
					return io.MultiReader(bytes.NewReader(body), strings.NewReader("x"))
				}, nil, known < 0},
			} {
				if c.isFine {
					continue
				}
				t.Run(fmt.Sprintf("%d of %d %s", size, known, c.name), func(t *testing.T) {
					t.Parallel()
					s.failingStream(t, streamed(2, c.stream(randomBody(size)), known), c.want)
				})
			}
		}
	}
}

func (s suite) failingStream(t *testing.T, e *feed.Entity, want error) {
	dir := t.TempDir()
	k := s.open(t, dir)
	b := begin(t, k)
	apply(t, b, put(1, "a", `1`))
	err := b.Apply(t.Context(), e)
	if err == nil || want != nil && !errors.Is(err, want) {
		t.Errorf("apply: %v, want %v", err, want)
	}
	if err := b.Apply(t.Context(), put(3, "c", `3`)); err == nil {
		t.Error("an entity was applied after one that failed")
	}
	if err := b.Commit(t.Context(), at(3)); err == nil {
		t.Error("a batch was committed without an entity that was not applied")
	}
	rollback(t, b)
	checkPosition(t, k, feed.Position{})
	four := put(4, "d", `4`)
	b = begin(t, k)
	apply(t, b, four)
	commit(t, b, at(4))
	closeSink(t, k)
	s.check(t, dir, record(four, four.Body))
}

type broken struct{ err error }

func (b *broken) Read([]byte) (int, error) { return 0, b.err }
