package server

import (
	"fmt"
	"log/slog"

	"github.com/feedctl/feedctl/internal/access"
)

// A Credential authenticates a client. It is either a username and a password
// (RFC 7617) or a bearer token (RFC 6750).
type Credential struct {
	Username, Password string
	Bearer             string
}

// String returns the credential without its secret.
func (c Credential) String() string {
	return access.Credential(c).String()
}

// GoString implements [fmt.GoStringer]; it keeps the secret out of %#v.
func (c Credential) GoString() string { return c.String() }

// LogValue implements [slog.LogValuer].
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// newAccess returns the access control for a configuration.
func newAccess(c Config, publicURL string) (*access.Control, error) {
	convert := func(list []Credential) []access.Credential {
		converted := make([]access.Credential, len(list))
		for n := range list {
			converted[n] = access.Credential(list[n])
		}
		return converted
	}
	control, err := access.New(convert(c.ReadAuth), convert(c.WriteAuth), publicURL)
	if err != nil {
		return nil, fmt.Errorf("configure server: %w", err)
	}
	return control, nil
}
