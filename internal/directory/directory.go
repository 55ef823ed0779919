// Package directory reads the directory of a server: the names and URLs of its feeds and snapshots.
package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/sink"
)

// maxSize is the maximum size of a page of a directory, in bytes.
const maxSize = 4 << 20

// maxNames is the number of names to request from a server at a time.
const maxNames = 1000

// pageTime is how long a server may take for a page of its directory.
const pageTime = 30 * time.Second

// An Entry is a feed that a server lists, or a name that has snapshots.
type Entry struct {
	server.DirectoryEntry
	Snapshot bool
}

// Entries yields the entries that the server at base lists, feeds before snapshots, and both in the order of
// their names, beginning with the first name after the given one. It requests limit names at a time; 0, or
// more than maxNames, leaves the number to the server. Each request takes 30 s at most.
func Entries(ctx context.Context, c consumer.Config, base *url.URL, limit int, after string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for page, err := range pages(ctx, c, base, limit, after) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page.Feeds {
				if !yield(Entry{e, false}, checkName("feed", e)) {
					return
				}
			}
			for _, e := range page.Snapshots {
				if e.Name+"/" > after+"/" && !yield(Entry{e, true}, checkName("snapshot", e)) { // compared in the order of keys
					return
				}
			}
		}
	}
}

func checkName(kind string, e server.DirectoryEntry) error {
	if err := layout.CheckName(e.Name); err != nil {
		return fmt.Errorf("the server lists a %s: %v", kind, err) //nolint:errorlint // not the caller's name
	}
	return nil
}

// pages yields the pages of the directory, beginning after the given name.
func pages(ctx context.Context, c consumer.Config, base *url.URL, limit int, after string) iter.Seq2[*server.Directory, error] {
	return func(yield func(*server.Directory, error) bool) {
		next := base.JoinPath("/")
		query := url.Values{}
		if limit > 0 && limit < maxNames {
			query.Set("limit", strconv.Itoa(limit))
		}
		if after != "" {
			query.Set("after", layout.FeedsPrefix+after)
		}
		next.RawQuery = query.Encode()
		for {
			page, err := readInTime(ctx, c, next)
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(page, nil) || page.Next == "" {
				return
			}
			if next, err = sameOrigin(next, page.Next); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

func readInTime(ctx context.Context, c consumer.Config, target *url.URL) (*server.Directory, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	return Read(ctx, c, target.String())
}

// Read requests a page of a server's directory. It follows no redirects.
func Read(ctx context.Context, c consumer.Config, target string) (*server.Directory, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	request.Header = c.Header.Clone()
	request.Header.Set("Accept", "application/json")
	if field := credential.Authorization(c.Credentials); field != "" {
		request.Header.Set("Authorization", field)
	}
	client := http.Client{Transport: c.HTTPClient.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, &consumer.StatusError{URL: sink.Redact(target), StatusCode: response.StatusCode}
	}
	var d server.Directory
	if err := json.NewDecoder(io.LimitReader(response.Body, maxSize)).Decode(&d); err != nil {
		return nil, fmt.Errorf("%s: the response is not a directory of feeds: %w", sink.Redact(target), err)
	}
	return &d, nil
}

// errPages means that the next page of a directory leads back, and so is not requested.
var errPages = errors.New("its directory never ends")

// sameOrigin returns the URL of the page that follows a given page. The URL must be on the same server,
// since credentials are sent there, and must lead further in the directory.
func sameOrigin(from *url.URL, text string) (*url.URL, error) {
	next, err := from.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the URL of the next page of its directory cannot be parsed: %w", err)
	case !strings.EqualFold(next.Scheme, from.Scheme) || !strings.EqualFold(next.Host, from.Host):
		return nil, fmt.Errorf("%w: the next page of its directory is at %s: is its --public-url right?", consumer.ErrOrigin, sink.Redact(text))
	case !further(from.Query().Get("after"), next.Query().Get("after")):
		return nil, fmt.Errorf("%w: the page after %q follows %q", errPages, from.Query().Get("after"), next.Query().Get("after"))
	}
	return next, nil
}

// further reports whether a directory lists the second entry later than the first. Feeds precede snapshots,
// and both are in the order of their keys.
func further(before, after string) bool { return after != "" && after+"/" > before+"/" }
