//go:build unix

package file

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

func BenchmarkCreate1MiB(b *testing.B) {
	s := newBenchStore(b)
	body := storage.Bytes(make([]byte, 1<<20))
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.Create(context.Background(), fmt.Sprintf("feeds/x/pages/%012d", i), benchMeta, body); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppend1KiB appends 1 KiB at a time to pages of up to 1 MiB, as happens with a single
// publisher.
func BenchmarkAppend1KiB(b *testing.B) {
	s := newBenchStore(b)
	tail := storage.Bytes(make([]byte, 1<<10))
	b.ReportAllocs()
	var version storage.Version
	var key string
	for i := 0; b.Loop(); i++ {
		var err error
		if i%1000 == 0 {
			key = fmt.Sprintf("feeds/x/pages/%012d", i)
			if version, err = s.Create(context.Background(), key, benchMeta, tail); err != nil {
				b.Fatal(err)
			}
		}
		if version, err = s.Append(context.Background(), key, version, benchMeta, tail); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppend256KiB appends 256 KiB at a time to pages of 1 MiB, as happens in a busy feed.
func BenchmarkAppend256KiB(b *testing.B) {
	s := newBenchStore(b)
	tail := storage.Bytes(make([]byte, 256<<10))
	b.SetBytes(256 << 10)
	b.ReportAllocs()
	var version storage.Version
	var key string
	for i := 0; b.Loop(); i++ {
		var err error
		if i%4 == 0 {
			b.StopTimer()
			key = fmt.Sprintf("feeds/x/pages/%012d", i)
			version, err = s.Create(context.Background(), key, benchMeta, storage.Bytes())
			b.StartTimer()
			if err != nil {
				b.Fatal(err)
			}
		}
		if version, err = s.Append(context.Background(), key, version, benchMeta, tail); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet1MiB(b *testing.B) {
	s := newBenchStore(b)
	if _, err := s.Create(context.Background(), "feeds/x/pages/1", benchMeta, storage.Bytes(make([]byte, 1<<20))); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	buffer := make([]byte, 64<<10)
	for b.Loop() {
		o, err := s.Get(context.Background(), "feeds/x/pages/1", 0, -1)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{o.Body}, buffer); err != nil {
			b.Fatal(err)
		}
		o.Body.Close()
	}
}

func BenchmarkStat(b *testing.B) {
	s := newBenchStore(b)
	if _, err := s.Create(context.Background(), "feeds/x/pages/1", benchMeta, storage.Bytes()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Stat(context.Background(), "feeds/x/pages/1"); err != nil {
			b.Fatal(err)
		}
	}
}

var benchMeta = storage.Meta{ContentType: "multipart/mixed; boundary=x", Data: make([]byte, 600)}

func newBenchStore(b *testing.B) *Store {
	s, err := New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}
