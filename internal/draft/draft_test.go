package draft

import (
	"bytes"
	"crypto/sha256"
	"io"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/page"
)

// TestDraft: a page has the same bytes whether bodies are copied or shared, and an entity that
// belongs on another page leaves no bytes behind.
func TestDraft(t *testing.T) {
	const boundary = "boundary"
	header := page.Header{{Name: []byte("Content-Type"), Value: []byte("text/plain")}}
	forged := []byte(strings.Repeat("x", minSharedBody) + "--" + boundary)
	for _, copies := range []bool{false, true} {
		var want []byte
		d := New(Memory{})
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

// TestDraftChangesBoundary: the first body of a page always belongs on it. If the body contains the
// boundary, the page gets another boundary.
func TestDraftChangesBoundary(t *testing.T) {
	d := New(Memory{})
	d.Boundary = "boundary"
	body := []byte(strings.Repeat("x", minSharedBody) + "--boundary")
	if ok, err := d.Put(nil, body, nil, 1); !ok || err != nil || d.Boundary == "boundary" {
		t.Errorf("%v, %v, boundary %q", ok, err, d.Boundary)
	}
}

// TestDraftReusesMemory: a page that is built in the memory of another page has none of that page's
// content, and memory that was released holds no bodies.
func TestDraftReusesMemory(t *testing.T) {
	body := func(c byte) []byte { return bytes.Repeat([]byte{c}, minSharedBody) }
	build := func(m Memory, parts int, c byte) (*Draft, string) {
		d := New(m)
		d.Boundary = "boundary"
		for range parts {
			if ok, err := d.Put(nil, body(c), nil, 1<<20); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		d.Close()
		if _, err := d.Finish(); err != nil {
			t.Fatal(err)
		}
		r, err := d.Body().Open()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return &d, string(got)
	}
	first, _ := build(Memory{}, 3, 'x')
	m := first.Release()
	for _, shared := range m.shared[:cap(m.shared)] {
		if shared.body != nil {
			t.Error("the released memory still refers to a body")
		}
	}
	_, want := build(Memory{}, 1, 'y')
	if _, got := build(m, 1, 'y'); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	n := testing.AllocsPerRun(100, func() {
		d := Append("boundary", 1, 100, first.Hash, m)
		if ok, err := d.Put(nil, m.buf[:0], nil, 1<<20); !ok || err != nil {
			t.Fatal(ok, err)
		}
		m = d.Release()
	})
	if n > 0 {
		t.Errorf("%.0f allocations to put an entity on a page, want none", n)
	}
}

// TestDraftReleasedWhileRead: a transport may still read the body of an attempt that was given up
// when another attempt has succeeded and the memory was released. What the transport reads does not
// matter, but reading must not panic.
func TestDraftReleasedWhileRead(t *testing.T) {
	d := New(Memory{})
	for range 3 {
		if ok, err := d.Put(nil, bytes.Repeat([]byte{'x'}, minSharedBody), nil, 1<<20); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	size := d.Size()
	late, err := d.Body().Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, late, minSharedBody); err != nil {
		t.Fatal(err)
	}
	next := New(d.Release())
	if ok, err := next.Put(nil, nil, nil, 1<<20); !ok || err != nil {
		t.Fatal(ok, err)
	}
	next.Body()
	if n, err := io.Copy(io.Discard, late); n != size-minSharedBody || err != nil {
		t.Errorf("read %d bytes, %v, want %d", n, err, size-minSharedBody)
	}
}
