package bridge

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestGuard reads strings in pieces of all sizes.
func TestGuard(t *testing.T) {
	for text, want := range map[string]error{
		"":            nil,
		"aé€😀b":       nil,
		"0123456789":  nil,
		"0123456789a": ErrTooLarge,
		"aé\xffb":     ErrNotUTF8,
		"aé€\xf0\x9f": ErrNotUTF8, // cut
		"\xe2\x82":    ErrNotUTF8,
		"\x80":        ErrNotUTF8,
	} {
		for size := 1; size <= 12; size++ {
			limit := int64(len("aé€😀b"))
			if errors.Is(want, ErrTooLarge) || want == nil && limit < int64(len(text)) {
				limit = 10
			}
			g := &guard{r: &pieces{iotest.DataErrReader(strings.NewReader(text)), size}, limit: limit, text: true}
			var out bytes.Buffer
			_, err := io.Copy(&out, g)
			if !errors.Is(err, want) || !errors.Is(g.err, want) {
				t.Errorf("%q in pieces of %d: %v, want %v", text, size, err, want)
			}
			if want == nil && out.String() != text {
				t.Errorf("%q in pieces of %d: %q", text, size, out.String())
			}
		}
	}
}

// pieces reads a few bytes at a time.
type pieces struct {
	r    io.Reader
	size int
}

func (p *pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.size)]) }
