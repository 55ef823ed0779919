package postgres_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"math"
	"runtime"
	"testing"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/storage"
)

// TestAppendWritesTheTail: an append does not change existing rows of chunks, and the WAL
// grows by little more than the tail.
func TestAppendWritesTheTail(t *testing.T) {
	t.Parallel()
	server := pgtest.StartOwn(t, "full_page_writes=off", "autovacuum=off")
	url := server.URL("a")
	store, conn := open(t, url), connect(t, url)
	defer store.Close()
	rows := func() (rows string, wal int64) {
		t.Helper()
		err := conn.QueryRow(t.Context(), `
			SELECT coalesce(string_agg(format('%s %s', ctid, xmin), ';' ORDER BY position), ''), pg_current_wal_insert_lsn() - '0/0'
			FROM feedctl.chunks`).Scan(&rows, &wal)
		if err != nil {
			t.Fatal(err)
		}
		return rows, wal
	}
	at, err := store.Create(t.Context(), "a", storage.Meta{}, storage.Bytes(make([]byte, 5<<20)))
	if err != nil {
		t.Fatal(err)
	}
	was, walBefore := rows()
	const appends, tail = 100, 3000
	for range appends {
		at, err = store.Append(t.Context(), "a", at, storage.Meta{Data: make([]byte, 300)}, storage.Bytes(make([]byte, tail)))
		if err != nil {
			t.Fatal(err)
		}
	}
	is, walAfter := rows()
	if is[:len(was)] != was {
		t.Error("an append changed rows of chunks")
	}
	if perAppend := (walAfter - walBefore) / appends; perAppend > tail+2000 {
		t.Errorf("an append of %d bytes writes %d bytes to the WAL", tail, perAppend)
	}
	var pages int64
	if err := conn.QueryRow(t.Context(), "SELECT pg_relation_size('feedctl.objects') / 8192").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if pages > 4 { // without reuse, the versions would take 5; when space is reclaimed, some may still be visible to others
		t.Errorf("one object takes %d pages after %d appends", pages, appends)
	}
}

// TestAppendCopies: an append allocates hardly more memory than the message to the server. It does
// not run in parallel, since it measures the memory of the process.
func TestAppendCopies(t *testing.T) {
	store := open(t, pgtest.Start(t).URL("a"))
	defer store.Close()
	at, err := store.Create(t.Context(), "a", storage.Meta{}, storage.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	tail, least := make([]byte, 256<<10), math.MaxInt // take the least, since some appends also fill pools of buffers
	for range 50 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if at, err = store.Append(t.Context(), "a", at, storage.Meta{}, storage.Bytes(tail)); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		least = min(least, int(after.TotalAlloc-before.TotalAlloc))
	}
	if least > len(tail)*3/2 {
		t.Errorf("an append of %d bytes allocates %d", len(tail), least)
	}
}

// TestVeryLarge writes and reads a body eight times as large as the memory that it may use, or,
// with -all, one of 1 GiB with the same limit. It does not run in parallel, since it measures the
// memory of the process.
func TestVeryLarge(t *testing.T) {
	size := int64(128 << 20)
	if *allTests {
		size = 1 << 30
	}
	store := open(t, pgtest.Start(t).URL("a"))
	defer store.Close()
	want, memory := sha256.New(), newMemory()
	_, err := store.Create(t.Context(), "a", storage.Meta{}, numbers{size, io.MultiWriter(want, memory)})
	if err != nil {
		t.Fatal(err)
	}
	o, err := store.Get(t.Context(), "a", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	got := sha256.New()
	if n, err := io.Copy(io.MultiWriter(got, memory), o.Body); n != size || err != nil {
		t.Fatalf("read %d of %d bytes: %v", n, size, err)
	}
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Error("the body has changed")
	}
	if memory.peak > 16<<20 {
		t.Errorf("memory grew by %d bytes", memory.peak)
	}
}

// numbers is a body of 8-byte numbers, which are generated as the body is read.
type numbers struct {
	size int64
	seen io.Writer
}

func (n numbers) Size() int64 { return n.size }

func (n numbers) Open() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() {
		out := bufio.NewWriterSize(w, 64<<10)
		for i := range n.size / 8 {
			if _, err := out.Write(binary.BigEndian.AppendUint64(nil, uint64(i))); err != nil {
				return
			}
		}
		w.CloseWithError(out.Flush())
	}()
	return struct {
		io.Reader
		io.Closer
	}{io.TeeReader(r, n.seen), r}, nil
}

// memory samples how much memory is in use while bytes pass through it.
type memory struct{ base, peak, bytes int64 }

func newMemory() *memory { return &memory{base: heap()} }

func (m *memory) Write(p []byte) (int, error) {
	const every = 16 << 20
	before := m.bytes / every
	if m.bytes += int64(len(p)); m.bytes/every != before {
		m.peak = max(m.peak, heap()-m.base)
	}
	return len(p), nil
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
