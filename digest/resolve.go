package digest

import (
	"fmt"
	"net/url"
)

// Resolve makes the URLs of the root absolute; base is the URL of the root. The error matches
// [ErrInvalid].
func (r *Root) Resolve(base *url.URL) error {
	if err := r.Feed.Resolve(base); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if r.Snapshot == "" {
		return nil
	}
	u, err := url.Parse(r.Snapshot)
	if err != nil {
		return fmt.Errorf("%w: snapshot: %w", ErrInvalid, err)
	}
	r.Snapshot = base.ResolveReference(u).String()
	return nil
}
