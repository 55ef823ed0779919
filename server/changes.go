package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/layout"
)

// A ChangedFeeds is a list of feeds that have changed: the JSON at "/changes".
type ChangedFeeds struct {
	Feeds []ChangedFeed `json:"feeds"`
	// Token says where the next request continues.
	Token string `json:"token"`
	// Complete means that each feed that exists has been in a list since the client began without a
	// token.
	Complete bool `json:"complete"`
}

// A ChangedFeed is a feed that has changed.
type ChangedFeed struct {
	Name string `json:"name"`
	// Version is opaque. It differs whenever the newest page does, and is empty if the feed was
	// deleted.
	Version string `json:"version"`
}

// getChanges answers "/changes". In the query, "since" is a token, "prefix" is the beginning of the
// names, and "limit" is the maximum number of names.
func (s *Server) getChanges(w *responder, r *http.Request) error {
	if s.config.NoListing {
		return problem.New(http.StatusNotFound, "no-listing", "this server does not list its feeds")
	}
	q, err := parseChangesQuery(r.URL.Query())
	if err != nil {
		return problem.New(http.StatusBadRequest, "invalid-request", "%v", err)
	}
	wait := preferredWait(r.Header.Values("Prefer"), s.config.MaxWait)
	c, err := s.reader.Changes(r.Context(), q.since, q.prefix, q.limit, wait)
	if err != nil {
		return err
	}
	list := ChangedFeeds{Feeds: make([]ChangedFeed, len(c.Feeds)), Token: c.Token, Complete: c.Complete}
	for n, f := range c.Feeds {
		list.Feeds[n] = ChangedFeed(f)
	}
	body, err := json.Marshal(&list)
	if err != nil {
		return fmt.Errorf("write changes: %w", err)
	}
	if c.Waited {
		w.waited = true
		w.Header().Set("Preference-Applied", fmt.Sprintf("wait=%d", int(wait/time.Second)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, err = w.Write(append(body, '\n'))
	return err
}

// A changesQuery is the query of "/changes".
type changesQuery struct {
	since, prefix string
	limit         int
}

func parseChangesQuery(query url.Values) (changesQuery, error) {
	q := changesQuery{since: query.Get("since"), prefix: query.Get("prefix"), limit: maxListed}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxListed {
			return q, fmt.Errorf("invalid limit %.20q: must be between 1 and %d", text, maxListed)
		}
		q.limit = n
	}
	if q.prefix != "" && layout.CheckName(q.prefix) != nil {
		return q, fmt.Errorf("invalid prefix %.120q: no name begins with it", q.prefix)
	}
	return q, nil
}
