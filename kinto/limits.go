package kinto

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/origins"
)

// Limits limits the rate of requests to each server for all clients that share it: each status 429
// or 5xx lengthens the interval between requests, each success shortens it a little. Retry-After
// and Backoff stop all requests for that time, but at most for 5 min (Kinto API documentation,
// "Backoff indicators"). The zero Limits is ready for use.
type Limits struct{ limiter origins.Limiter }

const maxRetryAfter = 5 * time.Minute

// end notes the response to a request.
func (l *Limits) end(turn *origins.Turn, origin string, resp *http.Response) {
	wait := backoff.RetryAfter(resp.Header)
	if seconds, err := strconv.Atoi(strings.TrimSpace(resp.Header.Get("Backoff"))); err == nil && seconds > 0 {
		wait = max(wait, time.Duration(min(seconds, 3600))*time.Second)
	}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError {
		turn.Refused()
	} else {
		turn.Succeeded()
	}
	if wait > 0 {
		l.limiter.Block(origin, min(wait, maxRetryAfter))
	}
}
