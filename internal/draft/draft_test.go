package draft

import (
	"bytes"
	"crypto/sha256"
	"io"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/page"
)

// TestDraft puts bodies on a page, copied and shared. The bytes are the same, and an entity
// that belongs on another page leaves no bytes behind.
func TestDraft(t *testing.T) {
	const boundary = "boundary"
	header := page.Header{{Name: []byte("Content-Type"), Value: []byte("text/plain")}}
	forged := []byte(strings.Repeat("x", minSharedBody) + "--" + boundary)
	for _, copies := range []bool{false, true} {
		var want []byte
		d := New(nil)
		d.Boundary, d.Copies = boundary, copies
		put := func(body []byte, limit int64, fits bool) {
			t.Helper()
			ok, err := d.Put(header, body, nil, limit)
			if err != nil || ok != fits {
				t.Fatalf("copies %v: a body of %d bytes fits: %v, %v", copies, len(body), ok, err)
			}
			if fits {
				if want, err = page.AppendPart(want, boundary, header, body); err != nil {
					t.Fatal(err)
				}
			}
			if d.Size() != int64(len(want)) {
				t.Fatalf("copies %v: size %d, want %d", copies, d.Size(), len(want))
			}
		}
		for _, size := range []int{minSharedBody - 1, minSharedBody, 0, 1, 3 * minSharedBody} {
			body := bytes.Repeat([]byte{'a' + byte(size%26)}, size)
			put(body, 1<<20, true)
			put(body, d.Size(), false)
			put(forged, 1<<20, false)
		}
		d.Close()
		want = page.AppendClose(want, boundary)
		whole := sha256.New()
		whole.Write(want)
		if sum, err := d.Finish(); err != nil || sum != hexSum(whole) {
			t.Errorf("copies %v: SHA-256 %s, %v", copies, sum, err)
		}
		r, err := d.Body().Open()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("copies %v: got %q, %v, want %q", copies, got, err, want)
		}
	}
}

// TestDraftChangesBoundary: the first body of a page always belongs there.
func TestDraftChangesBoundary(t *testing.T) {
	d := New(nil)
	d.Boundary = "boundary"
	body := []byte(strings.Repeat("x", minSharedBody) + "--boundary")
	if ok, err := d.Put(nil, body, nil, 1); !ok || err != nil || d.Boundary == "boundary" {
		t.Errorf("%v, %v, boundary %q", ok, err, d.Boundary)
	}
}
