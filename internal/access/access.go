// Package access decides which requests an HTTP server answers: those with the right
// credentials, and none that a browser sends for a web page of another origin.
package access

import (
	"errors"
	"net/http"
	"strings"
)

// A Credential authenticates a client. It is either a username and a password
// (RFC 7617) or a bearer token (RFC 6750).
type Credential struct {
	Username, Password string
	Bearer             string
}

func (c Credential) validate() error {
	switch basic := c.Username != "" || c.Password != ""; {
	case basic && c.Bearer != "":
		return errors.New("a credential is either a username and a password or a bearer token, not both")
	case !basic && c.Bearer == "":
		return errors.New("a credential is empty")
	case basic && (c.Username == "" || c.Password == ""):
		return errors.New("a credential needs both a username and a password")
	case strings.Contains(c.Username, ":"):
		return errors.New("a username contains \":\"") // RFC 7617, section 2
	}
	return nil
}

// String returns the credential without its secret.
func (c Credential) String() string {
	if c.Bearer != "" {
		return "Bearer ..."
	}
	return "Basic " + c.Username + ":..."
}

// GoString implements [fmt.GoStringer]; it keeps the secret out of %#v.
func (c Credential) GoString() string { return c.String() }

// A Control allows requests or refuses them.
type Control struct {
	readers, writers *guard
	origins          *origins
}

// New returns a Control with the credentials for reading and for writing. If a list is empty, no
// credentials are required. publicURL is the URL of the server as its clients know it, or empty.
func New(read, write []Credential, publicURL string) (*Control, error) {
	for _, list := range [][]Credential{read, write} {
		for _, c := range list {
			if err := c.validate(); err != nil {
				return nil, err
			}
		}
	}
	o, err := newOrigins(publicURL)
	if err != nil {
		return nil, err
	}
	return &Control{readers: newGuard(read), writers: newGuard(write), origins: o}, nil
}

// OpenReads reports whether reading requires no credentials.
func (c *Control) OpenReads() bool { return c.readers.open() }

// Read returns nil if a request may read, or else the problem with which to answer the request. It sets
// fields of h, the header of the response.
func (c *Control) Read(h http.Header, r *http.Request) error {
	if err := c.origins.local(c.readers, r); err != nil {
		return err
	}
	return c.readers.allow(c.writers, h, r)
}

// Reader returns the index, in the list for reading, of the credential that a request carries, or -1.
func (c *Control) Reader(r *http.Request) int { return c.readers.find(r) }

// Writer returns the index, in the list for writing, of the credential that a request carries, or -1.
func (c *Control) Writer(r *http.Request) int { return c.writers.find(r) }

// Write does the same as Read for a request that changes something. Such a request must not come from a web
// page of another origin.
func (c *Control) Write(h http.Header, r *http.Request) error {
	if err := c.origins.local(c.writers, r); err != nil {
		return err
	}
	if err := c.origins.same(r); err != nil {
		return err
	}
	return c.writers.allow(c.readers, h, r)
}
