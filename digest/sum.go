package digest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
)

// A Sum stands for the state of one key: the first 16 bytes of the SHA-256 over
//
//	the length of the key       8 bytes, big-endian
//	the key                     as it is, not percent-encoded
//	the length of the type      8 bytes, big-endian
//	the Content-Type            as it is
//	the body
//
// It does not cover the Content-ID, the time or other header fields, which a copy of the state need
// not have.
type Sum [16]byte

// String returns the sum in hex.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// MarshalText encodes the sum in hex.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText decodes what MarshalText returns.
func (s *Sum) UnmarshalText(text []byte) error { return fromHex(s[:], text) }

// A Summer computes [Sum] values, one after another, in constant memory. Its zero value is ready
// for Begin.
type Summer struct {
	hash hash.Hash
	buf  []byte
}

// Begin begins the sum of a key. The body follows in calls of Write.
func (s *Summer) Begin(key, contentType string) {
	if s.hash == nil {
		s.hash = sha256.New()
	}
	s.hash.Reset()
	s.buf = appendString(appendString(s.buf[:0], key), contentType)
	s.hash.Write(s.buf)
}

// Write adds a part of the body. It returns no error.
func (s *Summer) Write(body []byte) (int, error) { return s.hash.Write(body) }

// Sum returns the sum of the key and of the body written since Begin.
func (s *Summer) Sum() (sum Sum) {
	s.buf = s.hash.Sum(s.buf[:0])
	copy(sum[:], s.buf)
	return sum
}

// SumOf returns the sum of the state of a key whose body is in memory.
func SumOf(key, contentType string, body []byte) Sum {
	var s Summer
	s.Begin(key, contentType)
	_, _ = s.Write(body) // returns no error
	return s.Sum()
}

// appendString appends a string and, before it, its length.
func appendString(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(text))), text...)
}

// A Hash is a SHA-256.
type Hash [sha256.Size]byte

// String returns the hash in hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText encodes the hash in hex.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText decodes what MarshalText returns.
func (h *Hash) UnmarshalText(text []byte) error { return fromHex(h[:], text) }

// ParseHash returns the hash whose String is text.
func ParseHash(text string) (h Hash, err error) {
	if err := h.UnmarshalText([]byte(text)); err != nil {
		return Hash{}, fmt.Errorf("parse hash %.80q: %w", text, err)
	}
	return h, nil
}

var errHex = errors.New("not lower-case hex of the right length")

// fromHex decodes text, which must be lower-case, so that there is one name for each hash.
func fromHex(to, text []byte) error {
	if len(text) != hex.EncodedLen(len(to)) {
		return errHex
	}
	for _, c := range text {
		if 'A' <= c && c <= 'F' {
			return errHex
		}
	}
	if _, err := hex.Decode(to, text); err != nil {
		return errHex
	}
	return nil
}
