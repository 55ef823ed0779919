package console

import (
	"context"
	"encoding/hex"
	"regexp"
	"strings"
	"time"
)

// uuid7 matches a UUID of version 7 (RFC 9562, section 5.7), which begins with the time at which it was made.
var uuid7 = regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// publishTime is the longest time that a search allows between the making of a Content-ID and the publication of its
// entity.
const publishTime = 5 * time.Minute

// madeAt returns the time of the first UUID of version 7 in a text, or the zero time.
func madeAt(text string) time.Time {
	digits := strings.ReplaceAll(uuid7.FindString(text), "-", "")
	if digits == "" {
		return time.Time{}
	}
	id, _ := hex.DecodeString(digits) // they are hexadecimal
	var ms int64
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms).UTC()
}

// beginAt returns the place at which a search for an entity made at the given time begins.
func (c *Console) beginAt(ctx context.Context, feed string, made time.Time) (place, error) {
	n, err := c.config.Feeds.PageBefore(ctx, feed, made.Add(publishTime))
	return place{Page: n + 1}, err
}
