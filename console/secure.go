package console

import (
	"net/http"

	"github.com/feedctl/feedctl/internal/problem"
)

// policy allows only the console's own files: no inline scripts or styles, and nothing from other sites.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// mayShow requires credentials that allow seeing a page or, if the page asks for confirmation of an action, acting. It
// returns the request with its sender added.
func (c *Console) mayShow(h http.Header, r *http.Request, route *route) (*http.Request, error) {
	if route.post != nil {
		return c.mayAct(h, r, route)
	}
	if err := c.access.Read(h, r); err != nil {
		return r, err
	}
	return identified(r, c.config.seers(), c.access.Reader(r), route.forJobs)
}

// mayAct requires write credentials. If none are configured, no one may act; access.Control alone would let everyone
// act.
func (c *Console) mayAct(h http.Header, r *http.Request, route *route) (*http.Request, error) {
	if len(c.config.WriteAuth) == 0 {
		return r, problem.New(http.StatusForbidden, "no-actions", "No one may act in this console: start it with write credentials.")
	}
	if err := c.access.Write(h, r); err != nil {
		return r, err
	}
	return identified(r, c.config.WriteAuth, c.access.Writer(r), route.forJobs)
}

// secured sets the header fields that isolate a page from other sites. Requests of browsers that change something are
// accepted only from the console's own pages (see [access.Control.Write]).
func (c *Console) secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		// With no-referrer, browsers would send "Origin: null" with the console's own forms.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if loadedElsewhere(r) {
			c.fail(w, r, problem.New(http.StatusForbidden, "cross-origin", "A web page of another origin sent this request."))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loadedElsewhere reports whether a browser sent a request on behalf of a web page of another origin that does more
// than link to the console. Such a page does not get the response, but could measure how long it takes, and use up the
// event streams. See W3C Fetch Metadata.
func loadedElsewhere(r *http.Request) bool {
	site, mode := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Mode")
	return (site == "cross-site" || site == "same-site") && mode != "" && mode != "navigate"
}
