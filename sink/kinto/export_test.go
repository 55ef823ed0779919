package kinto

import (
	"context"
	"time"

	"github.com/feedctl/feedctl/kinto"
)

// OpenImpatient opens a sink that makes each request at most tries times, without pauses, and waits
// the given time for late requests.
func OpenImpatient(ctx context.Context, c kinto.Config, name string, tries int, late time.Duration) (*Sink, error) {
	return open(ctx, c, name, retryBudget{tries: tries, late: late})
}

// RecordID returns the id of the record for a key.
func RecordID(key string) string { return recordID(key) }

// Form returns how a record holds a body: "wrapped", "members" or "both".
func Form(contentType, body string) string {
	f := formOf(contentType, []byte(body))
	return [...]string{wrapped: "wrapped", asMembers: "members", asBoth: "both"}[f]
}
