package couchdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/couchdb"
)

// away reports whether an error may be about the source as a whole, which others than we
// will mend.
func away(err error) bool {
	var status *couchdb.Error
	if errors.As(err, &status) {
		switch status.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	return unreachable(err)
}

// unreachable reports whether nobody was there to ask.
func unreachable(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

// ofDocument reports whether an error in answer to a request for documents may be about
// these documents, so that others can be had.
func ofDocument(err error) bool {
	var status *couchdb.Error
	switch {
	case tooMany(err): // of who asks
		return false
	case errors.Is(err, couchdb.ErrUnauthorized), errors.Is(err, couchdb.ErrNotFound): // of the database
		return false
	case errors.Is(err, couchdb.ErrMalformed), couchdb.Retryable(err):
		return !unreachable(err)
	}
	return errors.As(err, &status)
}

// tooMany reports whether the source wants to be asked less.
func tooMany(err error) bool {
	var status *couchdb.Error
	return errors.As(err, &status) && status.Status == http.StatusTooManyRequests
}

// A sourceError is what went wrong with a document in the source, rather than on its way
// into the feed.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// insist tries to read a document until it succeeds. What the source does not give in
// several tries, while it gives others, is put into quarantine: then given is false.
func (s *run) insist(ctx context.Context, p bridge.Version, try func() error) (given bool, err error) {
	retry := s.bridge.core.NewRetry()
	for {
		err := try()
		if err == nil {
			return true, nil
		}
		var source *sourceError
		if !errors.As(err, &source) {
			return false, err
		}
		if ctx.Err() == nil && retry.Last(source.err) && ofDocument(source.err) && s.bridge.givesOthers(ctx, p.ID) {
			return false, s.reject(ctx, bridge.Quarantined{ID: p.ID, Rev: p.Rev, Reason: "source gives others, but not this one: " + source.err.Error()})
		}
		if err := retry.Again(ctx, source.err); err != nil {
			return false, fmt.Errorf("read document %q, revision %q: %w", p.ID, p.Rev, err)
		}
		s.bridge.config.Log.Debug("asking for a document again", "id", p.ID, "rev", p.Rev, "error", source.err)
	}
}

// How many others are asked for to find out whether the source gives any, and out of how
// many: the first may be as bad.
const (
	othersAsked  = 3
	othersListed = 10
)

// givesOthers reports whether the source gives any document but one.
func (b *Bridge) givesOthers(ctx context.Context, but string) bool {
	var list struct {
		Rows []struct {
			ID    string
			Value struct{ Rev string }
		}
	}
	q := couchdb.Request{Path: "_all_docs", Query: url.Values{"limit": {strconv.Itoa(othersListed)}}, Once: true}
	if err := b.config.Source.JSON(ctx, q, &list); err != nil {
		return false
	}
	asked := 0
	for _, row := range list.Rows {
		if row.ID == but || row.ID == "" {
			continue
		}
		if asked++; asked > othersAsked {
			break
		}
		for doc, err := range b.config.Source.BulkGet(ctx, []couchdb.IDRev{{ID: row.ID, Rev: row.Value.Rev}}, b.getOptions()) {
			if err == nil && doc.Err == nil {
				_ = doc.Body.Close() // of which nothing is needed
				return true
			}
		}
	}
	return false
}

// fetchOne fetches and publishes one document, or calls gone if the source does not have it.
func (s *run) fetchOne(ctx context.Context, p bridge.Version, contentID string, gone func() error) error {
	b := s.bridge
	_, err := s.insist(ctx, p, func() error {
		for doc, err := range b.config.Source.BulkGet(ctx, []couchdb.IDRev{{ID: p.ID, Rev: p.Rev}}, b.getOptions()) {
			switch {
			case err != nil:
				return &sourceError{err}
			case errors.Is(doc.Err, couchdb.ErrNotFound):
				return gone()
			}
			return s.publishDoc(ctx, p, contentID, doc)
		}
		return &sourceError{fmt.Errorf("%w: the answer is empty", couchdb.ErrMalformed)}
	})
	return err
}
