package kinds

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/sink"
)

// useReference says what to do instead of writing a secret into a document. Documents are shown to
// everyone who may read jobs.
const useReference = "which would be stored and shown with the job: remove it, and put env:NAME or file:PATH under credentials"

// errSecret means that a name or value contains a secret.
var errSecret = errors.New("contains a credential, " + useReference)

var (
	// secretHeader matches the names of header fields that usually hold credentials.
	secretHeader = regexp.MustCompile(`(?i)auth|cookie|key|password|secret|signature|token`)
	// secretParameter matches the names of URL parameters that usually hold credentials, such as
	// access_token, and those of presigned URLs. It matches fewer names than secretHeader, since many
	// names such as author are harmless in URLs.
	secretParameter = regexp.MustCompile(`(?i)(?:auth|authorization|cookie|credentials?|jwt|key|passw(?:or)?d|pwd|secret|sig|signature|token)$`)
	// webValue matches options that are URLs, or snapshot: followed by a URL.
	webValue = regexp.MustCompile(`(?i)^(?:snapshot:)?https?:`)
)

// checkSecret returns an error if the name of a source or target contains a secret.
func checkSecret(name string) error {
	if sink.Redact(name) != name {
		return errSecret
	}
	_, query, _ := strings.Cut(name, "?")
	query, _, _ = strings.Cut(query, "#")
	for pair := range strings.FieldsFuncSeq(query, func(c rune) bool { return strings.ContainsRune("&;?", c) }) {
		parameter, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(parameter); err == nil {
			parameter = plain
		}
		// The parameter sslkey of a database is the path of a file.
		if value != "" && parameter != "sslkey" && secretParameter.MatchString(parameter) {
			return fmt.Errorf("its parameter %q may be a credential, %s", parameter, useReference)
		}
	}
	return nil
}

// checkHeader returns an error if a field of --header is a credential.
func checkHeader(field string) error {
	if name, _, ok := strings.Cut(field, ":"); ok && secretHeader.MatchString(name) {
		return fmt.Errorf("%s may be a credential, which would be stored and shown with the job: set credentials.source to env:NAME or file:PATH", strings.TrimSpace(name))
	}
	return nil
}

// checkOption returns an error if an option contains a secret.
func checkOption(name string, values jobs.Values) error {
	for _, value := range values {
		var err error
		switch {
		case name == "header":
			err = checkHeader(value)
		case webValue.MatchString(value):
			err = checkSecret(value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
