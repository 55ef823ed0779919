package jsonl_test

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"testing"

	"github.com/feedctl/feedctl/sink/jsonl"
)

// TestBase64 compares AppendBase64 with encoding/base64, for sizes around those of the vectors, and
// with a buffer that has just the space that is needed.
func TestBase64(t *testing.T) {
	random := rand.NewChaCha8([32]byte{})
	for size := range 400 {
		b := make([]byte, size)
		random.Read(b)
		want := base64.StdEncoding.AppendEncode([]byte("before"), b)
		for spare := range 2 {
			room := bytes.Repeat([]byte{'x'}, len(want)+spare)
			copy(room, "before")
			got := jsonl.AppendBase64(room[:len("before"):len(want)], b)
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes are encoded as %q, want %q", size, got, want)
			}
			if spare > 0 && room[len(want)] != 'x' {
				t.Fatalf("encoding %d bytes wrote beyond the end", size)
			}
		}
		if got := jsonl.AppendBase64(nil, b); !bytes.Equal(got, want[len("before"):]) {
			t.Fatalf("%d bytes are encoded as %q", size, got)
		}
	}
}
