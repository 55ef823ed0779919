package kinto

import (
	"context"

	"github.com/feedctl/feedctl/kinto"
)

// Empty reports whether the collection has no records.
func (s *Sink) Empty(ctx context.Context) (empty bool, err error) {
	err = s.target.retry(ctx, func(ctx context.Context) error {
		page, err := s.target.to.Head(ctx, kinto.Query{})
		empty = page.Total == 0
		return err
	})
	return empty, err
}
