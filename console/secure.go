package console

import (
	"net/http"

	"github.com/feedctl/feedctl/internal/access"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/server"
)

// policy allows the console's own files and nothing else: no inline script or style, no other site.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// newAccess returns the check of credentials: who may act may also see.
func newAccess(c Config) (*access.Control, error) {
	convert := func(lists ...[]server.Credential) (converted []access.Credential) {
		for _, list := range lists {
			for _, credential := range list {
				converted = append(converted, access.Credential(credential))
			}
		}
		return converted
	}
	return access.New(convert(c.ReadAuth, c.WriteAuth), convert(c.WriteAuth), c.PublicURL)
}

// mayAct requires write credentials. A console without any has no actions: access.Control would let
// everyone act.
func (c *Console) mayAct(h http.Header, r *http.Request) error {
	if len(c.config.WriteAuth) == 0 {
		return problem.New(http.StatusForbidden, "no-actions", "Nobody may act in this console: start it with write credentials.")
	}
	return c.access.Write(h, r)
}

// secured sets the header fields that keep a page to itself. Browsers send a request that changes something
// only from the console's own pages (see [access.Control.Write]).
func (c *Console) secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		// With no-referrer, browsers would send "Origin: null" with the console's own forms.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}
