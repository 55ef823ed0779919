package s3fault

import (
	"net/http"
	"time"
)

// Delay sends the request after d, simulating latency.
func Delay(d time.Duration) Fault {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		return Latency(next, d).RoundTrip(r)
	}
}

// Latency returns a RoundTripper that sends each request after d, simulating latency.
// Requests wait concurrently.
func Latency(next http.RoundTripper, d time.Duration) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return next.RoundTrip(r)
		case <-r.Context().Done():
			closeBody(r)
			return nil, r.Context().Err()
		}
	})
}
