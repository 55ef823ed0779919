package credential

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/feedctl/feedctl/couchdb"
)

// ReadCouch reads the one credential for a CouchDB server. If it is a bearer token in a file, the file is
// read again for each request, so the token may be renewed there.
func (s Source) ReadCouch() (auth couchdb.Auth, err error) {
	where, text, err := s.lines()
	if err != nil || where == "" {
		return auth, err
	}
	found := 0
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if auth, err = parseCouch(line); err != nil {
			return auth, fmt.Errorf("read credentials: %s, line %d: %w", where, i+1, err)
		}
		found++
	}
	switch {
	case found > 1:
		return auth, fmt.Errorf("read credentials: %s: want one, found %d", where, found)
	case found == 0:
		return auth, empty(where)
	case auth.Token != nil && s.File != "":
		auth.Token = tokenFile(s.File)
	}
	return auth, nil
}

// tokenFile returns a function that reads the bearer token in a file. It is called for each request.
func tokenFile(path string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		c, err := Source{File: path}.Read()
		if err == nil && c.Bearer == "" {
			err = fmt.Errorf("read credentials: %s no longer has a bearer token", path)
		}
		return c.Bearer, err
	}
}

var errCouchAuth = errors.New("want basic USER:PASSWORD, session USER:PASSWORD, bearer TOKEN or proxy USER SECRET [ROLES]")

// parseCouch parses one line of credentials. Its errors do not contain the line.
func parseCouch(line string) (couchdb.Auth, error) {
	scheme, rest, _ := strings.Cut(line, " ")
	switch strings.ToLower(scheme) {
	case "basic", "bearer":
		c, err := parse(line)
		if err != nil || c.Bearer == "" {
			return couchdb.Auth{Username: c.Username, Password: c.Password}, err
		}
		return couchdb.Auth{Token: func(context.Context) (string, error) { return c.Bearer, nil }}, nil
	case "session":
		c, err := parse("basic " + rest)
		if err != nil {
			return couchdb.Auth{}, errCouchAuth
		}
		return couchdb.Auth{Username: c.Username, Password: c.Password, Session: true}, nil
	case "proxy":
		fields := strings.Fields(rest)
		if len(fields) < 2 || len(fields) > 3 {
			return couchdb.Auth{}, errCouchAuth
		}
		proxy := &couchdb.ProxyAuth{Username: fields[0]}
		if fields[1] != "-" {
			proxy.Secret = fields[1]
		}
		if len(fields) == 3 {
			proxy.Roles = strings.Split(fields[2], ",")
		}
		return couchdb.Auth{Proxy: proxy}, nil
	}
	return couchdb.Auth{}, errCouchAuth
}
