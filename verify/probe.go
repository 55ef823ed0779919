package verify

import (
	"context"
	"mime"
	"net/http"
	"time"
)

// probeTime is how long a server may take to respond to IsIndex.
const probeTime = 30 * time.Second

// IsIndex reports whether the response for a URL is the index of a snapshot, judging by its media
// type. It returns false after an error, which will recur in the check, and after a redirect to
// another origin, to which the credentials must not be sent. It takes 30 s at most.
func IsIndex(ctx context.Context, rawURL string, c Config) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	var client http.Client
	if c.HTTPClient != nil {
		client = *c.HTTPClient
	}
	client.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if first := via[0].URL; next.URL.Scheme != first.Scheme || next.URL.Host != first.Host || len(via) > 10 {
			return http.ErrUseLastResponse
		}
		return nil
	}
	for _, method := range []string{http.MethodHead, http.MethodGet} { // a presigned URL allows only GET
		request, err := http.NewRequestWithContext(ctx, method, rawURL, nil)
		if err != nil {
			return false
		}
		if c.Header != nil {
			request.Header = c.Header.Clone()
		}
		switch {
		case c.Credentials.Username != "":
			request.SetBasicAuth(c.Credentials.Username, c.Credentials.Password)
		case c.Credentials.Bearer != "":
			request.Header.Set("Authorization", "Bearer "+c.Credentials.Bearer)
		}
		response, err := client.Do(request)
		if err != nil {
			return false
		}
		_ = response.Body.Close() // only the header is needed
		if response.StatusCode == http.StatusOK {
			mediaType, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
			return err == nil && mediaType == "application/json"
		}
	}
	return false
}
