package kinds

import (
	"errors"
	"net/url"

	"github.com/feedctl/feedctl/internal/credential"
)

// sideError returns the message of an error about a source or a target, with the names of options
// instead of flags.
func sideError(err error) string { return flagName.ReplaceAllString(err.Error(), "$1") }

// checkCredential checks the reference to the credential of the place p.
func checkCredential(reference string, p place) error {
	if reference == "" || p.id == "" {
		return nil
	}
	if p.takes == noCredential {
		return errors.New("not used: nodes have the credentials for S3 in variables such as AWS_PROFILE, and files need none")
	}
	_, err := credential.ParseReference(reference)
	return err
}

// withPassword returns the URL of a database with the password added, unless the password is empty.
func withPassword(raw, password string) string {
	u, err := url.Parse(raw)
	if err != nil || password == "" {
		return raw
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String()
}
