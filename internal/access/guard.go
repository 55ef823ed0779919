package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/internal/problem"
)

// A guard checks requests against a list of credentials. It stores digests of them, since values of
// equal length can be compared in constant time.
type guard struct {
	digests   [][sha256.Size]byte
	challenge []string // values of WWW-Authenticate
}

func newGuard(credentials []Credential) *guard {
	g := new(guard)
	for _, c := range credentials {
		digest, challenge := basicDigest(c.Username, c.Password), `Basic realm="feedctl", charset="UTF-8"`
		if c.Bearer != "" {
			digest, challenge = bearerDigest(c.Bearer), `Bearer realm="feedctl"`
		}
		g.digests = append(g.digests, digest)
		if !slices.Contains(g.challenge, challenge) {
			g.challenge = append(g.challenge, challenge)
		}
	}
	return g
}

func basicDigest(username, password string) [sha256.Size]byte {
	return sha256.Sum256([]byte("basic\x00" + username + "\x00" + password))
}

func bearerDigest(token string) [sha256.Size]byte { return sha256.Sum256([]byte("bearer\x00" + token)) }

// open reports whether no credentials are required.
func (g *guard) open() bool { return len(g.digests) == 0 }

// find returns the index of the credential that a request carries, or -1.
func (g *guard) find(r *http.Request) int {
	digest, ok := credentialDigest(r)
	found := -1
	for i := range g.digests {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(digest[:], g.digests[i][:]), i, found)
	}
	if !ok {
		return -1
	}
	return found
}

// knows reports whether a request carries one of the credentials.
func (g *guard) knows(r *http.Request) bool { return g.find(r) >= 0 }

// credentialDigest returns the digest of the credentials that a request carries.
func credentialDigest(r *http.Request) (digest [sha256.Size]byte, ok bool) {
	if username, password, ok := r.BasicAuth(); ok {
		return basicDigest(username, password), true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return digest, false
	}
	return bearerDigest(token), true
}

// allow returns nil if a request carries credentials that g knows. A request with credentials that
// only the other guard knows gets a 403 instead of a 401.
func (g *guard) allow(other *guard, h http.Header, r *http.Request) error {
	switch {
	case g.open() || g.knows(r):
		return nil
	case other.knows(r):
		return problem.New(http.StatusForbidden, "forbidden", "these credentials do not allow this request")
	}
	h["Www-Authenticate"] = g.challenge
	return problem.New(http.StatusUnauthorized, "unauthorized", "give credentials in the Authorization header")
}
