package credential

import (
	"context"

	"github.com/feedctl/feedctl/kinto"
)

// ReadKinto reads the one credential for a Kinto server. If it is a bearer token in a file, the token
// may be renewed there.
func (s Source) ReadKinto() (kinto.Auth, error) {
	c, err := s.Read()
	auth := kinto.Auth{Username: c.Username, Password: c.Password}
	switch {
	case err != nil || c.Bearer == "":
	case s.File != "":
		auth.Token = tokenFile(s.File)
	default:
		auth.Token = func(context.Context) (string, error) { return c.Bearer, nil }
	}
	return auth, err
}
