package couchdb

import (
	"context"

	"github.com/feedctl/feedctl/couchdb"
)

// Empty reports whether the database has neither documents nor tombstones. Local documents, such as
// positions, do not count.
func (s *Sink) Empty(ctx context.Context) (bool, error) {
	var changes struct {
		Results []struct {
			ID string `json:"id"`
		} `json:"results"`
	}
	t := s.target
	err := t.retry(ctx, t.tries, func(ctx context.Context) error {
		return t.db.JSON(ctx, couchdb.Request{Path: "_changes", Query: map[string][]string{"limit": {"1"}}}, &changes)
	})
	return len(changes.Results) == 0, err
}
