package replica

import (
	"context"
	"errors"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/storage"
)

// copyDigest copies the newest state digest of a feed, and removes from the target what newer digests
// replaced more than a day ago, as a writer of digests does in the source. A digest that is damaged, or was
// removed meanwhile, is not copied: the next one will replace it.
func (c *Copy) copyDigest(ctx context.Context, name string) error {
	copied, err := digests.Copy(ctx, c.from, c.to, name)
	for _, cause := range []error{storage.ErrNotFound, digests.ErrBase, digests.ErrCorrupt, digest.ErrInvalid, digest.ErrVersion} {
		if errors.Is(err, cause) {
			c.config.Logger.WarnContext(ctx, "state digest cannot be copied", "feed", name, "error", err)
			return nil
		}
	}
	if err == nil && copied {
		_, err = digests.Collect(ctx, c.to, name)
	}
	return err
}
