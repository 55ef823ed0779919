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
	// Namespaces are those that the credential is for. If there are none, it is for all of them, and
	// for what belongs to none.
	Namespaces []string
}

// A scope says which of the credentials that allow reading, or changes, allow a request.
type scope int

const (
	forAll  scope = iota // those for all namespaces
	forPath              // also those for the namespace in the path
	forAny               // also those for any namespaces: others do not matter to the handler, or are left out
)

// rights are the credentials for reading or for changes.
type rights struct {
	credentials []Credential
	check       func(http.Header, *http.Request) error
	find        func(*http.Request) int // the index of a request's credential
}

// allowed wraps a handler of requests that need a right. The context of those that are limited to
// namespaces is that of [jobs.Within].
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
			return problem.New(http.StatusForbidden, "forbidden", "these credentials are only for jobs of the namespaces %s", strings.Join(namespaces, ", "))
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

// mayUse returns an error if the credentials of a request are not for a namespace.
func mayUse(r *http.Request, namespace string) error {
	if jobs.Visible(r.Context(), namespace) {
		return nil
	}
	return problem.New(http.StatusForbidden, "forbidden", "these credentials are not for namespace %.100q", namespace)
}

// unlimited returns credentials without their namespaces. It refuses one that is in the list twice
// with namespaces: which of them count would be unclear. What the list is for is in the error.
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

// controlled returns a control of requests by credentials, and the rights that they give.
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
