package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// An Opener opens the store that a URL names.
type Opener func(ctx context.Context, u *url.URL) (Store, error)

// A Registry maps URL schemes, in lower case, to the drivers that open them.
// The caller makes one of the drivers that it wants to have:
//
//	storage.Registry{"file": file.Open, "memory": memory.Open}
type Registry map[string]Opener

// Open opens the store at rawURL, such as "file:./data". Passwords in the URL
// do not show in errors.
func (r Registry) Open(ctx context.Context, rawURL string) (Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		if parse, ok := errors.AsType[*url.Error](err); ok {
			err = parse.Err // without the URL
		}
		return nil, fmt.Errorf("parse store URL: %w", err)
	}
	open, ok := r[u.Scheme]
	if !ok {
		return nil, fmt.Errorf("open store %q: unknown scheme %q, want one of %s", u.Redacted(), u.Scheme, r.schemes())
	}
	store, err := open(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", u.Redacted(), err)
	}
	return store, nil
}

func (r Registry) schemes() string {
	return strings.Join(slices.Sorted(maps.Keys(r)), ", ")
}
