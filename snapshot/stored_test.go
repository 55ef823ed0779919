package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/snapshot"
)

func TestReadStored(t *testing.T) {
	index := &snapshot.Index{
		ID: "x", CreatedAt: time.Date(2023, 11, 27, 3, 10, 0, 0, time.UTC), Entities: 7,
		Pages: []string{"/pages/0", `/pages/"1"`, "/pages/2"}, Extra: map[string]json.RawMessage{"more": json.RawMessage(`{"pages":["x"]}`)},
	}
	data, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	got, err := snapshot.ReadStored("x", nil, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	index.Pages = nil
	if diff := cmp.Diff(&snapshot.Stored{Index: *index, PageCount: 3}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for name, c := range map[string]struct {
		id, text string
		want     error
	}{
		"cut":                 {"x", string(data[:len(data)-1]), snapshot.ErrInvalid},
		"cut in its pages":    {"x", string(data[:70]), snapshot.ErrInvalid},
		"empty":               {"x", "", snapshot.ErrInvalid},
		"something follows":   {"x", string(data) + "{}", snapshot.ErrInvalid},
		"another snapshot's":  {"y", string(data), snapshot.ErrInvalid},
		"a page is a number":  {"x", strings.Replace(string(data), `"/pages/0"`, "0", 1), snapshot.ErrInvalid},
		"pages not an array":  {"x", `{"id":"x","createdAt":"2023-11-27T03:10:00Z","pages":{}}`, snapshot.ErrInvalid},
		"no pages":            {"x", `{"id":"x","createdAt":"2023-11-27T03:10:00Z"}`, snapshot.ErrInvalid},
		"too much besides":    {"x", `{"id":"x","createdAt":"2023-11-27T03:10:00Z","pages":[],"a":"` + strings.Repeat("a", 1<<20) + `"}`, snapshot.ErrInvalid},
		"white space follows": {"x", string(data) + " \n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := snapshot.ReadStored(c.id, nil, strings.NewReader(c.text)); !errors.Is(err, c.want) {
				t.Errorf("error is %v", err)
			}
		})
	}
	broken := errors.New("broken")
	if _, err := snapshot.ReadStored("x", nil, iotest.ErrReader(broken)); !errors.Is(err, broken) || errors.Is(err, snapshot.ErrInvalid) {
		t.Errorf("error of a reader that fails: %v", err)
	}
}

// TestReadStoredFlips changes each bit of an index that was stored with its digest.
func TestReadStoredFlips(t *testing.T) {
	text := []byte(`{"id":"x","createdAt":"2023-11-27T03:10:00.000Z","pages":["/0","/1"],"entities":2}`)
	metadata := func(data []byte) []byte {
		m, err := snapshot.IndexInfo{SHA256: fmt.Sprintf("%x", sha256.Sum256(data))}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}(text)
	if _, err := snapshot.ReadStored("x", metadata, bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	for bit := range len(text) * 8 {
		damaged := bytes.Clone(text)
		damaged[bit/8] ^= 1 << (bit % 8)
		if _, err := snapshot.ReadStored("x", metadata, bytes.NewReader(damaged)); !errors.Is(err, snapshot.ErrDigest) {
			t.Errorf("bit %d: %v", bit, err)
		}
	}
}
