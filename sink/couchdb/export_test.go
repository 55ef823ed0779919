package couchdb

import (
	"context"
	"errors"
	"net/http"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/jsonscan"
)

// OpenImpatient opens a sink that tries each step at most tries times, without delays.
func OpenImpatient(ctx context.Context, c couchdb.Config, tries int) (*Sink, error) {
	db, err := couchdb.Open(c)
	if err != nil {
		return nil, err
	}
	s, err := newSink(db, "", retryBudget{tries: tries})
	if err != nil {
		return nil, err
	}
	if _, err := s.Position(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// DocID returns the id of the document for a key.
func DocID(key string) string { return docID(key) }

// Form returns how a document holds a body: "attachment", "members" or "both".
func Form(contentType, body string) string {
	f, _ := formOf(jsonscan.NewReader(nil), nil, contentType, []byte(body))
	return [...]string{asAttachment: "attachment", asMembers: "members", asBoth: "both"}[f]
}

// OpenPatient opens a sink as [Open] does; a transport makes its requests.
func OpenPatient(ctx context.Context, url string, through http.RoundTripper) (*Sink, error) {
	return Open(ctx, couchdb.Config{URL: url, HTTP: &http.Client{Transport: through}}, "")
}

// Impatient makes a reader retry without delays.
func (c *Contents) Impatient() { c.target.pauses = backoff.Backoff{} }
