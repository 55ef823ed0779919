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

// An Opener opens the store at a URL. A driver whose stores have to be created has two openers:
// Open, which changes nothing and returns [ErrNoStore] if there is no store, and Create, which
// creates an empty store in that case.
type Opener func(ctx context.Context, u *url.URL) (Store, error)

// A Registry maps URL schemes, in lower case, to the drivers that open them.
// A program builds a Registry of the drivers that it needs:
//
//	storage.Registry{"file": file.Open, "memory": memory.Open}
type Registry map[string]Opener

// Open opens the store at rawURL, such as "file:./data". Errors never contain passwords from the
// URL.
func (r Registry) Open(ctx context.Context, rawURL string) (Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// err is not wrapped: it contains the URL, which may contain a password.
		return nil, errors.New("store URL is invalid: write % / ? # @ within a password, and % elsewhere, as %25 %2F %3F %23 %40")
	}
	open, ok := r[u.Scheme]
	if !ok {
		return nil, fmt.Errorf("open store %q: unknown scheme %q, want one of %s", redacted(u), u.Scheme, r.schemes())
	}
	store, err := open(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", redacted(u), err)
	}
	return store, nil
}

// redacted returns the URL without passwords, including those in query parameters,
// such as libpq's.
func redacted(u *url.URL) string {
	shown := *u
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, "xxxxx")
			shown.RawQuery = query.Encode()
		}
	}
	return shown.Redacted()
}

func (r Registry) schemes() string {
	return strings.Join(slices.Sorted(maps.Keys(r)), ", ")
}
