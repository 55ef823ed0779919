package outbox

import (
	"context"
	"errors"

	"github.com/feedctl/feedctl/chain"
)

// newestOrNil returns the newest page, or nil if the feed has none.
func newestOrNil(ctx context.Context, pages *chain.Reader) (*chain.Page, error) {
	p, err := pages.Newest(ctx)
	if errors.Is(err, chain.ErrNoFeed) {
		return nil, nil
	}
	return p, err
}
