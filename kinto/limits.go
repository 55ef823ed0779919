package kinto

import "github.com/feedctl/feedctl/internal/origins"

// Limits limits the rate of requests to each server, for all clients that share the Limits: each status
// 429 or 5xx lengthens the interval between requests, and each success shortens it a little.
// Retry-After and Backoff stop all requests for the given time, but at most for 5 min (Kinto API
// documentation, "Backoff indicators"). The zero Limits is ready for use.
type Limits struct{ limiter origins.Limiter }
