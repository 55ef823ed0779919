// Package selfcheck adds a checksum to a JSON object, so that damaged metadata is detected in
// any store.
package selfcheck

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"slices"
)

// ErrMismatch is returned by [Verify] if the checksum is wrong.
var ErrMismatch = errors.New("checksum does not match")

const (
	before = `,"crc32c":"`
	after  = `"}`
	size   = len(before) + 8 + len(after)
)

// Add appends the member "crc32c" to an object encoded by [encoding/json.Marshal], which must have
// at least one member. The value is the CRC-32C (RFC 3720, section 12.1) of the object without this
// member, in hex.
func Add(object []byte) []byte {
	end := len(object) - len("}")
	return slices.Concat(object[:end], []byte(before), checksum(object[:end]), []byte(after))
}

// Verify returns [ErrMismatch] if data ends with a member such as [Add] appends, but with a wrong checksum. An object
// without this member, written by an earlier version, is not checked.
func Verify(data []byte) error {
	rest := data[max(len(data)-size, 0):]
	if len(data) < size || !bytes.HasPrefix(rest, []byte(before)) || !bytes.HasSuffix(rest, []byte(after)) {
		return nil
	}
	end := len(data) - size
	if !bytes.Equal(rest[len(before):len(before)+8], checksum(data[:end])) {
		return ErrMismatch
	}
	return nil
}

// checksum returns, in hex, the checksum of an object that is given without its last byte.
func checksum(object []byte) []byte {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(crc32.Checksum(object, castagnoli), castagnoli, []byte("}"))
	return hex.AppendEncode(nil, binary.BigEndian.AppendUint32(nil, sum))
}
