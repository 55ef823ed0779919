package kinds

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/credential"
)

// sideError returns an error of a source or a target in the terms of a document.
func sideError(err error) string { return flagName.ReplaceAllString(err.Error(), "$1") }

// checkCredential checks the reference to the credential of a place.
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

// secretHeader matches names of fields that are usually credentials.
var secretHeader = regexp.MustCompile(`(?i)auth|cookie|key|password|secret|signature|token`)

// checkHeaders returns an error if a field of --header is a credential.
func checkHeaders(flags *pflag.FlagSet) error {
	f := flags.Lookup("header")
	if f == nil {
		return nil
	}
	list, ok := f.Value.(pflag.SliceValue)
	if !ok {
		return nil
	}
	for _, field := range list.GetSlice() {
		if name, _, ok := strings.Cut(field, ":"); ok && secretHeader.MatchString(name) {
			return fmt.Errorf("%s may be a credential, which is stored and shown with the job: write env:NAME or file:PATH into credentials.source", strings.TrimSpace(name))
		}
	}
	return nil
}

// withPassword returns the URL of a database with a password, if there is one.
func withPassword(raw, password string) string {
	u, err := url.Parse(raw)
	if err != nil || password == "" {
		return raw
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String()
}
