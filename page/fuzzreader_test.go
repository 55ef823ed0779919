package page_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/page"
)

// A chunkReader returns data in chunks of random sizes, and then err.
type chunkReader struct {
	data []byte
	err  error
	rand *rand.Rand
	max  int
}

func (c *chunkReader) Read(p []byte) (int, error) {
	if c.rand.IntN(8) == 0 {
		return 0, nil
	}
	if len(c.data) == 0 {
		return 0, c.err
	}
	n := copy(p, c.data[:min(len(c.data), 1+c.rand.IntN(c.max))])
	c.data = c.data[n:]
	if len(c.data) == 0 && c.rand.IntN(2) == 0 {
		return n, c.err
	}
	return n, nil
}

// FuzzReader reads arbitrary pages in arbitrary chunks, with arbitrary limits, and compares the
// results with those of the model.
func FuzzReader(f *testing.F) {
	for _, data := range seedPages() {
		f.Add(data, "B", uint64(1))
		f.Add(data, "B", uint64(0xfff))
	}
	f.Fuzz(func(t *testing.T, data []byte, boundary string, seed uint64) {
		if strings.TrimFunc(boundary, func(r rune) bool { return r >= ' ' && r != 0x7f }) != "" || boundary == "" || len(boundary) > 256 {
			boundary = "B"
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		o := page.ReaderOptions{
			MaxHeader: []int{0, 0, 0, 1, 20, 60}[rnd.IntN(6)],
			MaxPart:   []int64{0, 0, 0, 1, 5, 50, 500}[rnd.IntN(7)],
			MaxWhole:  []int{0, 0, 1, 2, 10, 100}[rnd.IntN(6)],
			Strict:    rnd.IntN(2) == 0,
		}
		compareWithModel(t, data, boundary, o, rnd)
	})
}

func compareWithModel(t *testing.T, data []byte, boundary string, o page.ReaderOptions, rnd *rand.Rand) {
	t.Helper()
	m := &model{page: data, boundary: boundary, o: o}
	want, wantErr := m.read()
	var r *page.Reader
	for _, chunk := range []int{1, 3, 0, 100, 1 << 20} { // 0: in memory
		src := &chunkReader{data: data, err: io.EOF, rand: rnd, max: chunk}
		if chunk == 0 {
			r.ResetBytes(bytes.Clone(data), boundary)
		} else if r == nil {
			r = page.NewReader(src, boundary, o)
			page.SetBuffer(r, rnd.IntN(100))
		} else {
			r.Reset(src, boundary)
		}
		got, err := readAll(t, r)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("options %+v, chunks of %d: model (-), reader (+):\n%s", o, chunk, diff)
		}
		checkError(t, err, wantErr)
		if t.Failed() {
			t.Fatalf("page %q, boundary %q, options %+v, chunks of %d", data, boundary, o, chunk)
		}
	}
}

// checkError compares two errors of reading a page, but not their offsets if one is -1.
func checkError(t *testing.T, got, want error) {
	t.Helper()
	var g, w *page.Error
	if !errors.As(want, &w) {
		if got != nil {
			t.Errorf("read: %v, want no error", got)
		}
		return
	}
	if !errors.As(got, &g) || w.Err != errEither && !errors.Is(g, w.Err) || g.Part != w.Part || w.Offset >= 0 && g.Offset != w.Offset {
		t.Errorf("read: %v, want %v", got, want)
	}
}

// seedPages returns pages from which fuzzing starts.
func seedPages() [][]byte {
	pages := []string{
		"--B\r\nContent-Length: 5\r\n\r\nhello\r\n--B\r\n\r\n\r\n--B--\r\n",
		"preamble\n--B\nA: b\n c\n\nbody\r\n--B--",
		"--B \t\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n\r\n--B--\t \r\nepilogue\r\n--B\r\n",
		"--B\r\n\r\n--Bx\r\n--B-\r\n--B--x\r\n--B x\r\r\n--B--\r",
		"--B\r\nContent-Length: 99\r\nA:\r\n\tb\r\n \r\n\r\nlies\n--B\n\n--B--",
		"--B\r\nContent-Type: multipart/mixed; boundary=BC\r\n\r\n--BC\r\n\r\ninner\r\n--BC--\r\n\r\n--B--\r\n",
		"--B--\r\n",
		"--B--\n--B\n\n--B--",
		"--B\r\nno colon\r\n\r\n--B--\r\n",
	}
	var out [][]byte
	for _, p := range pages {
		out = append(out, []byte(p))
	}
	return append(out, fmt.Appendf(nil, "--B\r\n\r\n%s\r\n--B--\r\n", strings.Repeat("\r\n--B x", 100)))
}
