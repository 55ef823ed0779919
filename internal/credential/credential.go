// Package credential reads credentials from files and environment variables.
package credential

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/feedctl/feedctl/consumer"
)

// ErrEmpty is wrapped by the error of a file or a variable without a credential.
var ErrEmpty = errors.New("is empty: write a credential on a line of it, or do not set it")

// ReadAll reads the credentials in a file or, if path is empty, in an environment variable.
// If neither is set, there are none. A file or a variable without a credential is an error:
// a server without credentials would be open.
func ReadAll(path, variable string) ([]consumer.Credentials, error) {
	source, text, err := lines(path, variable)
	if err != nil || source == "" {
		return nil, err
	}
	var list []consumer.Credentials
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("read credentials: %s, line %d: %w", source, i+1, err)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, empty(source)
	}
	return list, nil
}

// lines returns the lines of credentials in a file or, if path is empty, in an
// environment variable, and what that is called. Without both, source is "".
func lines(path, variable string) (source, text string, err error) {
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", "", fmt.Errorf("read credentials: %w", err)
		}
		return path, string(data), nil
	}
	text, set := os.LookupEnv(variable)
	if !set {
		return "", "", nil
	}
	return "variable " + variable, text, nil
}

// empty is the error of a source that has lines, but no credential.
func empty(source string) error {
	return fmt.Errorf("read credentials: %s %w", source, ErrEmpty)
}

// Read reads the one credential that a client uses; see [ReadAll].
func Read(path, variable string) (consumer.Credentials, error) {
	list, err := ReadAll(path, variable)
	switch {
	case err != nil:
		return consumer.Credentials{}, err
	case len(list) > 1:
		return consumer.Credentials{}, errors.New("read credentials: a client needs one, but there are several")
	case len(list) == 0:
		return consumer.Credentials{}, nil
	}
	return list[0], nil
}

// parse reads "basic USER:PASSWORD" or "bearer TOKEN". Its errors do
// not repeat the line.
func parse(line string) (consumer.Credentials, error) {
	scheme, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToLower(scheme) {
	case "basic":
		user, password, ok := strings.Cut(rest, ":")
		if !ok || user == "" {
			return consumer.Credentials{}, errors.New("want basic USER:PASSWORD")
		}
		return consumer.Credentials{Username: user, Password: password}, nil
	case "bearer":
		if rest == "" || strings.ContainsAny(rest, " \t") {
			return consumer.Credentials{}, errors.New("want bearer TOKEN")
		}
		return consumer.Credentials{Bearer: rest}, nil
	}
	return consumer.Credentials{}, errors.New("want basic USER:PASSWORD or bearer TOKEN")
}

// Authorization returns the header field of a credential (RFC 7617, RFC 6750), or "" if it
// is empty.
func Authorization(c consumer.Credentials) string {
	switch {
	case c.Bearer != "":
		return "Bearer " + c.Bearer
	case c.Username != "":
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password))
	}
	return ""
}
