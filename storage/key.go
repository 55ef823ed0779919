package storage

import (
	"fmt"
	"strings"
)

// Limits of a key, in bytes.
const (
	MaxKey     = 512
	MaxSegment = 200
)

// CheckKey returns an error that matches [ErrKey] unless key is well-formed, as
// described by [Store].
func CheckKey(key string) error {
	if err := CheckPrefix(key); err != nil {
		return err
	}
	return checkSegment(key, key[strings.LastIndexByte(key, '/')+1:])
}

// CheckPrefix returns an error that matches [ErrKey] unless prefix is the
// beginning of a well-formed key. It may be empty and need not end at a "/".
func CheckPrefix(prefix string) error {
	if len(prefix) > MaxKey {
		return fmt.Errorf("%w %.40q...: longer than %d bytes", ErrKey, prefix, MaxKey)
	}
	rest := prefix
	for {
		segment, after, more := strings.Cut(rest, "/")
		if more {
			if err := checkSegment(prefix, segment); err != nil {
				return err
			}
			rest = after
			continue
		}
		return checkCharacters(prefix, segment)
	}
}

func checkSegment(key, segment string) error {
	switch segment {
	case "":
		return fmt.Errorf("%w %q: has an empty segment", ErrKey, key)
	case ".", "..":
		return fmt.Errorf("%w %q: has the segment %q", ErrKey, key, segment)
	}
	return checkCharacters(key, segment)
}

func checkCharacters(key, segment string) error {
	if len(segment) > MaxSegment {
		return fmt.Errorf("%w %.40q...: has a segment longer than %d bytes", ErrKey, key, MaxSegment)
	}
	for i := range len(segment) {
		switch c := segment[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("%w %q: character %q is not one of A-Z a-z 0-9 . _ -", ErrKey, key, c)
		}
	}
	return nil
}

// CheckMeta returns an error that matches [ErrMeta] unless meta is within the
// limits of [Meta].
func CheckMeta(meta Meta) error {
	if len(meta.Data) > MaxMeta {
		return fmt.Errorf("%w: data of %d bytes, the limit is %d", ErrMeta, len(meta.Data), MaxMeta)
	}
	for _, value := range []string{meta.ContentType, meta.CacheControl} {
		if len(value) > MaxHeader {
			return fmt.Errorf("%w: value %.40q... is longer than %d bytes", ErrMeta, value, MaxHeader)
		}
		for i := range len(value) {
			if c := value[i]; c < ' ' || c > '~' {
				return fmt.Errorf("%w: value %q has the character %q", ErrMeta, value, c)
			}
		}
	}
	return nil
}
