package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// MediaType is the content type of an index.
const MediaType = "application/json"

// ErrInvalid is matched by the errors of [Parse] and [Decode].
var ErrInvalid = errors.New("snapshot index is invalid")

// Parse decodes an index as served over HTTP. Unlike [Decode], it requires all URLs to
// be absolute.
func Parse(data []byte) (*Index, error) {
	x, err := Decode(data)
	if err != nil {
		return nil, err
	}
	for i, page := range x.Pages {
		if err := checkURL(page); err != nil {
			return nil, fmt.Errorf("%w: pages[%d]: %w", ErrInvalid, i, err)
		}
	}
	if x.Feed != nil {
		if err := checkURL(x.Feed.URL); err != nil {
			return nil, fmt.Errorf("%w: feed.url: %w", ErrInvalid, err)
		}
	}
	return x, nil
}

// Decode decodes an index and checks it against the schema. URLs may be relative.
//
// Properties "feed" and "entities" that do not have the form that this package
// writes are treated as other additional properties and kept in Extra.
func Decode(data []byte) (*Index, error) {
	if err := validate(data); err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var x Index
	var created string
	for name, member := range map[string]any{"id": &x.ID, "createdAt": &created, "pages": &x.Pages} {
		if err := json.Unmarshal(fields[name], member); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, name, err)
		}
	}
	at, err := parseDateTime(created)
	if err != nil {
		return nil, fmt.Errorf("%w: createdAt: %w", ErrInvalid, err)
	}
	x.CreatedAt = feed.Truncate(at)
	if !hasRFC3339(x.CreatedAt) {
		return nil, fmt.Errorf("%w: createdAt: %s is not in the years 0 to 9999 in UTC", ErrInvalid, fields["createdAt"])
	}
	x.Feed = decodeFeed(fields["feed"])
	if err := json.Unmarshal(fields["entities"], &x.Entities); err != nil || x.Entities < 0 {
		x.Entities = 0
	}
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool { return x.has(name) })
	if len(fields) > 0 {
		x.Extra = fields
	}
	return &x, nil
}

// parseDateTime parses a date-time of RFC 3339, in which T and Z may be lower-case
// (section 5.6).
func parseDateTime(text string) (t time.Time, err error) {
	return t, t.UnmarshalText([]byte(strings.ToUpper(text)))
}

// decodeFeed returns nil if data does not have the form of a FeedPosition.
func decodeFeed(data json.RawMessage) *FeedPosition {
	var p FeedPosition
	if err := json.Unmarshal(data, &p); err != nil {
		return nil
	}
	p.LastModified = feed.Milliseconds(p.LastModified)
	if p.URL == "" || p.LastModified.IsZero() || !hasRFC3339(p.LastModified) {
		return nil
	}
	return &p
}

// hasRFC3339 reports whether t can be formatted as RFC 3339.
func hasRFC3339(t time.Time) bool { return 0 <= t.Year() && t.Year() <= 9999 }

// MarshalJSON encodes the index. The specification's properties come first, then
// "feed" and "entities", then Extra sorted by name. Properties in Extra whose names
// are already used are omitted.
func (x *Index) MarshalJSON() ([]byte, error) {
	const milliseconds = "2006-01-02T15:04:05.000Z07:00" // RFC 3339
	created := feed.Truncate(x.CreatedAt)
	if !hasRFC3339(created) {
		return nil, fmt.Errorf("write snapshot index: %w: createdAt %v is not in the years 0 to 9999", ErrInvalid, created)
	}
	pages := x.Pages
	if pages == nil {
		pages = []string{}
	}
	var position *FeedPosition
	if x.Feed != nil {
		p := *x.Feed
		p.LastModified = feed.Milliseconds(p.LastModified)
		position = &p
	}
	own, err := json.Marshal(struct {
		ID        string        `json:"id"`
		CreatedAt string        `json:"createdAt"`
		Pages     []string      `json:"pages"`
		Feed      *FeedPosition `json:"feed,omitempty"`
		Entities  int64         `json:"entities,omitempty"`
	}{x.ID, created.Format(milliseconds), pages, position, x.Entities})
	if err != nil {
		return nil, fmt.Errorf("write snapshot index: %w", err)
	}
	extra := maps.Clone(x.Extra)
	maps.DeleteFunc(extra, func(name string, _ json.RawMessage) bool { return x.has(name) })
	if len(extra) == 0 {
		return own, nil
	}
	rest, err := json.Marshal(extra)
	if err != nil {
		return nil, fmt.Errorf("write additional properties of snapshot index: %w", err)
	}
	return append(append(own[:len(own)-1], ','), rest[1:]...), nil
}

// has reports whether MarshalJSON writes a property of that name from a field other
// than Extra.
func (x *Index) has(name string) bool {
	switch name {
	case "id", "createdAt", "pages":
		return true
	case "feed":
		return x.Feed != nil
	case "entities":
		return x.Entities != 0
	}
	return false
}

// Resolve makes the URLs of the pages and of the feed absolute.
func (x *Index) Resolve(base *url.URL) error {
	for i := range x.Pages {
		if err := resolve(base, &x.Pages[i]); err != nil {
			return fmt.Errorf("%w: pages[%d]: %w", ErrInvalid, i, err)
		}
	}
	if x.Feed == nil {
		return nil
	}
	if err := resolve(base, &x.Feed.URL); err != nil {
		return fmt.Errorf("%w: feed.url: %w", ErrInvalid, err)
	}
	if x.Feed.Page == "" {
		return nil
	}
	if err := resolve(base, &x.Feed.Page); err != nil {
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
