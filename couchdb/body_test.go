package couchdb_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/couchdb"
)

// TestBodies: bodies in memory and in files have the same content, and files are removed.
func TestBodies(t *testing.T) {
	dir := t.TempDir()
	text := []byte(`{"_id":"a","_rev":"1-x","deep":{"_deleted":true,"_rev":"no"},"_deleted":true,"_attachments":{},"n":[1,"_id"]}`)
	want := couchdb.Meta{ID: "a", Rev: "1-x", Deleted: true, HasAttachments: true}
	for whole := range len(text) + 2 {
		b, err := couchdb.Spool(dir, whole, func(w io.Writer) error {
			for i := range text {
				if _, err := w.Write(text[i : i+1]); err != nil {
					return err
				}
			}
			return nil
		})
		must(t, err)
		if (b.Bytes() != nil) != (whole >= len(text)) || b.Size() != int64(len(text)) {
			t.Errorf("%d bytes in memory of %d, limit %d", len(b.Bytes()), b.Size(), whole)
		}
		for range 2 {
			if got, err := io.ReadAll(b.Reader()); !bytes.Equal(got, text) || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		}
		if m, err := b.Scan(); m != want || err != nil {
			t.Errorf("%+v, %v", m, err)
		}
		must(t, b.Close())
	}
	for _, odd := range []string{`[]`, `"_id"`, `{"_id":1,"_rev":null,"_deleted":"true"}`, `{}`} {
		for _, whole := range []int{0, 100} {
			b, err := couchdb.Spool(dir, whole, func(w io.Writer) error { _, err := io.WriteString(w, odd); return err })
			must(t, err)
			if m, err := b.Scan(); m != (couchdb.Meta{}) || err != nil {
				t.Errorf("%s: %+v, %v", odd, m, err)
			}
			must(t, b.Close())
		}
	}
	if _, err := couchdb.Spool(dir, 0, func(io.Writer) error { return http.ErrAbortHandler }); err != http.ErrAbortHandler {
		t.Error(err)
	}
	if _, err := couchdb.Spool(dir+"/missing", 0, func(w io.Writer) error { _, err := w.Write(text); return err }); err == nil || !strings.Contains(err.Error(), "spool") {
		t.Error(err)
	}
}
