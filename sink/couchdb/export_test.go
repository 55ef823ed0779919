package couchdb

import (
	"context"
	"net/http"
	"strings"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/jsonscan"
)

// OpenImpatient opens a sink that tries each step at most tries times, without pauses.
func OpenImpatient(ctx context.Context, c couchdb.Config, tries int) (*Sink, error) {
	return open(ctx, c, "", retryBudget{tries: tries})
}

// DocID returns the id of the document for a key.
func DocID(key string) string { return docID(key) }

// Form returns how a document holds a body: "attachment", "members" or "both".
func Form(contentType, body string) string {
	f, _ := formOf(jsonscan.NewReader(nil), nil, contentType, []byte(body))
	return [...]string{asAttachment: "attachment", asMembers: "members", asBoth: "both"}[f]
}

// Scan returns the identity of a document.
func Scan(text string) (id, rev string, history, ok bool) {
	r := jsonscan.NewReader(nil)
	found, ok := identify(r, strings.NewReader(text))
	return found.id, found.rev, found.history, ok
}

// OpenPatient opens a sink as [Open] does, whose requests are made by a transport.
func OpenPatient(ctx context.Context, url string, through http.RoundTripper) (*Sink, error) {
	return Open(ctx, couchdb.Config{URL: url, HTTP: &http.Client{Transport: through}}, "")
}
