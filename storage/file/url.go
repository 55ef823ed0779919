package file

import (
	"errors"
	"fmt"
	"net/url"
)

// ParseURL returns the directory named by a URL of the form file:dir or file:///dir.
func ParseURL(u *url.URL) (dir string, err error) {
	dir = u.Path
	if u.Opaque != "" {
		if dir, err = url.PathUnescape(u.Opaque); err != nil {
			return "", fmt.Errorf("parse directory in URL: %w", err)
		}
	}
	switch {
	case u.Scheme != "file":
		return "", fmt.Errorf("open URL with scheme %q: want file", u.Scheme)
	case u.Host != "" && u.Host != "localhost":
		return "", fmt.Errorf("open URL with host %q: want file:dir or file:///dir", u.Host)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", errors.New("open URL with user, query or fragment: want file:dir or file:///dir")
	case dir == "":
		return "", errors.New("open URL without directory: want file:dir or file:///dir")
	}
	return dir, nil
}
