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

// ErrEmpty means that a file or a variable has no credential.
var ErrEmpty = errors.New("is empty: add a credential on a line of its own, or do not use it")

// A Source says where credentials are: in File or, if that is empty, in the environment variable Variable.
// The zero Source has none.
type Source struct {
	File, Variable string
	// Required makes it an error if the variable is not set.
	Required bool
}

// ParseReference returns the source that a reference names: env:NAME or file:PATH. The source must
// exist when it is read.
func ParseReference(reference string) (Source, error) {
	scheme, name, _ := strings.Cut(reference, ":")
	switch {
	case scheme == "env" && name != "":
		return Source{Variable: name, Required: true}, nil
	case scheme == "file" && name != "":
		return Source{File: name}, nil
	}
	return Source{}, errors.New("want env:NAME or file:PATH") // the error does not contain the reference, which may be a secret
}

// ReadAll reads the credentials of a source. If there is neither a file nor a variable, it returns none. A
// file or a variable without a credential is an error, since a server without credentials would be open to
// all.
func (s Source) ReadAll() ([]consumer.Credentials, error) {
	return readAll(s, parse)
}

func readAll[T any](s Source, parse func(line string) (T, error)) (list []T, err error) {
	source, text, err := s.lines()
	if err != nil || source == "" {
		return nil, err
	}
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

// ReadPassword reads the one password of a source, such as that of a database. The password is the only line.
func (s Source) ReadPassword() (string, error) {
	source, text, err := s.lines()
	if err != nil || source == "" {
		return "", err
	}
	text = strings.TrimRight(text, "\r\n")
	switch {
	case text == "":
		return "", empty(source)
	case strings.ContainsAny(text, "\r\n"):
		return "", fmt.Errorf("read credentials: %s: want one line with a password", source)
	}
	return text, nil
}

// lines returns the text with the credentials, and the name of the file or variable that holds it, or "" if
// there is neither.
func (s Source) lines() (source, text string, err error) {
	if s.File != "" {
		data, err := os.ReadFile(s.File)
		if err != nil {
			return "", "", fmt.Errorf("read credentials: %w", err)
		}
		return s.File, string(data), nil
	}
	text, set := os.LookupEnv(s.Variable)
	switch {
	case !set && s.Required:
		return "", "", fmt.Errorf("read credentials: variable %s is not set", s.Variable)
	case !set:
		return "", "", nil
	}
	return "variable " + s.Variable, text, nil
}

// empty returns the error for a source that exists but has no credential.
func empty(source string) error {
	return fmt.Errorf("read credentials: %s %w", source, ErrEmpty)
}

// Read reads the only credential of a source.
func (s Source) Read() (consumer.Credentials, error) {
	list, err := s.ReadAll()
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

// parse parses "basic USER:PASSWORD" or "bearer TOKEN". Its errors do not contain the line.
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

// Authorization returns the value of the Authorization field for a credential (RFC 7617, RFC 6750), or "" if
// the credential is empty.
func Authorization(c consumer.Credentials) string {
	switch {
	case c.Bearer != "":
		return "Bearer " + c.Bearer
	case c.Username != "":
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password))
	}
	return ""
}
