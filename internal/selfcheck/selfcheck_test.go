package selfcheck_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/feedctl/feedctl/internal/selfcheck"
)

// TestFlips changes each bit: the change must be detected, or leave the object equal.
func TestFlips(t *testing.T) {
	type object struct {
		A int    `json:"a"`
		B string `json:"b"`
	}
	plain, err := json.Marshal(object{1, "two"})
	if err != nil {
		t.Fatal(err)
	}
	data := selfcheck.Add(plain)
	if err := selfcheck.Verify(data); err != nil {
		t.Fatal(err)
	}
	for i := range len(data) * 8 {
		damaged := bytes.Clone(data)
		damaged[i/8] ^= 1 << (i % 8)
		var got object
		if selfcheck.Verify(damaged) == nil && json.Unmarshal(damaged, &got) == nil && got != (object{1, "two"}) {
			t.Errorf("bit %d: %s is accepted", i, damaged)
		}
	}
}

// TestForm pins the form of the member, since the metadata in existing stores contains it.
func TestForm(t *testing.T) {
	const want = `{"a":24,"crc32c":"0da95ab8"}`
	if got := string(selfcheck.Add([]byte(`{"a":24}`))); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestWithout(t *testing.T) {
	for _, data := range []string{"", "{}", `{"a":1}`, `{"a":1,"crc32c":"0"}`, "[1]"} {
		if err := selfcheck.Verify([]byte(data)); err != nil {
			t.Errorf("%s: %v", data, err)
		}
	}
}
