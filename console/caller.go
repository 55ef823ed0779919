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

// A Credential identifies a person who uses the console.
type Credential struct {
	server.Credential
	// Namespaces limit the credential to the jobs of these namespaces. If there are none, it gives access to
	// everything in the console.
	Namespaces []string
}

// Credentials returns credentials that give access to everything.
func Credentials(all []server.Credential) []Credential {
	var list []Credential
	for _, c := range all {
		list = append(list, Credential{Credential: c})
	}
	return list
}

// newAccess returns the access control of the console: people who may act may also see.
func newAccess(c Config) (*access.Control, error) {
	return access.New(plain(c.seers()), plain(c.WriteAuth), "")
}

// seers returns the credentials that allow seeing the console. Of several equal entries, the last counts: if a
// credential is also in ReadAuth, the entry there says what it may see.
func (c *Config) seers() []Credential { return slices.Concat(c.WriteAuth, c.ReadAuth) }

func plain(list []Credential) (converted []access.Credential) {
	for _, c := range list {
		converted = append(converted, access.Credential(c.Credential))
	}
	return converted
}

// A caller is the person who sent a request.
type caller struct {
	user       string
	namespaces []string
}

type callerKey struct{}

// identified adds the sender to a request: the owner of credential n of list. If that credential is limited to
// namespaces, so is the request; it is refused unless forJobs is set.
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
			return r, problem.New(http.StatusForbidden, "forbidden", "Your credentials are only for jobs in the namespaces %s.", strings.Join(c.Namespaces, ", "))
		}
		ctx = jobs.Within(ctx, c.Namespaces...)
	}
	return r.WithContext(ctx), nil
}

// namespacesOf returns the namespaces to which the credentials of a request are limited, or nil if they are not
// limited.
func namespacesOf(r *http.Request) []string {
	who, _ := r.Context().Value(callerKey{}).(caller)
	return who.namespaces
}

// userOf returns the name of the person who sent a request, for the log.
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
