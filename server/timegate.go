package server

import (
	"context"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/layout"
)

// searchTimeout limits how long the search for the page of a time may take. A search makes several requests
// to the store, one after the other.
const searchTimeout = 4 * storeTimeout

// getAt answers /feeds/{feed}/at, the timegate of a feed (RFC 7089, section 4.2.1): it leads to the
// page from which the specification's algorithm walks forward to reach the time in Accept-Datetime.
// A request without that field is refused: in RFC 7089 it asks for the present, but here a proxy
// must have dropped the field, and the newest page would be of no use.
func (s *Server) getAt(w *responder, r *http.Request) error {
	w.Header().Set("Vary", "Accept-Datetime")
	t, err := acceptedTime(r.Header.Values("Accept-Datetime"))
	if err != nil {
		return err
	}
	f, err := s.feed(r.PathValue("feed"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), searchTimeout)
	defer cancel()
	n, err := s.reader.PageBefore(ctx, f.Name(), t)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Location", s.base(r)+layout.FeedPagePath(f.Name(), n))
	h.Set("Link", "<"+s.base(r)+layout.FeedPath(f.Name())+`>; rel="original"`)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", "0")
	w.WriteHeader(http.StatusFound)
	return nil
}

// acceptedTime parses Accept-Datetime.
func acceptedTime(values []string) (time.Time, error) {
	const want = `send one field such as "Accept-Datetime: Mon, 27 Nov 2023 03:10:00 GMT"`
	if len(values) != 1 {
		return time.Time{}, problem.New(http.StatusBadRequest, "invalid-request", "the request has %d Accept-Datetime fields: %s", len(values), want)
	}
	t, err := feed.ParseTime(values[0])
	if err != nil {
		return time.Time{}, problem.New(http.StatusBadRequest, "invalid-request", "Accept-Datetime %.100q is not an HTTP date: %s", values[0], want)
	}
	return t, nil
}
