package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A Host is a server. Its methods make requests about many of the server's databases at once. They may be
// called concurrently.
type Host struct{ db *DB }

// OpenHost returns the Host whose root is c.URL, or an error if c is invalid. It makes no request.
func OpenHost(c Config) (*Host, error) {
	db := &DB{config: c}
	u, err := db.setURL()
	if err != nil {
		return nil, fmt.Errorf("open server: %w", err)
	}
	if err := db.prepare(u); err != nil {
		return nil, fmt.Errorf("open server %s: %w", db.base, err)
	}
	return &Host{db}, nil
}

// URL returns the URL of the server, without credentials.
func (h *Host) URL() string { return h.db.base }

// DB returns a database of the server. All databases of a Host share connections, limits and the session.
func (h *Host) DB(name string) *DB {
	db := *h.db
	db.name, db.base = name, db.root+"/"+EscapeID(name)
	return &db
}

// CloseIdleConnections closes connections that are not in use.
func (h *Host) CloseIdleConnections() { h.db.CloseIdleConnections() }

// maxInfos is how many databases CouchDB describes in one response, unless configured otherwise.
const maxInfos = 100

// Infos describes the databases with the given names, with one request for every hundred. Databases that do not
// exist, or that the server cannot read, are not in the result. Only a server admin may make this request,
// unless the server is configured otherwise (CouchDB documentation, "/_dbs_info"). The error matches
// [ErrUnsupported] if the server does not support the request.
func (h *Host) Infos(ctx context.Context, names []string) (map[string]Info, error) {
	found := make(map[string]Info, len(names))
	atOnce := maxInfos
	for len(names) > 0 {
		some := names[:min(atOnce, len(names))]
		err := h.infos(ctx, some, found)
		var e *Error
		if errors.As(err, &e) && e.Reason == "too_many_keys" && len(some) > 1 { // the limit is configurable
			atOnce = len(some) / 2
			continue
		}
		if err != nil {
			return nil, err
		}
		names = names[len(some):]
	}
	return found, nil
}

func (h *Host) infos(ctx context.Context, names []string, found map[string]Info) error {
	body, err := json.Marshal(map[string][]string{"keys": names})
	if err != nil {
		return err
	}
	q := JSONRequest(http.MethodPost, "/_dbs_info", body)
	q.Repeat = true
	var answer []struct {
		Key  string
		Info *Info
	}
	if err := h.db.JSON(ctx, q, &answer); err != nil {
		return orUnsupported(err)
	}
	for _, a := range answer {
		if a.Info != nil && len(a.Info.UpdateSeq) > 0 && slices.Contains(names, a.Key) {
			found[a.Key] = *a.Info
		}
	}
	return nil
}

// ErrUnsupported means that the server does not support a request, or does not allow it to this user.
var ErrUnsupported = errors.New("unsupported by the server")

// orUnsupported wraps an error in ErrUnsupported if it means that the server does not know the request. PouchDB
// Server recognizes the paths of some requests that it does not implement.
func orUnsupported(err error) error {
	var e *Error
	if errors.As(err, &e) && (e.unsupported() || e.noDatabase() || e.Status == http.StatusBadRequest && strings.TrimSpace(e.Code+e.Reason) == "") {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}
