package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/feedctl/feedctl/internal/access"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/server"
)

// A Credential allows requests.
type Credential struct {
	server.Credential
	// Namespaces are the namespaces that the credential is for. If there are none, it is for all
	// namespaces, and for what belongs to no namespace.
	Namespaces []string
}

// A scope determines which of the credentials for reading, or for changes, allow a request.
type scope int

const (
	forAll  scope = iota // credentials for all namespaces
	forPath              // the same, and credentials for the namespace in the path
	forAny               // all credentials: the handler itself observes their namespaces, if these matter
)

// rights holds the credentials for reading or for changes.
type rights struct {
	credentials []Credential
	check       func(http.Header, *http.Request) error
	find        func(*http.Request) int // returns the index of a request's credential
}

// allowed wraps a handler of requests that need a right. If the credential is limited to
// namespaces, the handler gets a context from [jobs.Within].
func (g *rights) allowed(s scope, h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := g.check(w.Header(), r); err != nil {
			return err
		}
		n := g.find(r)
		if n < 0 || len(g.credentials[n].Namespaces) == 0 {
			return h(w, r)
		}
		namespaces := g.credentials[n].Namespaces
		if s == forAll {
			return problem.New(http.StatusForbidden, "forbidden", "these credentials are only for jobs in the namespaces %s", strings.Join(namespaces, ", "))
		}
		r = r.WithContext(jobs.Within(r.Context(), namespaces...))
		if s == forPath {
			if err := mayUse(r, chi.URLParam(r, "namespace")); err != nil {
				return err
			}
		}
		return h(w, r)
	}
}

// mayUse returns an error if the credential of a request is not for the given namespace.
func mayUse(r *http.Request, namespace string) error {
	if jobs.Visible(r.Context(), namespace) {
		return nil
	}
	return problem.New(http.StatusForbidden, "forbidden", "these credentials are not for namespace %.100q", namespace)
}

// unlimited returns credentials without their namespaces. It refuses a credential that is in the
// list twice, with namespaces, since it would be unclear which of these apply. The error includes
// use, which says what the list is for.
func unlimited(list []Credential, use string) ([]access.Credential, error) {
	converted := make([]access.Credential, len(list))
	namespaces := map[server.Credential][]string{}
	for n, c := range list {
		before, again := namespaces[c.Credential]
		if again && len(before)+len(c.Namespaces) > 0 {
			return nil, fmt.Errorf("credential %s for %s is given twice: give all of its namespaces in one place", c, use)
		}
		namespaces[c.Credential] = c.Namespaces
		converted[n] = access.Credential(c.Credential)
	}
	return converted, nil
}

// controlled returns the rights that the configured credentials give, for reading and for changes.
func controlled(c Config) (readers, writers *rights, err error) {
	read, readErr := unlimited(c.ReadAuth, "reading")
	write, writeErr := unlimited(c.WriteAuth, "changes")
	if err := errors.Join(readErr, writeErr); err != nil {
		return nil, nil, err
	}
	control, err := access.New(read, write, c.PublicURL)
	if err != nil {
		return nil, nil, err
	}
	return &rights{c.ReadAuth, control.Read, control.Reader}, &rights{c.WriteAuth, control.Write, control.Writer}, nil
}
