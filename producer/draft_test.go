package producer

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// TestDraft puts bodies on a page that are copied, and others that are not: the bytes
// are the same, and what belongs on the next page leaves nothing behind.
func TestDraft(t *testing.T) {
	const boundary = "boundary"
	header := page.Header{{Name: []byte("Content-Type"), Value: []byte("text/plain")}}
	forged := []byte(strings.Repeat("x", minSharedBody) + "--" + boundary)
	for _, copies := range []bool{false, true} {
		var want []byte
		d := &draft{boundary: boundary, hash: newHash(), copies: copies}
		put := func(body []byte, limit int64, fits bool) {
			t.Helper()
			ok, err := d.put(header, body, nil, limit)
			if err != nil || ok != fits {
				t.Fatalf("copies %v: a body of %d bytes fits: %v, %v", copies, len(body), ok, err)
			}
			if fits {
				if want, err = page.AppendPart(want, boundary, header, body); err != nil {
					t.Fatal(err)
				}
			}
			if d.size() != int64(len(want)) {
				t.Fatalf("copies %v: size %d, want %d", copies, d.size(), len(want))
			}
		}
		for _, size := range []int{minSharedBody - 1, minSharedBody, 0, 1, 3 * minSharedBody} {
			body := bytes.Repeat([]byte{'a' + byte(size%26)}, size)
			put(body, 1<<20, true)
			put(body, d.size(), false)
			put(forged, 1<<20, false)
		}
		d.close()
		want = page.AppendClose(want, boundary)
		whole := newHash()
		whole.Write(want)
		if sum, err := d.finish(); err != nil || sum != hexSum(whole) {
			t.Errorf("copies %v: SHA-256 %s, %v", copies, sum, err)
		}
		r, err := d.body().Open()
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
	d := &draft{boundary: "boundary", hash: newHash()}
	body := []byte(strings.Repeat("x", minSharedBody) + "--boundary")
	if ok, err := d.put(nil, body, nil, 1); !ok || err != nil || d.boundary == "boundary" {
		t.Errorf("%v, %v, boundary %q", ok, err, d.boundary)
	}
}

// TestLoad: what is expected of entities before they are on a page is what they take
// up there.
func TestLoad(t *testing.T) {
	for _, size := range []int{0, 9, 10, 99, 100, 999, 1000, 12_345} {
		e := feed.Entity{ContentID: "<1@test>", Operation: feed.Put, ContentType: "text/plain", Body: make([]byte, size)}
		if size > 50 {
			e.ContentLocation, e.Header = "key", []feed.Field{{Name: "X-Other", Value: "some"}}
		}
		header := e.AppendHeader(nil)
		part, err := page.AppendPart(nil, page.NewBoundary(), header, e.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got := loadOf(&e, int64(size)); got != int64(len(part)) {
			t.Errorf("load of a body of %d bytes is %d, it takes %d", size, got, len(part))
		}
	}
}
