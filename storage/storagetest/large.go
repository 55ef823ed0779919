package storagetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

const (
	largeSize = 64 << 20
	// largeHeap is how much more memory may be in use while a body of largeSize
	// is written or read.
	largeHeap = 8 << 20
)

// testLarge writes and reads a body of 64 MiB, and appends as much.
func testLarge(t *testing.T, s *suite) {
	meter := &heapMeter{base: heapInUse(), off: s.opts.BodiesInMemory}
	open := func(seed byte) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) {
			source := rand.NewChaCha8([32]byte{seed})
			return io.NopCloser(io.TeeReader(io.LimitReader(source, largeSize), meter)), nil
		}
	}
	key := s.key("large")
	version, err := s.store.Create(t.Context(), key, storage.Meta{}, testBody{largeSize, open(1)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Append(t.Context(), key, version, storage.Meta{}, testBody{largeSize, open(2)}); err != nil {
		t.Fatal(err)
	}
	o, err := s.store.Get(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	if o.Size != 2*largeSize {
		t.Fatalf("size is %d, want %d", o.Size, 2*largeSize)
	}
	for _, seed := range []byte{1, 2} {
		want, got := sha256.New(), sha256.New()
		r, _ := open(seed)()
		if _, err := io.Copy(want, r); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.MultiWriter(got, meter), o.Body, largeSize); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
			t.Errorf("half %d of the body has changed", seed)
		}
	}
	if meter.peak > largeHeap {
		t.Errorf("%s of memory were in use beyond what was before, want at most %s", mebibytes(meter.peak), mebibytes(largeHeap))
	}
}

// A heapMeter looks at the memory in use now and then, as bytes pass.
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
