package represent

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// incompressible returns a page that does not become smaller when it is encoded.
func incompressible(size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{}), size)
}

// TestEncodingsAreBounded: encodings in use count toward the limit; encodings that no request holds
// are removed to make room, the least recently used first; and a page that does not fit is not
// encoded.
func TestEncodingsAreBounded(t *testing.T) {
	t.Parallel()
	const size = 200 << 10 // more than a chunk
	e := newEncodings(4*(size+1<<10), newCoders(1))
	get := func(name string) *encoding {
		t.Helper()
		one, err := e.get(t.Context(), encodingKey{name, codingGzip}, size, incompressible(size))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if one.body.size < size {
			t.Fatalf("%s has %d bytes", name, one.body.size)
		}
		return one
	}
	kept := func(name string) bool { return e.byKey[encodingKey{name, codingGzip}] != nil }
	var held []*encoding
	for i := range 4 {
		held = append(held, get(fmt.Sprint(i)))
	}
	if _, err := e.get(t.Context(), encodingKey{"4", codingGzip}, size, incompressible(size)); !errors.Is(err, errNotEncoded) {
		t.Errorf("with %d of %d bytes in use: %v", e.taken, e.limit, err)
	}
	e.release(held[1])
	e.release(held[0])
	e.release(get("1"))
	e.release(get("4"))
	if kept("0") || !kept("1") || !kept("4") {
		t.Errorf("0, the least recently used, is kept: %t; 1: %t; 4: %t", kept("0"), kept("1"), kept("4"))
	}
	e.release(held[2])
	e.release(held[3])
	if _, err := e.get(t.Context(), encodingKey{"large", codingGzip}, e.limit/maxEncodedShare+1, incompressible(size)); !errors.Is(err, errNotEncoded) {
		t.Errorf("a page larger than its share: %v", err)
	}
	if _, err := e.get(t.Context(), encodingKey{"short", codingGzip}, size, incompressible(size-1)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a page that ends early: %v", err)
	}
	<-e.coders.free // the only encoder
	if _, err := e.get(t.Context(), encodingKey{"late", codingGzip}, size, incompressible(size)); !errors.Is(err, errNotEncoded) {
		t.Errorf("without an encoder: %v", err)
	}
	var sum int64
	for _, one := range e.byKey {
		for _, chunk := range one.body.list {
			sum += int64(cap(chunk))
		}
	}
	if e.taken < sum-sum/100 || e.taken > sum || e.taken > e.limit || e.idle.Len() != len(e.byKey) {
		t.Errorf("%d bytes are counted of %d, limit %d; %d of %d are idle", e.taken, sum, e.limit, e.idle.Len(), len(e.byKey))
	}
}
