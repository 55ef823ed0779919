package consumer

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"
)

// TestReadAheadBytes: all bytes of the source are read, whatever the sizes of reads and of the ring,
// followed by its error.
func TestReadAheadBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		data := make([]byte, random.IntN(5000))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		var src io.Reader = bytes.NewReader(data)
		switch random.IntN(3) {
		case 0:
			src = iotest.HalfReader(src)
		case 1:
			src = iotest.DataErrReader(src)
		}
		src = io.MultiReader(src, iotest.ErrReader(iotest.ErrTimeout))
		a := newReadAhead(io.NopCloser(src), func() {}, make([]byte, 1+random.IntN(700)))
		a.start()
		var got []byte
		var err error
		for p := make([]byte, 300); err == nil; {
			var n int
			n, err = a.Read(p[:1+random.IntN(300)])
			got = append(got, p[:n]...)
		}
		if !bytes.Equal(got, data) || !errors.Is(err, iotest.ErrTimeout) {
			t.Fatalf("got %d bytes and error %v, want %d bytes", len(got), err, len(data))
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// blocked is a source that returns nothing until it is cancelled.
type blocked struct{ reading, cancelled chan struct{} }

func (b blocked) Read([]byte) (int, error) {
	close(b.reading)
	<-b.cancelled
	return 0, io.ErrClosedPipe
}

func (b blocked) Close() error { return nil }

// TestReadAheadClose closes a readAhead whose source blocks, and one that is
// full.
func TestReadAheadClose(t *testing.T) {
	src := blocked{make(chan struct{}), make(chan struct{})}
	a := newReadAhead(src, func() { close(src.cancelled) }, make([]byte, 10))
	a.start()
	<-src.reading
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	full := newReadAhead(io.NopCloser(bytes.NewReader(make([]byte, 100))), func() {}, make([]byte, 10))
	full.start()
	if _, err := io.ReadFull(full, make([]byte, 5)); err != nil {
		t.Error(err)
	}
	if err := full.Close(); err != nil {
		t.Error(err)
	}
	if _, err := full.Read(make([]byte, 1)); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}

// TestReadAheadTake: take returns the whole source without copying it if all of it is held; any
// other source must be read.
func TestReadAheadTake(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 100)
	for _, c := range []struct {
		name  string
		src   io.Reader
		limit int // 0: not held
		whole bool
	}{
		{"held", iotest.HalfReader(bytes.NewReader(data)), 2000, true},
		{"not held", bytes.NewReader(data), 0, false},
		{"larger than the limit", bytes.NewReader(data), 500, false},
		{"failed", io.MultiReader(bytes.NewReader(data), iotest.ErrReader(iotest.ErrTimeout)), 2000, false},
	} {
		a := newReadAhead(io.NopCloser(c.src), func() {}, make([]byte, 10))
		if c.limit > 0 {
			a.hold(c.limit)
		}
		a.start()
		whole := a.take()
		if (whole != nil) != c.whole {
			t.Errorf("%s: took %d bytes", c.name, len(whole))
		}
		rest, err := io.ReadAll(a)
		if got := append(slices.Clip(whole), rest...); c.name != "failed" && (err != nil || !bytes.Equal(got, data)) {
			t.Errorf("%s: got %d bytes, %v", c.name, len(got), err)
		}
		if c.name == "failed" && (!errors.Is(err, iotest.ErrTimeout) || len(rest) > 0) {
			t.Errorf("%s: got %d bytes, %v", c.name, len(rest), err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	a := newReadAhead(io.NopCloser(bytes.NewReader(data)), func() {}, make([]byte, 10))
	a.hold(2000)
	a.expect = prefix{size: 1}
	a.start()
	if whole := a.take(); whole != nil {
		t.Errorf("took %d bytes of a page whose beginning must be compared", len(whole))
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
