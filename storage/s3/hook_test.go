package s3_test

import "net/http"

// A hook is a transport with which a test observes requests.
type hook struct {
	http.RoundTripper
	before func(*http.Request)
}

func (h hook) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	h.before(r)
	return h.RoundTripper.RoundTrip(r)
}
