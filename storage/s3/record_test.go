package s3

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/storage"
)

// FuzzRecord: any metadata is unchanged after a round trip through record and trailer, and a change
// of one character is detected.
func FuzzRecord(f *testing.F) {
	f.Add("text/plain", "no-cache", []byte("data"), int64(5), 3)
	f.Add("", "", []byte(nil), int64(0), 0)
	f.Add(strings.Repeat("t", 256), strings.Repeat("c", 256), bytes.Repeat([]byte{0xff}, 2000), int64(1<<62), 60)
	f.Fuzz(func(t *testing.T, contentType, cacheControl string, data []byte, size int64, at int) {
		meta := storage.Meta{ContentType: contentType, CacheControl: cacheControl, Data: data}
		size = max(size, -(size + 1))
		r := &record{id: strings.Repeat("A", idLen), size: size, payload: encodeMeta(meta)}
		trailer := makeTrailer(r.id, nil)
		if len(r.payload) > maxInline {
			trailer, r.payload = makeTrailer(r.id, r.payload), nil
		}
		r.trailer = len(trailer)
		text := r.String()
		if len(metaName)+len(text) > 2<<10 {
			t.Errorf("the record has %d bytes", len(text))
		}
		got, err := parseRecord(text)
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != text {
			t.Errorf("got %s, want %s", got, text)
		}
		back, err := got.checkTrailer(trailer)
		if diff := cmp.Diff(meta, back, cmp.Comparer(bytes.Equal)); err != nil || diff != "" {
			t.Errorf("metadata (-want +got), %v:\n%s", err, diff)
		}
		for where, whole := range map[string]string{"record": text, "trailer": string(trailer)} {
			i := (at%len(whole) + len(whole)) % len(whole)
			bad := whole[:i] + string(whole[i]^1) + whole[i+1:]
			if where == "record" {
				_, err = parseRecord(bad)
			} else {
				_, err = got.checkTrailer([]byte(bad))
			}
			if err == nil || errors.Is(err, storage.ErrLayout) {
				t.Errorf("%s with byte %d changed: %v", where, i, err)
			}
		}
	})
}

// TestRecordVersion: an unknown format is distinguished from damage.
func TestRecordVersion(t *testing.T) {
	text := "2.whatever"
	if _, err := parseRecord(text + "." + checksum(text)); !errors.Is(err, storage.ErrLayout) {
		t.Errorf("another format: %v", err)
	}
	for _, bad := range []string{"", ".", "1", "1.2.3", text} {
		if _, err := parseRecord(bad); err == nil || errors.Is(err, storage.ErrLayout) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
