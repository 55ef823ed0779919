package storage

import (
	"context"
	"fmt"
	"iter"
	"strings"
)

// A Namer is a Store that lists the names below a prefix without listing the
// objects below each name. Use [Names], which works with every store.
type Namer interface {
	// Names implements the function [Names] for this store.
	Names(ctx context.Context, prefix, after string) iter.Seq2[string, error]
}

// Names yields the names below prefix, which is empty or ends in "/": the next segment of each key
// that begins with prefix and continues after that segment. It yields each name once, beginning
// after the given name. The names are in the order of their keys: "a-b" (of "a-b/…") comes before
// "a" (of "a/…"), and "a" before "ab". A name may be yielded while its last object is being deleted
// or its first object is being created. An error is yielded once, as the last element.
//
// If the store is not a [Namer], Names sends one listing request per name.
func Names(ctx context.Context, store Store, prefix, after string) iter.Seq2[string, error] {
	if namer, ok := As[Namer](store); ok {
		return namer.Names(ctx, prefix, after)
	}
	return func(yield func(string, error) bool) {
		if err := CheckNames(prefix); err != nil {
			yield("", fmt.Errorf("list names: %w", err))
			return
		}
		for start := AfterName(prefix, after); ; {
			key, err := firstKey(ctx, store, prefix, start)
			if err != nil {
				yield("", err)
				return
			}
			if key == "" {
				return
			}
			name, ok := NameIn(prefix, key)
			if !ok {
				start = key
				continue
			}
			if !yield(name, nil) {
				return
			}
			start = AfterName(prefix, name)
		}
	}
}

// firstKey returns the first key in a listing, or "" if the listing is empty.
func firstKey(ctx context.Context, store Store, prefix, after string) (string, error) {
	for entry, err := range store.List(ctx, prefix, after) {
		return entry.Key, err
	}
	return "", nil
}

// CheckNames returns an error that matches [ErrKey] unless prefix is valid for [Names].
func CheckNames(prefix string) error {
	if err := CheckPrefix(prefix); err != nil {
		return err
	}
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		return fmt.Errorf("%w %q: a prefix of names must end in \"/\"", ErrKey, prefix)
	}
	return nil
}

// NameIn returns the name below prefix to which a key belongs; ok is false if there is none.
func NameIn(prefix, key string) (name string, ok bool) {
	name, _, ok = strings.Cut(strings.TrimPrefix(key, prefix), "/")
	return name, ok
}

// AfterName returns the string that, passed to [Store].List as after, makes the listing begin after
// all keys of a name below prefix. It is "" for the name "".
func AfterName(prefix, name string) string {
	if name == "" {
		return ""
	}
	return prefix + name + "0" // "0" follows "/"
}
