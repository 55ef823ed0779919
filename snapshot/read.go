package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonscan"
)

// MediaType is the content type of an index.
const MediaType = "application/json"

// ErrInvalid is matched by the errors of invalid indexes.
var ErrInvalid = errors.New("snapshot index is invalid")

// maxMembers is the maximum size, in bytes, of an index without its pages, and of the URL of each
// page.
const maxMembers = 1 << 20

// Parse reads an index as served over HTTP, in which all URLs are absolute. The error matches
// [ErrInvalid] or comes from r.
func Parse(r io.Reader) (*Index, error) {
	pages := []string{}
	x, err := Read(r, func(url string) error {
		if err := checkURL(url); err != nil {
			return fmt.Errorf("%w: pages[%d]: %w", ErrInvalid, len(pages), err)
		}
		pages = append(pages, url)
		return nil
	})
	if err != nil {
		return nil, err
	}
	x.Pages = pages
	if x.Feed != nil {
		if err := checkURL(x.Feed.URL); err != nil {
			return nil, fmt.Errorf("%w: feed.url: %w", ErrInvalid, err)
		}
	}
	return x, nil
}

// Read reads an index in bounded memory. It calls page for the URL of each page, which may be
// relative; Pages of the result is empty. The error matches [ErrInvalid], or comes from r or page.
//
// An index that the specification's JSON schema rejects is invalid. If the properties "feed" and
// "entities" do not have the form that this package writes, they are kept in Extra, like other
// additional properties.
func Read(r io.Reader, page func(url string) error) (*Index, error) {
	source := &errorReader{src: r}
	members, err := readMembers(source, page)
	var refused pageError
	switch {
	case source.err != nil:
		return nil, fmt.Errorf("read snapshot index: %w", source.err)
	case errors.As(err, &refused):
		return nil, refused.error
	}
	var x *Index
	if err == nil {
		x, err = decodeMembers(members)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return x, nil
}

// A pageError is an error of the function that Read calls for each page.
type pageError struct{ error }

// readMembers returns the properties of an index other than "pages", and calls page for each
// element of "pages".
func readMembers(r io.Reader, page func(url string) error) (map[string]json.RawMessage, error) {
	s, members := jsonscan.NewReader(r), make(map[string]json.RawMessage)
	size, listed := 0, false
	err := s.Object(func(quoted []byte) error {
		var name string
		if err := json.Unmarshal(quoted, &name); err != nil {
			return err
		}
		if name != "pages" {
			value, whole, err := s.Value(max(maxMembers-size, 0))
			if err == nil && !whole {
				err = fmt.Errorf("more than %d bytes without its pages", maxMembers)
			}
			members[name] = bytes.Clone(value)
			size += len(name) + len(value)
			return err
		}
		if listed {
			return errors.New("two properties are named pages")
		}
		listed = true
		return readPages(s, page)
	})
	if err != nil {
		return nil, err
	}
	if _, end := s.Peek(); end != io.EOF {
		return nil, errors.New("trailing data")
	}
	if !listed {
		return nil, errors.New("pages is missing")
	}
	return members, nil
}

func readPages(s *jsonscan.Reader, page func(url string) error) error {
	n := 0
	return s.Array(func() error {
		value, whole, err := s.Value(maxMembers)
		if err == nil && !whole {
			err = fmt.Errorf("pages[%d] has more than %d bytes", n, maxMembers)
		}
		var url string
		if err == nil {
			err = decodeString(value, &url)
		}
		if err != nil {
			return fmt.Errorf("pages[%d]: %w", n, err)
		}
		n++
		if err := page(url); err != nil {
			return pageError{err}
		}
		return nil
	})
}

func decodeMembers(members map[string]json.RawMessage) (*Index, error) {
	var x Index
	var created string
	if err := decodeString(members["id"], &x.ID); err != nil {
		return nil, fmt.Errorf("id: %w", err)
	}
	if err := decodeString(members["createdAt"], &created); err != nil {
		return nil, fmt.Errorf("createdAt: %w", err)
	}
	at, err := parseDateTime(created)
	if err != nil {
		return nil, fmt.Errorf("createdAt: %w", err)
	}
	x.CreatedAt = feed.Truncate(at)
	if !hasRFC3339(x.CreatedAt) {
		return nil, fmt.Errorf("createdAt: %s is not in the years 0 to 9999 in UTC", created)
	}
	x.Feed = decodeFeed(members["feed"])
	if err := json.Unmarshal(members["entities"], &x.Entities); err != nil || x.Entities < 0 {
		x.Entities = 0
	}
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return x.has(name) })
	if len(members) > 0 {
		x.Extra = members
	}
	return &x, nil
}

// decodeString decodes a JSON string.
func decodeString(value []byte, text *string) error {
	switch {
	case len(value) == 0:
		return errors.New("missing")
	case value[0] != '"':
		return errors.New("not a string")
	}
	return json.Unmarshal(value, text)
}

// parseDateTime parses a date-time of RFC 3339, in which T and Z may be lower-case
// (section 5.6).
func parseDateTime(text string) (t time.Time, err error) {
	return t, t.UnmarshalText([]byte(strings.ToUpper(text)))
}

// decodeFeed decodes a FeedPosition. It returns nil if data does not have that form.
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

// An errorReader reads from src and records its error.
type errorReader struct {
	src io.Reader
	err error
}

func (f *errorReader) Read(p []byte) (int, error) {
	n, err := f.src.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}
