package snapshot

import (
	"fmt"
	"net/url"
)

// Resolve makes the URLs of the position absolute.
func (p *FeedPosition) Resolve(base *url.URL) error {
	if err := resolve(base, &p.URL); err != nil {
		return fmt.Errorf("%w: feed.url: %w", ErrInvalid, err)
	}
	if p.Page == "" {
		return nil
	}
	if err := resolve(base, &p.Page); err != nil {
		return fmt.Errorf("%w: feed.page: %w", ErrInvalid, err)
	}
	return nil
}

func resolve(base *url.URL, reference *string) error {
	u, err := url.Parse(*reference)
	if err != nil {
		return err
	}
	*reference = base.ResolveReference(u).String()
	return checkURL(*reference)
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is not an absolute HTTP URL", text)
	}
	return nil
}
