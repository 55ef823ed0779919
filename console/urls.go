package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/layout"
)

// URLs of pages are relative, since all pages are in one directory.

// feedURL returns the URL of the page of a feed.
func feedURL(name string) string { return rangeURL(name, "") }

// rangeURL returns the URL of the page of a feed with a range of its chart.
func rangeURL(name, span string) string {
	query := url.Values{"name": {name}}
	if span != "" {
		query.Set("range", span)
	}
	return "feed?" + query.Encode()
}

// pageURL returns the URL of a page of a feed.
func pageURL(feed string, n int64) string {
	return "page?" + url.Values{"feed": {feed}, "n": {strconv.FormatInt(n, 10)}}.Encode()
}

// parameter returns a number from the query of a request. Its minimum is least, which is also the
// default.
func parameter(r *http.Request, name string, least int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return least, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least {
		return 0, badRequest("The %s %.40q is not a number of at least %d.", name, text, least)
	}
	return n, nil
}

// maxQuery is the maximum length, in bytes, of a text by which a list is filtered.
const maxQuery = 200

// searched returns the text q of a query, by which a list is filtered.
func searched(r *http.Request) (string, error) {
	text := strings.ToValidUTF8(r.URL.Query().Get("q"), "\ufffd")
	if len(text) > maxQuery {
		return "", badRequest("The text to search for is longer than %d bytes.", maxQuery)
	}
	return text, nil
}

// feedParameter returns the name of a feed from a query; the name may be empty.
func feedParameter(r *http.Request) (string, error) {
	name := strings.TrimSpace(r.URL.Query().Get("feed"))
	if name == "" {
		return "", nil
	}
	return name, layout.CheckName(name)
}

// badRequest returns the error for an invalid request.
func badRequest(format string, args ...any) error {
	return problem.New(http.StatusBadRequest, "invalid-request", format, args...)
}
