package kinto

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// A Change says when a collection was last changed.
type Change struct {
	ID         string `json:"id"`
	Stamp      int64  `json:"last_modified"`
	Bucket     string `json:"bucket"`
	Collection string `json:"collection"`
	Host       string `json:"host"`
}

// A Changeset lists collections that have changed.
type Changeset struct {
	Stamp   int64    `json:"timestamp"` // the newest of the changes' stamps; 0 if there is none
	Changes []Change `json:"changes"`
}

// Changes returns the collections of the server that have changed after a stamp, or all of them if
// since is 0: the changeset of monitor/changes that Remote Settings serves (its documentation, "Poll
// for changes"). The argument expected is the newest stamp that the caller knows, or 0; caches use it.
// The server may also return other collections. The error matches [ErrUnsupported] if the server has no
// such changeset, or refuses to return it.
func (s *Server) Changes(ctx context.Context, expected, since int64) (Changeset, error) {
	q := Request{Path: "/buckets/monitor/collections/changes/changeset", Query: url.Values{"_expected": {strconv.FormatInt(expected, 10)}}}
	if since != 0 {
		q.Query.Set("_since", ETag(since))
	}
	var set Changeset
	_, err := s.JSON(ctx, q, &set)
	switch status := Status(err); {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrUnauthorized), errors.Is(err, ErrForbidden), status == http.StatusMethodNotAllowed:
		return set, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return set, err
}
