package layout

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// ParseFeedPageURL returns the feed and the page number in the URL of a page, whose
// path must end in the result of [FeedPagePath].
func ParseFeedPageURL(ref string) (feed string, n int64, err error) {
	u, err := url.Parse(ref)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", ErrName, err)
	}
	segments := strings.Split(u.Path, "/")
	if len(segments) >= 4 {
		last := segments[len(segments)-4:]
		n, err = strconv.ParseInt(last[3], 10, 64)
		if err == nil && n > 0 && CheckName(last[1]) == nil && strings.Join(last, "/") == FeedPagePath(last[1], n)[1:] {
			return last[1], n, nil
		}
	}
	return "", 0, fmt.Errorf("%w: %q is not the URL of a page of a feed", ErrName, ref)
}
