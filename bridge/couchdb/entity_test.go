package couchdb

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/feedctl/feedctl/feed"
)

func TestContentID(t *testing.T) {
	long := strings.Repeat("ü", 400)
	sum := sha256.Sum256([]byte(long))
	for p, want := range map[pair]string{
		{"a", "1-x"}:           "<a@1-x>",
		{"_design/a b", "1-x"}: "<_design%2Fa%20b@1-x>",
		{"a@1-x", "2-y"}:       "<a%401-x@2-y>",
		{"sha256:00", "1-x"}:   "<sha256%3A00@1-x>",
		{long, "1-x"}:          "<sha256:" + hex.EncodeToString(sum[:]) + "@1-x>",
	} {
		if got := p.contentID(); got != want {
			t.Errorf("Content-ID of %q is %s, want %s", p, got, want)
		}
		if e := p.entity(feed.Put); e.Check(true) != nil || e.Key() != p.id {
			t.Errorf("entity of %q: %v, key %q", p, e.Check(true), e.Key())
		}
		if back, ok := pairOf(p.entity(feed.Put).ContentLocation, p.entity(feed.Put).Header[0].Value); !ok || back != p {
			t.Errorf("pair %q comes back as %q, %v", p, back, ok)
		}
	}
	if got, want := (pair{"a", "2-x"}).contentIDOver("3-y"), "<a@2-x;after=3-y>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, other := range [][2]string{{"", `"1-x"`}, {"a", ""}, {"a", `""`}, {"a", `"`}, {"a", "1-x"}} {
		if p, ok := pairOf(other[0], other[1]); ok {
			t.Errorf("%q is taken for the entity of %q", other, p)
		}
	}
}

func TestJSONEntity(t *testing.T) {
	for text, want := range map[string]string{
		`{"_id":"a","_rev":"1-x","n":1.10}`:                       `PUT {"_id":"a","_rev":"1-x","n":1.10}`,
		`{"_id":"a","_rev":"2-x","_deleted":true}`:                `DELETE `,
		`{"_id":"a","_rev":"2-x","_deleted":true,"by":"b"}`:       `DELETE {"_id":"a","_rev":"2-x","_deleted":true,"by":"b"}`,
		`{"_id":"a","_rev":"2-x","_deleted":true,"_revisions":0}`: `DELETE {"_id":"a","_rev":"2-x","_deleted":true,"_revisions":0}`,
	} {
		d, err := parseDocument([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		e := jsonEntity(d, true)
		if got := string(e.Operation) + " " + string(e.Body); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// TestGuard reads every text in pieces of every size.
func TestGuard(t *testing.T) {
	for text, want := range map[string]error{
		"":            nil,
		"aé€😀b":       nil,
		"0123456789":  nil,
		"0123456789a": errTooLarge,
		"aé\xffb":     errNotUTF8,
		"aé€\xf0\x9f": errNotUTF8, // cut
		"\xe2\x82":    errNotUTF8,
		"\x80":        errNotUTF8,
	} {
		for size := 1; size <= 12; size++ {
			limit := int64(len("aé€😀b"))
			if errors.Is(want, errTooLarge) || want == nil && limit < int64(len(text)) {
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

// pieces reads few bytes at a time.
type pieces struct {
	r    io.Reader
	size int
}

func (p *pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.size)]) }
