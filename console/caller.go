package console

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/internal/access"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/server"
)

// A Credential is that of a person.
type Credential struct {
	server.Credential
	// Namespaces are those whose jobs the credential is for. If there are any, it is for nothing else; if
	// there are none, it is for everything in the console.
	Namespaces []string
}

// Credentials returns credentials that are for everything.
func Credentials(all []server.Credential) []Credential {
	var list []Credential
	for _, c := range all {
		list = append(list, Credential{Credential: c})
	}
	return list
}

// newAccess returns the check of credentials: those who may act may also see.
func newAccess(c Config) (*access.Control, error) {
	return access.New(plain(c.seers()), plain(c.WriteAuth), "")
}

// seers are the credentials that allow seeing the console. Of several equal entries, the last counts:
// what a credential may see is in ReadAuth, if it is there.
func (c *Config) seers() []Credential { return slices.Concat(c.WriteAuth, c.ReadAuth) }

func plain(list []Credential) (converted []access.Credential) {
	for _, c := range list {
		converted = append(converted, access.Credential(c.Credential))
	}
	return converted
}

// A caller is the person who has sent a request.
type caller struct {
	user       string
	namespaces []string
}

type callerKey struct{}

// identified adds to a request the person who has sent it, the owner of the n-th of some credentials, and
// limits it to the namespaces of that credential: what belongs to no namespace is then refused, unless it
// is forJobs.
func identified(r *http.Request, list []Credential, n int, forJobs bool) (*http.Request, error) {
	if n < 0 {
		return r, nil
	}
	c := list[n]
	who := caller{"bearer token", c.Namespaces}
	if c.Username != "" {
		who.user = c.Username
	}
	ctx := context.WithValue(r.Context(), callerKey{}, who)
	if len(c.Namespaces) > 0 {
		if !forJobs {
			return r, problem.New(http.StatusForbidden, "forbidden", "Your credentials are only for jobs of the namespaces %s.", strings.Join(c.Namespaces, ", "))
		}
		ctx = jobs.Within(ctx, c.Namespaces...)
	}
	return r.WithContext(ctx), nil
}

// namespacesOf are those to which the credentials of a request are limited; nil if they are not.
func namespacesOf(r *http.Request) []string {
	who, _ := r.Context().Value(callerKey{}).(caller)
	return who.namespaces
}

// userOf names the person who has sent a request, for the log.
func userOf(r *http.Request) string {
	who, _ := r.Context().Value(callerKey{}).(caller)
	return who.user
}

// mayActIn reports whether the credentials of a request allow changing jobs of a namespace.
func (c *Console) mayActIn(r *http.Request, namespace string) bool {
	n := c.access.Writer(r)
	if n < 0 {
		return false
	}
	namespaces := c.config.WriteAuth[n].Namespaces
	return len(namespaces) == 0 || slices.Contains(namespaces, namespace)
}
