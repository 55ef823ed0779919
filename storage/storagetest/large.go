package storagetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

// largeHeap is the additional memory that may be in use while a large body is being written or
// read.
const largeHeap = 8 << 20

// testLarge writes and reads a body of 24 MiB (8 MiB with Options.BodiesInMemory, 64 MiB with
// Options.Long), and appends the same number of bytes.
func testLarge(t *testing.T, s *suite) {
	var size int64 = 24 << 20
	switch {
	case s.opts.BodiesInMemory:
		size = 8 << 20
	case s.opts.Long:
		size = 64 << 20
	}
	meter := &heapMeter{base: heapInUse(), off: s.opts.BodiesInMemory}
	open := func(seed byte) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) {
			return io.NopCloser(io.TeeReader(io.LimitReader(&largeReader{seed: seed}, size), meter)), nil
		}
	}
	key := s.key("large")
	version, err := s.store.Create(t.Context(), key, storage.Meta{}, testBody{size, open(1)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Append(t.Context(), key, version, storage.Meta{}, testBody{size, open(2)}); err != nil {
		t.Fatal(err)
	}
	o, err := s.store.Get(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	if o.Size != 2*size {
		t.Fatalf("size is %d, want %d", o.Size, 2*size)
	}
	for _, seed := range []byte{1, 2} {
		want, got := sha256.New(), sha256.New()
		r, _ := open(seed)()
		if _, err := io.Copy(want, r); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.MultiWriter(got, meter), o.Body, size); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
			t.Errorf("half %d of the body has changed", seed)
		}
	}
	if meter.peak > largeHeap {
		t.Errorf("memory grew by %s, want at most %s", mebibytes(meter.peak), mebibytes(largeHeap))
	}
}

// A largeReader yields an endless sequence of different blocks of 64 KiB.
type largeReader struct {
	seed  byte
	block [64 << 10]byte
	n, at int
}

func (r *largeReader) Read(p []byte) (int, error) {
	if r.at == 0 {
		r.n++
		copy(r.block[:], fmt.Sprintf("half %d, block %d", r.seed, r.n))
	}
	n := copy(p, r.block[r.at:])
	r.at = (r.at + n) % len(r.block)
	return n, nil
}

// A heapMeter measures the memory in use from time to time while bytes pass through it.
type heapMeter struct {
	off        bool
	base, peak int64
	bytes      int64
}

func (m *heapMeter) Write(p []byte) (int, error) {
	const every = 4 << 20
	before := m.bytes / every
	m.bytes += int64(len(p))
	if !m.off && m.bytes/every != before {
		m.peak = max(m.peak, heapInUse()-m.base)
	}
	return len(p), nil
}

func heapInUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
