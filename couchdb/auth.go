package couchdb

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"
	"time"
)

// check returns an error if a is contradictory or incomplete.
func (a *Auth) check() error {
	basic, token, proxy := a.Username != "" || a.Password != "", a.Token != nil, a.Proxy != nil
	switch {
	case basic && token, basic && proxy, token && proxy:
		return errors.New("authorize: give only one of a user name, a token and proxy authentication")
	case a.Session && a.Username == "":
		return errors.New("authorize: a session needs a user name and a password")
	case a.Proxy != nil && a.Proxy.Username == "":
		return errors.New("authorize: proxy authentication needs a user name")
	}
	return nil
}

// authorize adds credentials to r. It returns the session cookie, if it used one.
func (db *DB) authorize(q Request, r *http.Request) (cookie string, err error) {
	a := &db.config.Auth
	switch {
	case q.anonymous:
	case a.Session:
		cookie, err = db.session.get(r.Context(), db)
		if err == nil {
			r.AddCookie(&http.Cookie{Name: sessionCookie, Value: cookie})
		}
		return cookie, err
	case a.Username != "" || a.Password != "":
		r.SetBasicAuth(a.Username, a.Password)
	case a.Token != nil:
		token, err := a.Token(r.Context())
		if err != nil {
			return "", fmt.Errorf("get bearer token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	case a.Proxy != nil:
		r.Header.Set("X-Auth-CouchDB-UserName", a.Proxy.Username)
		r.Header.Set("X-Auth-CouchDB-Roles", strings.Join(a.Proxy.Roles, ","))
		if a.Proxy.Secret != "" {
			r.Header.Set("X-Auth-CouchDB-Token", a.Proxy.token())
		}
	}
	return "", nil
}

// token returns the hexadecimal HMAC of the user name.
func (p *ProxyAuth) token() string {
	algorithm := func() hash.Hash { return sha1.New() }
	if p.SHA256 {
		algorithm = sha256.New
	}
	mac := hmac.New(algorithm, []byte(p.Secret))
	_, _ = io.WriteString(mac, p.Username) // writing to a hash never fails
	return hex.EncodeToString(mac.Sum(nil))
}

const sessionCookie = "AuthSession"

// sessionAge is how long a cookie is used if the server does not say when it expires.
// CouchDB's default timeout is 10 min.
const sessionAge = 9 * time.Minute

// A session holds the current cookie from _session.
type session struct {
	mu     chan struct{} // a mutex, which is held during a login
	cookie string
	until  time.Time // when to stop using it
}

// get returns the cookie, logging in first if there is no valid one. An expired cookie is never
// sent: if the database is publicly readable, the server would treat the user as anonymous, which
// the client would notice only when a write is refused.
func (s *session) get(ctx context.Context, db *DB) (string, error) {
	select {
	case s.mu <- struct{}{}:
		defer func() { <-s.mu }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if s.cookie == "" || !time.Now().Before(s.until) {
		cookie, err := db.login(ctx)
		if err != nil {
			return "", err
		}
		s.keep(cookie)
	}
	return s.cookie, nil
}

// keep stores a new cookie. The caller must hold mu.
func (s *session) keep(cookie *http.Cookie) {
	age := sessionAge
	if cookie.MaxAge > 0 {
		age = time.Duration(cookie.MaxAge) * time.Second * 9 / 10
	}
	s.cookie, s.until = cookie.Value, time.Now().Add(age)
}

// replace replaces an old cookie, unless this was done before. If the new cookie is nil, the old
// one was refused, and is dropped. Otherwise the server sent the new one before the old one
// expired.
func (s *session) replace(old string, with *http.Cookie) {
	s.mu <- struct{}{}
	defer func() { <-s.mu }()
	switch {
	case s.cookie != old:
	case with == nil:
		s.cookie = ""
	default:
		s.keep(with)
	}
}

// findCookie returns the session cookie in a response, or nil.
func findCookie(resp *http.Response) *http.Cookie {
	for _, c := range resp.Cookies() {
		if c.Name == sessionCookie && c.Value != "" {
			return c
		}
	}
	return nil
}

// login creates a session (CouchDB documentation, "/_session").
func (db *DB) login(ctx context.Context) (*http.Cookie, error) {
	body, err := json.Marshal(map[string]string{"name": db.config.Auth.Username, "password": db.config.Auth.Password})
	if err != nil {
		return nil, err
	}
	q := JSONRequest(http.MethodPost, "/_session", body)
	q.Repeat, q.anonymous = true, true
	resp, err := db.Do(ctx, q)
	if err != nil {
		return nil, err
	}
	cookie := findCookie(resp)
	if cookie == nil {
		err = &Error{Method: q.Method, URL: db.address(q), Status: http.StatusUnauthorized, Reason: "response has no session cookie"}
	}
	return cookie, errors.Join(err, resp.Body.Close())
}
