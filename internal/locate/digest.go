package locate

import (
	"context"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/digest"
)

// Digest returns the newest state digest of the feed. The client must have the location's Config. The
// error matches [consumer.ErrNoDigest] if there is none.
func (l *Location) Digest(ctx context.Context, client *consumer.Client) (*digest.Reader, error) {
	if l.source != nil {
		return l.source.Digest(ctx, l.Name)
	}
	return client.Digest(ctx, l.URL)
}
