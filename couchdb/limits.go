package couchdb

import "github.com/feedctl/feedctl/internal/origins"

// Limits limits the rate of requests to each host for all clients that share it, as CouchDB's own
// replicator does: each status 429 or 5xx lengthens the interval between requests to the host, each
// success shortens it a little. Retry-After stops all requests for that time, but at most for 5 min.
// A host that has never responded with 429 or 5xx has no limit. The zero Limits is ready for use.
//
// Only the rate at which requests begin is limited, not their number: a changes feed that stays
// open for days does not block other requests.
type Limits struct{ limiter origins.Limiter }
