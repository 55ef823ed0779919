package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/sink"
)

// readDirectory requests a page of a server's directory. It follows no redirects.
func readDirectory(ctx context.Context, c consumer.Config, target string) (*server.Directory, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	request.Header = c.Header.Clone()
	request.Header.Set("Accept", "application/json")
	if field := credential.Authorization(c.Credentials); field != "" {
		request.Header.Set("Authorization", field)
	}
	client := http.Client{Transport: c.HTTPClient.Transport, CheckRedirect: noRedirect}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, &consumer.StatusError{URL: sink.Redact(target), StatusCode: response.StatusCode}
	}
	var d server.Directory
	if err := json.NewDecoder(io.LimitReader(response.Body, maxDirectory)).Decode(&d); err != nil {
		return nil, fmt.Errorf("%s: the answer is not a directory of feeds: %w", sink.Redact(target), err)
	}
	return &d, nil
}

// listServer prints what a server lists: pages of its directory, one after the other.
func listServer(ctx context.Context, a *app, rawURL string, f *listFlags) error {
	base, err := parseURL(rawURL)
	if err != nil {
		return err
	}
	config, err := f.client.config(a)
	if err != nil {
		return err
	}
	l := &lister{app: a, left: f.limit}
	next := base.JoinPath("/")
	query := url.Values{}
	if f.limit > 0 && f.limit < maxDirectoryNames {
		query.Set("limit", strconv.Itoa(f.limit))
	}
	if f.after != "" {
		query.Set("after", layout.FeedsPrefix+f.after)
	}
	next.RawQuery = query.Encode()
	for {
		page, err := directoryPage(ctx, config, next)
		if err != nil {
			return fmt.Errorf("list %s: %w", sink.Redact(rawURL), err)
		}
		for _, entry := range page.Feeds {
			if err := l.named("feed", entry); err != nil || l.done {
				return err
			}
		}
		for _, entry := range page.Snapshots {
			if entry.Name+"/" <= f.after+"/" { // the order of keys
				continue
			}
			if err := l.named("snapshot", entry); err != nil || l.done {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		if next, err = sameOrigin(next, page.Next); err != nil {
			return fmt.Errorf("list %s: %w", sink.Redact(rawURL), err)
		}
	}
}

// named prints the line of what a server lists.
func (l *lister) named(kind string, entry server.DirectoryEntry) error {
	if err := layout.CheckName(entry.Name); err != nil {
		return fmt.Errorf("the server lists a %s: %v", kind, err) //nolint:errorlint // not an error of usage
	}
	return l.print(listedJSON{kind, entry.Name, entry.URL}, fmt.Sprintf(listedFormat, "KIND", "NAME", "URL"), func(w io.Writer) error {
		_, err := fmt.Fprintf(w, listedFormat, kind, entry.Name, human.Printable(entry.URL))
		return err
	})
}

// listTime is how long a server may take for a page of its directory.
const listTime = 30 * time.Second

// maxDirectoryNames is how many names a server may be asked for at a time.
const maxDirectoryNames = 1000

// directoryPage requests a page of a directory, for at most listTime.
func directoryPage(ctx context.Context, c consumer.Config, target *url.URL) (*server.Directory, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	return readDirectory(ctx, c, target.String())
}

// errPages is why the next page of a directory is not requested.
var errPages = errors.New("its directory has no end")

// sameOrigin returns the URL of the page of a directory that follows another. It is at the
// server that was named, to which credentials go, and further on.
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

// further reports whether a directory has an entry after another: feeds come before snapshots,
// and both are in the order of their keys.
func further(before, after string) bool { return after != "" && after+"/" > before+"/" }
