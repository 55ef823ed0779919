package console

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/shell"
	multipart "github.com/feedctl/feedctl/page"
)

// maxSearch limits the text of a search, in bytes.
const maxSearch = 1 << 10

// A searchView is the page of a search.
type searchView struct {
	page
	scanView
	Feed, Query string
	// Feeds are the feeds whose names contain the text, if no feed was given, and MoreFeeds is the URL of a list with
	// more of them.
	Feeds     []string
	MoreFeeds string
	// Page is the page whose number is the text, or 0 if there is none.
	Page int64
	// At is the time that the text denotes, and AtEntity is the first entity that is not older than that.
	At       time.Time
	AtEntity *hit
	// Indexed is the last PUT whose key is the text, according to the state digest of the time IndexedAt.
	Indexed   *hit
	IndexedAt time.Time
	// Made is the time contained in the Content-ID that is searched for; the search began near it. Made is zero if
	// there is no such time. Newest is the URL of the same search beginning at the newest entity.
	Made   time.Time
	Newest string
	// AsText is the URL of a search for the text itself, if the text was understood as a time.
	AsText string
}

// getSearch answers requests for "/search". The query contains the name of a feed, which may be empty, the text q, and
// the place at which to begin.
func (c *Console) getSearch(r *http.Request) (content, error) {
	query := r.URL.Query()
	v := &searchView{page: page{Title: "Search"}}
	var err error
	if v.Feed, err = feedParameter(r); err != nil {
		return nil, err
	}
	v.Query = strings.TrimSpace(strings.ToValidUTF8(query.Get("q"), "\ufffd"))
	switch {
	case len(v.Query) > maxSearch:
		return nil, problem.New(http.StatusBadRequest, "query", "The text to search for has more than %d bytes.", maxSearch)
	case v.Query == "":
		return v, nil
	case v.Feed == "":
		return v, c.searchNames(r.Context(), v)
	}
	begin := parsePlace(query.Get("before"))
	if err := c.searchPlaces(r.Context(), v, begin); err != nil {
		return nil, err
	}
	here := "search?feed=" + url.QueryEscape(v.Feed) + "&q=" + url.QueryEscape(v.Query)
	if !v.At.IsZero() && query.Get("as") != asText {
		v.AsText = here + "&as=" + asText
		return v, nil
	}
	if v.Made = madeAt(v.Query); query.Get("before") != "" {
		v.Made = time.Time{}
	}
	if !v.Made.IsZero() {
		v.Newest = here + "&as=" + asText + "&before=newest"
		if begin, err = c.beginAt(r.Context(), v.Feed, v.Made); err != nil {
			return nil, err
		}
	}
	v.scanView = scanView{Scan: &scan{match: matcher(v.Query)}, None: "No entity on these pages has this text."}
	if err := c.scanFrom(r.Context(), v.Feed, begin, v.Scan); err != nil {
		return nil, err
	}
	if v.Scan.Next != nil {
		v.Next = here + "&as=" + asText + "&before=" + v.Scan.Next.String()
	}
	if typeable(v.Query) {
		v.Command = shell.Line("feedctl", "tail", v.Feed, "--store", c.config.StoreName, "--from", "beginning", "--follow=false", "--json") +
			" | " + shell.Line("grep", "-i", "-F", "-e", v.Query)
	}
	return v, nil
}

// searchNames finds feeds by name.
func (c *Console) searchNames(ctx context.Context, v *searchView) error {
	names, last, err := c.findFeeds(ctx, v.Query, "")
	if v.Feeds = names; last != "" {
		v.MoreFeeds = feedsURL(v.Query, last)
	}
	return err
}

// searchPlaces finds what can be found without a scan: a page by its number, an entity by time and, if there is a
// state digest, an entity by key.
func (c *Console) searchPlaces(ctx context.Context, v *searchView, begin place) error {
	_, newest, floor, err := c.config.Feeds.Look(ctx, v.Feed)
	if err != nil {
		return err
	}
	if begin != (place{}) {
		return nil // the first page of results has shown these
	}
	if n, err := strconv.ParseInt(v.Query, 10, 64); err == nil && floor <= n && n <= newest.Number {
		v.Page = n
	}
	if t, ok := parseMoment(v.Query); ok {
		v.At = t
		v.AtEntity, err = c.entityAt(ctx, v.Feed, t)
		return err
	}
	v.Indexed, v.IndexedAt, err = c.entityOf(ctx, v.Feed, v.Query)
	if err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "cannot search for a key in the state digest", "feed", v.Feed, "error", err)
		err = nil // the scan finds it
	}
	return err
}

// parseMoment parses a time in one of the forms that people use. It is in UTC unless the text says otherwise.
func parseMoment(text string) (time.Time, bool) {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil {
			return t, true
		}
	}
	t, err := feed.ParseTime(text)
	return t, err == nil
}

// entityAt returns the first entity of a feed that is not older than t, or nil.
func (c *Console) entityAt(ctx context.Context, name string, t time.Time) (*hit, error) {
	n, err := c.config.Feeds.PageBefore(ctx, name, t)
	for ; err == nil; n++ { // this page or, if all of it is older, the next one
		var first *hit
		if first, err = c.firstFrom(ctx, name, n, feed.Truncate(t)); first != nil {
			return first, nil
		}
		err = ignore(err, chain.ErrPruned)
	}
	return nil, ignore(err, chain.ErrNoPage)
}

// firstFrom returns the first entity of page n that is not older than t, or nil.
func (c *Console) firstFrom(ctx context.Context, name string, n int64, t time.Time) (*hit, error) {
	o, err := c.openPage(ctx, name, n)
	if err != nil {
		return nil, err
	}
	defer o.close()
	for part, err := range o.parts() {
		if err != nil {
			return nil, err
		}
		if row := o.row(part); !row.Time.Before(t) {
			return &hit{entityRow: row}, nil
		}
	}
	return nil, nil
}

// matcher returns a function that searches a header for a text, ignoring case: in the Content-ID, in the key, and in
// fields that feedctl does not know. The function reports whether it found the text, and returns the name of the
// field, or "" for the Content-ID and the key.
func matcher(text string) func(multipart.Header) (string, bool) {
	want, lower := []byte(strings.ToLower(text)), []byte(nil)
	has := func(value []byte) bool {
		lower = appendLower(lower[:0], value)
		return bytes.Contains(lower, want)
	}
	return func(h multipart.Header) (string, bool) {
		for _, f := range h {
			switch name := strings.ToLower(string(f.Name)); name {
			case "last-modified", "content-length", "operation-type", "content-type":
			case "content-id":
				if has(f.Value) {
					return "", true
				}
			case "content-location":
				if has(f.Value) || bytes.IndexByte(f.Value, '%') >= 0 && has([]byte(keyOf(h))) {
					return "", true
				}
			default:
				if has(f.Value) {
					return string(f.Name), true
				}
			}
		}
		return "", false
	}
}

// appendLower appends text to dst in lower case.
func appendLower(dst, text []byte) []byte {
	for i, c := range text {
		if c >= utf8.RuneSelf {
			return append(dst, bytes.ToLower(text[i:])...)
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
