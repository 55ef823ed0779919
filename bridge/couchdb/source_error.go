package couchdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/couchdb"
)

// away reports whether the source as a whole may be unavailable for now.
func away(err error) bool {
	switch couchdb.Status(err) {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case 0:
		return unreachable(err)
	}
	return false
}

// unreachable reports whether no connection could be established.
func unreachable(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

// ofDocument reports whether an error from a request for documents may be about these documents,
// and not about the source as a whole.
func ofDocument(err error) bool {
	switch couchdb.Status(err) {
	case 0:
		return !unreachable(err) && (errors.Is(err, couchdb.ErrMalformed) || couchdb.Retryable(err))
	case http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusNotFound: // about the rate of requests, or the database
		return false
	}
	return true
}

// A sourceError is an error of the source, as opposed to the feed.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// retryRead calls the function try until try has read a document. If try fails several times while
// other documents can be read, the document is put into quarantine, and given is false.
func (s *run) retryRead(ctx context.Context, p bridge.Version, try func() error) (given bool, err error) {
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
		if ctx.Err() == nil && retry.Last(source.err) && ofDocument(source.err) && s.bridge.sourceHealthy(ctx, p.ID) {
			return false, s.reject(ctx, bridge.Quarantined{ID: p.ID, Rev: p.Rev, Reason: "source fails to send this document, but sends others: " + source.err.Error()})
		}
		if err := retry.Again(ctx, source.err); err != nil {
			return false, fmt.Errorf("read document %q, revision %q: %w", p.ID, p.Rev, err)
		}
		s.bridge.config.Log.Debug("requesting document again", "id", p.ID, "rev", p.Rev, "error", source.err)
	}
}

// How many other documents are requested to check whether the source is healthy, and how many
// are listed to choose them from.
const (
	othersAsked  = 3
	othersListed = 10
)

// sourceHealthy reports whether the source sends any document except the one with the given id.
func (b *Bridge) sourceHealthy(ctx context.Context, but string) bool {
	type row struct {
		ID    string
		Value struct{ Rev string }
	}
	var list struct{ Rows []row }
	q := couchdb.Request{Path: "_all_docs", Query: url.Values{"limit": {strconv.Itoa(othersListed)}}, Once: true}
	if err := b.config.Source.JSON(ctx, q, &list); err != nil {
		return false
	}
	list.Rows = slices.DeleteFunc(list.Rows, func(r row) bool { return r.ID == but || r.ID == "" })
	for _, row := range list.Rows[:min(len(list.Rows), othersAsked)] {
		for doc, err := range b.config.Source.BulkGet(ctx, []couchdb.IDRev{{ID: row.ID, Rev: row.Value.Rev}}, b.getOptions()) {
			if err == nil && doc.Err == nil {
				_ = doc.Body.Close() // its content is not needed
				return true
			}
		}
	}
	return false
}

// fetchOne fetches and publishes one document, or calls gone if the source does not have it.
func (s *run) fetchOne(ctx context.Context, p bridge.Version, contentID string, gone func() error) error {
	b := s.bridge
	_, err := s.retryRead(ctx, p, func() error {
		for doc, err := range b.config.Source.BulkGet(ctx, []couchdb.IDRev{{ID: p.ID, Rev: p.Rev}}, b.getOptions()) {
			switch {
			case err != nil:
				return &sourceError{err}
			case errors.Is(doc.Err, couchdb.ErrNotFound):
				return gone()
			}
			return s.publishDoc(ctx, p, contentID, doc)
		}
		return &sourceError{fmt.Errorf("%w: empty response", couchdb.ErrMalformed)}
	})
	return err
}
