package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// A credential is one line of a credentials file.
type credential struct {
	username, password string
	bearer             string // set instead of the two others
}

// readCredentials reads the credentials in a file or, if path is empty, in an
// environment variable. Without a file and a variable there are none. A file or a variable
// without a credential is an error: a server without credentials would be open.
func readCredentials(path, variable string) ([]credential, error) {
	source, text, err := credentialText(path, variable)
	if err != nil || source == "" {
		return nil, err
	}
	var list []credential
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c, err := parseCredential(line)
		if err != nil {
			return nil, fmt.Errorf("read credentials: %s, line %d: %w", source, i+1, err)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, noCredential(source)
	}
	return list, nil
}

// credentialText returns the lines of credentials in a file or, if path is empty, in an
// environment variable, and what that is called. Without both, source is "".
func credentialText(path, variable string) (source, text string, err error) {
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

// noCredential is the error of a source that has lines, but no credential.
func noCredential(source string) error {
	return usagef("read credentials: %s is empty: write a credential on a line of it, or do not set it", source)
}

// readCredential reads the one credential that a client uses.
func readCredential(path string) (credential, error) {
	list, err := readCredentials(path, "FEEDCTL_CREDENTIALS")
	switch {
	case err != nil:
		return credential{}, err
	case len(list) > 1:
		return credential{}, errors.New("read credentials: a client uses one, but there are several")
	case len(list) == 0:
		return credential{}, nil
	}
	return list[0], nil
}

// parseCredential reads "basic USER:PASSWORD" or "bearer TOKEN". Its errors do
// not repeat the line.
func parseCredential(line string) (credential, error) {
	scheme, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToLower(scheme) {
	case "basic":
		user, password, ok := strings.Cut(rest, ":")
		if !ok || user == "" {
			return credential{}, errors.New("want basic USER:PASSWORD")
		}
		return credential{username: user, password: password}, nil
	case "bearer":
		if rest == "" || strings.ContainsAny(rest, " \t") {
			return credential{}, errors.New("want bearer TOKEN")
		}
		return credential{bearer: rest}, nil
	}
	return credential{}, errors.New("want basic USER:PASSWORD or bearer TOKEN")
}
