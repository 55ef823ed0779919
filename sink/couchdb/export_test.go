package couchdb

import (
	"context"
	"strings"

	"github.com/feedctl/feedctl/couchdb"
)

// OpenImpatient opens a sink that tries each step so often, without pauses.
func OpenImpatient(ctx context.Context, c couchdb.Config, tries int) (*Sink, error) {
	return open(ctx, c, "", patience{tries: tries})
}

// DocID is how a key is mapped.
func DocID(key string) string { return docID(key) }

// Form returns how a document holds a body: "attachment", "members" or "both".
func Form(contentType, body string) string {
	f, _ := formOf(nil, contentType, []byte(body))
	return [...]string{asAttachment: "attachment", asMembers: "members", asBoth: "both"}[f]
}

// Scan returns what a document says of itself.
func Scan(text string) (id, rev string, history, ok bool) {
	var s scanner
	found, ok := s.scan(strings.NewReader(text))
	return found.id, found.rev, found.history, ok
}
