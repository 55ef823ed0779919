package snapshot

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/feedctl/feedctl/feed"
)

// MarshalJSON encodes the index. The specification's properties come first, then
// "feed" and "entities", then Extra sorted by name. Properties in Extra whose names
// are already used are omitted.
func (x *Index) MarshalJSON() ([]byte, error) {
	head, tail, err := x.Frame()
	if err != nil {
		return nil, err
	}
	pages, err := json.Marshal(x.Pages)
	if err != nil {
		return nil, fmt.Errorf("write snapshot index: %w", err)
	}
	if len(x.Pages) > 0 {
		head = append(head, pages[1:len(pages)-1]...)
	}
	return append(head, tail...), nil
}

// Frame returns what precedes and what follows the elements of "pages" in the JSON of the index.
// With Frame, an index of any size can be written in pieces.
func (x *Index) Frame() (head, tail []byte, err error) {
	const milliseconds = "2006-01-02T15:04:05.000Z07:00" // RFC 3339
	created := feed.Truncate(x.CreatedAt)
	if !hasRFC3339(created) {
		return nil, nil, fmt.Errorf("write snapshot index: %w: createdAt %v is not in the years 0 to 9999", ErrInvalid, created)
	}
	head, err = json.Marshal(struct {
		ID        string `json:"id"`
		CreatedAt string `json:"createdAt"`
	}{x.ID, created.Format(milliseconds)})
	if err != nil {
		return nil, nil, fmt.Errorf("write snapshot index: %w", err)
	}
	var position *FeedPosition
	if x.Feed != nil {
		p := *x.Feed
		p.LastModified = feed.Milliseconds(p.LastModified)
		position = &p
	}
	extra := maps.Clone(x.Extra)
	maps.DeleteFunc(extra, func(name string, _ json.RawMessage) bool { return x.has(name) })
	tail = []byte("]")
	for _, members := range []any{
		struct {
			Feed     *FeedPosition `json:"feed,omitempty"`
			Entities int64         `json:"entities,omitempty"`
		}{position, x.Entities},
		extra,
	} {
		object, err := json.Marshal(members)
		if err != nil {
			return nil, nil, fmt.Errorf("write additional properties of snapshot index: %w", err)
		}
		if len(object) > len("{}") && object[0] == '{' { // not null
			tail = append(append(tail, ','), object[1:len(object)-1]...)
		}
	}
	return append(head[:len(head)-1], `,"pages":[`...), append(tail, '}'), nil
}

// has reports whether MarshalJSON writes a property with the given name from a field other than
// Extra.
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
