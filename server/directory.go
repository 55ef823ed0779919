package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
)

// maxListed is how many feeds, and how many snapshots, the directory names.
const maxListed = 1000

// A Directory is the answer at "/", as JSON: the first 1,000 feeds and the first
// 1,000 snapshots. Truncated says that there are more.
type Directory struct {
	Feeds     []DirectoryEntry `json:"feeds"`
	Snapshots []DirectoryEntry `json:"snapshots"`
	Truncated bool             `json:"truncated,omitempty"`
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
{{if .Truncated}}<p>There are more.</p>
{{end}}</body>
</html>
`

// getDirectory answers "/".
func (s *Server) getDirectory(w *responder, r *http.Request) error {
	var d Directory
	var cut [2]bool
	var err error
	base := s.base(r)
	if d.Feeds, cut[0], err = listed(chain.Feeds(r.Context(), s.store, ""), base, layout.FeedPath); err != nil {
		return err
	}
	if d.Snapshots, cut[1], err = listed(chain.Snapshots(r.Context(), s.store, ""), base, layout.SnapshotPath); err != nil {
		return err
	}
	d.Truncated = cut[0] || cut[1]
	var body bytes.Buffer
	h := w.Header()
	if prefersHTML(r.Header.Values("Accept")) {
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
	h.Set("Vary", "Accept")
	h.Set("Cache-Control", s.cacheControl(false))
	_, err = w.Write(body.Bytes())
	return err
}

// listed returns the first entries; cut says that there are more.
func listed(names iter.Seq2[string, error], base string, path func(string) string) (entries []DirectoryEntry, cut bool, err error) {
	entries = []DirectoryEntry{} // [] in JSON, not null
	for name, err := range names {
		if err != nil {
			return nil, false, fmt.Errorf("list names: %w", err)
		}
		if len(entries) == maxListed {
			return entries, true, nil
		}
		entries = append(entries, DirectoryEntry{Name: name, URL: base + path(name)})
	}
	return entries, false, nil
}
