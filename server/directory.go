package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/represent"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot/snapshots"
)

// maxListed is the maximum and default number of names on a page of the directory.
const maxListed = 1000

// A Directory is a page of the names of feeds and snapshots: the JSON at "/". Feeds
// come before snapshots, in the order of [chain.Feeds].
type Directory struct {
	Feeds     []DirectoryEntry `json:"feeds"`
	Snapshots []DirectoryEntry `json:"snapshots"`
	// Truncated reports that there are more, at the URL Next.
	Truncated bool   `json:"truncated,omitempty"`
	Next      string `json:"next,omitempty"`
}

// A DirectoryEntry is a feed or a snapshot.
type DirectoryEntry struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

const directoryTemplate = `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Feeds</title></head>
<body>
<h1>Feeds</h1>
<ul>
{{range .Feeds}}<li><a href="{{.URL}}">{{.Name}}</a></li>
{{end}}</ul>
<h1>Snapshots</h1>
<ul>
{{range .Snapshots}}<li><a href="{{.URL}}">{{.Name}}</a></li>
{{end}}</ul>
{{if .Next}}<p><a href="{{.Next}}" rel="next">More</a></p>
{{end}}</body>
</html>
`

// getDirectory answers "/". In the query, "limit" is the maximum number of names, and
// "after" is where to continue: "feeds/NAME" or "snapshots/NAME".
func (s *Server) getDirectory(w *responder, r *http.Request) error {
	if s.config.NoListing {
		return problem.New(http.StatusNotFound, "no-listing", "this server does not list its feeds")
	}
	after, limit, err := directoryQuery(r.URL.Query())
	if err != nil {
		return problem.New(http.StatusBadRequest, "invalid-request", "%v", err)
	}
	d, err := s.listDirectory(r.Context(), s.base(r), after, limit)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	h := w.Header()
	if represent.PrefersHTML(r.Header.Values("Accept")) {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		err = s.directory.Execute(&body, d)
	} else {
		h.Set("Content-Type", "application/json")
		err = json.NewEncoder(&body).Encode(d)
	}
	if err != nil {
		return fmt.Errorf("write directory: %w", err)
	}
	if d.Next != "" {
		h.Set("Link", "<"+d.Next+`>; rel="next"`)
	}
	h.Set("Vary", "Accept")
	h.Set("Cache-Control", s.sender.CacheControl(&represent.Representation{Hosted: s.publicURL == ""}))
	_, err = w.Write(body.Bytes())
	return err
}

// A directoryPosition is a position in the directory: after a feed, or after a snapshot
// and all feeds.
type directoryPosition struct{ feed, snapshot string }

// directoryQuery parses the query of a directory.
func directoryQuery(query url.Values) (after directoryPosition, limit int, err error) {
	limit = maxListed
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxListed {
			return after, 0, fmt.Errorf("invalid limit %.20q: must be between 1 and %d", text, maxListed)
		}
	}
	text := query.Get("after")
	if text == "" {
		return after, limit, nil
	}
	name, ok := strings.CutPrefix(text, layout.FeedsPrefix)
	if ok {
		after.feed = name
	} else if name, ok = strings.CutPrefix(text, layout.SnapshotsPrefix); ok {
		after.snapshot = name
	}
	if layout.CheckName(name) != nil || !ok {
		return after, 0, fmt.Errorf("invalid after %.120q: must be feeds/NAME or snapshots/NAME", text)
	}
	return after, limit, nil
}

// listDirectory reads one page of the directory.
func (s *Server) listDirectory(ctx context.Context, base string, after directoryPosition, limit int) (*Directory, error) {
	d := &Directory{Feeds: []DirectoryEntry{}, Snapshots: []DirectoryEntry{}} // [] in JSON, not null
	last := ""
	// list adds names until the limit is reached.
	list := func(entries *[]DirectoryEntry, names iter.Seq2[string, error], prefix string, path func(string) string) error {
		for name, err := range names {
			if err != nil {
				return fmt.Errorf("list names: %w", err)
			}
			if len(d.Feeds)+len(d.Snapshots) == limit {
				d.Truncated = true
				d.Next = base + "/?" + url.Values{"after": {last}, "limit": {strconv.Itoa(limit)}}.Encode()
				return nil
			}
			*entries = append(*entries, DirectoryEntry{Name: name, URL: base + path(name)})
			last = prefix + name
		}
		return nil
	}
	if after.snapshot == "" {
		if err := list(&d.Feeds, chain.Feeds(ctx, s.store, after.feed), layout.FeedsPrefix, layout.FeedPath); err != nil {
			return nil, err
		}
	}
	if !d.Truncated {
		if err := list(&d.Snapshots, snapshots.Names(ctx, s.store, after.snapshot), layout.SnapshotsPrefix, layout.SnapshotPath); err != nil {
			return nil, err
		}
	}
	return d, nil
}
