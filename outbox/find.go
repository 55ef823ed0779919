package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/page"
)

// newestOrNil returns the newest page, nil if the feed has none.
func newestOrNil(ctx context.Context, pages *chain.Reader) (*chain.Page, error) {
	p, err := pages.Newest(ctx)
	if errors.Is(err, chain.ErrNoFeed) {
		return nil, nil
	}
	return p, err
}

// eachOn calls f for the header of each entity on page n, in order.
func eachOn(ctx context.Context, pages *chain.Reader, n int64, f func(page.Header)) error {
	p, object, err := pages.Open(ctx, n, 0, -1)
	if err != nil {
		return err
	}
	defer object.Body.Close()
	parts := page.NewReader(p.Whole(object.Body), p.Boundary, page.ReaderOptions{})
	for part, err := range parts.Parts() {
		if err != nil {
			return fmt.Errorf("read page %d of feed %q: %w", n, p.Feed, err)
		}
		f(part.Header)
	}
	return nil
}
