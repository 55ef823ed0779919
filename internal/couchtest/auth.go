package couchtest

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Credentials holds the credentials that a [Fake] accepts. Empty fields are not used.
type Credentials struct {
	User, Password string // for basic authentication, and for POST _session
	Bearer         string // the token of a JWT handler
	ProxySecret    string // of the headers X-Auth-CouchDB-*
}

type auth struct {
	Credentials
	sessions map[string]bool // valid cookies
}

var (
	errAnonymous     = &failure{http.StatusUnauthorized, "unauthorized", "You are not authorized to access this db."}
	errWrongPassword = &failure{http.StatusUnauthorized, "unauthorized", "Name or password is incorrect."}
)

// Require makes the server refuse clients that have none of the credentials.
func (f *Fake) Require(c Credentials) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.auth = auth{c, map[string]bool{}}
}

// ExpireSessions invalidates all cookies.
func (f *Fake) ExpireSessions() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.auth.sessions)
}

// authorize returns an error unless the request has valid credentials, or none are required.
func (f *Fake) authorize(r *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.auth.Credentials == (Credentials{}) {
		return nil
	}
	if user, password, ok := r.BasicAuth(); ok {
		if f.auth.User == "" || user != f.auth.User || password != f.auth.Password {
			return errWrongPassword
		}
		return nil
	}
	if cookie, err := r.Cookie("AuthSession"); err == nil && f.auth.sessions[cookie.Value] {
		return nil
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && token == f.auth.Bearer && token != "" {
		return nil
	}
	if name := r.Header.Get("X-Auth-CouchDB-UserName"); name != "" && f.auth.ProxySecret != "" {
		for _, h := range []func() hash.Hash{sha256.New, sha1.New} {
			mac := hmac.New(h, []byte(f.auth.ProxySecret))
			mac.Write([]byte(name))
			if r.Header.Get("X-Auth-CouchDB-Token") == hex.EncodeToString(mac.Sum(nil)) {
				return nil
			}
		}
	}
	return errAnonymous
}

// session handles _session: POST logs a client in; other methods return the name of the user who is
// logged in.
func (f *Fake) session(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		name := []byte("null")
		if f.authorize(r) == nil {
			name = quote(f.auth.User)
		}
		return writeJSON(w, http.StatusOK, object(
			member{"ok", yes(true)},
			member{"userCtx", object(member{"name", name}, member{"roles", []byte("[]")})},
			member{"info", []byte(`{"authentication_handlers":["cookie","default"]}`)},
		))
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var given struct{ Name, Password string }
	if form, err := url.ParseQuery(string(body)); json.Unmarshal(body, &given) != nil && err == nil {
		given.Name, given.Password = form.Get("name"), form.Get("password")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.auth.User == "" || given.Name != f.auth.User || given.Password != f.auth.Password {
		return errWrongPassword
	}
	cookie := rand.Text()
	f.auth.sessions[cookie] = true
	w.Header().Set("Set-Cookie", "AuthSession="+cookie+"; Version=1; Path=/; HttpOnly")
	return writeJSON(w, http.StatusOK, object(
		member{"ok", yes(true)}, member{"name", quote(given.Name)}, member{"roles", []byte(`["_admin"]`)},
	))
}
