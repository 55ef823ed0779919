package couchdb_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/memnet"
)

const secret = "s3c/r€t"

// TestAuth: a server accepts each kind of credentials that it supports; the error for a wrong secret
// does not contain the secret.
func TestAuth(t *testing.T) {
	token := func(text string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return text, nil }
	}
	fake := couchtest.NewFake(t)
	url := fake.NewDB(t)
	fake.Require(couchtest.Credentials{User: "user", Password: secret, Bearer: secret, ProxySecret: secret})
	in := "http://user:s3c%2Fr%E2%82%ACt@" + strings.TrimPrefix(url, "http://")
	tests := []struct {
		name string
		url  string
		auth couchdb.Auth
		ok   bool
	}{
		{"none", url, couchdb.Auth{}, false},
		{"in the URL", in, couchdb.Auth{}, true},
		{"basic", url, couchdb.Auth{Username: "user", Password: secret}, true},
		{"session", url, couchdb.Auth{Username: "user", Password: secret, Session: true}, true},
		{"session, from the URL", in, couchdb.Auth{Session: true}, true},
		{"bearer", url, couchdb.Auth{Token: token(secret + "\n")}, true},
		{"bearer rather than the URL", "http://user:wrong@" + strings.TrimPrefix(url, "http://"), couchdb.Auth{Token: token(secret)}, true},
		{"proxy", url, couchdb.Auth{Proxy: &couchdb.ProxyAuth{Username: "user", Roles: []string{"a", "b"}, Secret: secret}}, true},
		{"wrong basic", url, couchdb.Auth{Username: "user", Password: secret + "x"}, false},
		{"wrong session", url, couchdb.Auth{Username: "user", Password: secret + "x", Session: true}, false},
		{"wrong bearer", url, couchdb.Auth{Token: token(secret + "x")}, false},
		{"wrong proxy", url, couchdb.Auth{Proxy: &couchdb.ProxyAuth{Username: "user", Secret: secret + "x"}}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			db, err := couchdb.Open(couchdb.Config{URL: test.url, Auth: test.auth})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, err = db.Info(t.Context())
				if test.ok && err != nil || !test.ok && !errors.Is(err, couchdb.ErrUnauthorized) {
					t.Error(err)
				}
				if err != nil && (strings.Contains(err.Error(), "s3c") || strings.Contains(err.Error(), "wrong@")) {
					t.Errorf("error has a secret: %v", err)
				}
			}
		})
	}
}

// TestProxyToken compares tokens with examples (RFC 2202 and RFC 4231, test case 2: key "Jefe").
func TestProxyToken(t *testing.T) {
	for sha256, want := range map[bool]string{
		false: "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
		true:  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
	} {
		var got []string
		inWorld(t, func(w http.ResponseWriter, r *http.Request) {
			got = []string{r.Header.Get("X-Auth-CouchDB-UserName"), r.Header.Get("X-Auth-CouchDB-Roles"), r.Header.Get("X-Auth-CouchDB-Token")}
			_, _ = io.WriteString(w, info)
		}, func(t *testing.T, n *memnet.Net) {
			db := open(t, n, couchdb.Config{Auth: couchdb.Auth{Proxy: &couchdb.ProxyAuth{
				Username: "what do ya want for nothing?", Roles: []string{"a", "b"}, Secret: "Jefe", SHA256: sha256,
			}}})
			if _, err := db.Info(t.Context()); err != nil {
				t.Error(err)
			}
		})
		if diff := cmp.Diff([]string{"what do ya want for nothing?", "a,b", want}, got); diff != "" {
			t.Error(diff)
		}
	}
}

// TestAuthConfig rejects contradictory and incomplete credentials.
func TestAuthConfig(t *testing.T) {
	token := func(context.Context) (string, error) { return "", nil }
	for _, auth := range []couchdb.Auth{
		{Username: "user", Token: token},
		{Token: token, Proxy: &couchdb.ProxyAuth{Username: "user"}},
		{Session: true},
		{Proxy: &couchdb.ProxyAuth{}},
	} {
		if _, err := couchdb.Open(couchdb.Config{URL: "http://couch.test/db", Auth: auth}); err == nil {
			t.Errorf("%+v is accepted", auth)
		}
	}
}

// A sessionServer hands out cookies that can be used three times.
type sessionServer struct {
	mu      sync.Mutex
	logins  int
	left    int // how often the newest cookie can still be used
	refuse  bool
	renewal string // cookie that is sent with each answer
}

func (s *sessionServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cookie, _ := r.Cookie("AuthSession")
	switch {
	case r.URL.Path == "/_session":
		var sent struct{ Name, Password string }
		if json.NewDecoder(r.Body).Decode(&sent) != nil || sent.Name != "user" || sent.Password != secret || s.refuse {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.logins++
		s.left = 3
		http.SetCookie(w, &http.Cookie{Name: "AuthSession", Value: "cookie" + string(rune('0'+s.logins)), HttpOnly: true})
		_, _ = io.WriteString(w, `{"ok":true}`)
	case r.Header.Get("Authorization") != "":
		w.WriteHeader(http.StatusBadRequest)
	case cookie != nil && cookie.Value == s.renewal, cookie != nil && cookie.Value == "cookie"+string(rune('0'+s.logins)) && s.left > 0:
		s.left--
		if s.renewal != "" {
			http.SetCookie(w, &http.Cookie{Name: "AuthSession", Value: s.renewal})
		}
		_, _ = io.WriteString(w, info)
	default:
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"unauthorized","reason":"You are not authorized to access this db."}`)
	}
}

// TestSession: many requests share one login, and the client logs in again only when the session has
// expired.
func TestSession(t *testing.T) {
	s := &sessionServer{}
	inWorld(t, s.ServeHTTP, func(t *testing.T, n *memnet.Net) {
		db := open(t, n, couchdb.Config{Auth: couchdb.Auth{Username: "user", Password: secret, Session: true}})
		for i := range 9 {
			if _, err := db.Info(t.Context()); err != nil {
				t.Fatal(i, err)
			}
		}
		if s.logins != 3 {
			t.Errorf("%d logins", s.logins)
		}
		s.refuse = true
		n.Requests()
		for range 2 {
			if _, err := db.Info(t.Context()); !errors.Is(err, couchdb.ErrUnauthorized) {
				t.Error(err)
			}
		}
		if diff := cmp.Diff([]string{"GET /db", "POST /_session", "POST /_session"}, n.Requests()); diff != "" {
			t.Error(diff)
		}
		s.refuse, s.renewal = false, "renewed"
		for range 9 {
			if _, err := db.Info(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if s.logins != 4 {
			t.Errorf("%d logins, though the cookie was renewed", s.logins)
		}
	})
}

// TestSessionEnds: the client logs in again before its session expires. To the server, a client with an
// old cookie is anonymous. In a public database, this shows only when a request needs the user's rights.
func TestSessionEnds(t *testing.T) {
	for _, test := range []struct {
		maxAge int // stated by the server, in seconds; 0: not stated
		pause  time.Duration
		logins int // in 10 requests
	}{
		{0, 0, 1}, {0, 5 * time.Minute, 1}, {0, 10 * time.Minute, 10}, {600, 5 * time.Minute, 1}, {600, 550 * time.Second, 10},
		{60, 50 * time.Second, 1}, {60, time.Minute, 10}, {3600, 10 * time.Minute, 1}, {3600, time.Hour, 10},
	} {
		logins, lastUse := 0, time.Time{}
		inWorld(t, func(w http.ResponseWriter, r *http.Request) {
			cookie := http.Cookie{Name: "AuthSession", Value: "cookie", MaxAge: test.maxAge}
			life := 10 * time.Minute // CouchDB's default
			if test.maxAge > 0 {
				life = time.Duration(test.maxAge) * time.Second
			}
			switch {
			case r.URL.Path == "/_session":
				logins++
			case time.Since(lastUse) >= life:
				t.Errorf("%+v: request with an expired cookie", test)
			}
			lastUse = time.Now()
			http.SetCookie(w, &cookie) // CouchDB renews it
			_, _ = io.WriteString(w, info)
		}, func(t *testing.T, n *memnet.Net) {
			db := open(t, n, couchdb.Config{Auth: couchdb.Auth{Username: "user", Password: secret, Session: true}})
			for range 10 {
				if _, err := db.Info(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(test.pause)
			}
			if logins != test.logins {
				t.Errorf("%+v: %d logins", test, logins)
			}
		})
	}
}

// TestOneLogin: requests that find the session expired at the same time share a
// login.
func TestOneLogin(t *testing.T) {
	s := &sessionServer{}
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_session" {
			time.Sleep(time.Second)
		}
		s.mu.Lock()
		s.left = 1 << 30
		s.mu.Unlock()
		s.ServeHTTP(w, r)
	}
	inWorld(t, handler, func(t *testing.T, n *memnet.Net) {
		db := open(t, n, couchdb.Config{Auth: couchdb.Auth{Username: "user", Password: secret, Session: true}})
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := db.Info(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if s.logins != 1 {
			t.Errorf("%d logins", s.logins)
		}
	})
}

// TestSecrets: whatever the server responds, credentials are not sent to another host, and no error
// contains them.
func TestSecrets(t *testing.T) {
	auths := map[string]couchdb.Config{
		"basic":   {Auth: couchdb.Auth{Username: "user", Password: "s3cret"}},
		"session": {Auth: couchdb.Auth{Username: "user", Password: "s3cret", Session: true}},
		"bearer":  {Auth: couchdb.Auth{Token: func(context.Context) (string, error) { return "s3cret", nil }}},
		"proxy":   {Auth: couchdb.Auth{Proxy: &couchdb.ProxyAuth{Username: "user", Secret: "s3cret"}}},
		"header":  {Header: http.Header{"x-api-key": {"s3cret"}}},
		"URL":     {URL: "http://user:s3cret@couch.test/db"},
	}
	answers := map[string]http.HandlerFunc{
		"echo": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error":"unauthorized","reason":"unauthorized to access or create database http://user:s3cret@couch.test/db"}`)
		},
		"header": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, `{"error":"unauthorized","reason":"%s"}`, r.Header.Get("Authorization"))
		},
		"other host": func(w http.ResponseWriter, r *http.Request) {
			if r.Host != "couch.test" {
				t.Errorf("%s requested from %s", r.URL, r.Host)
			}
			w.Header().Set("Location", "http://user:s3cret@evil.test/db")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		"loop": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/db")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		"lost": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	for how, config := range auths {
		for what, answer := range answers {
			t.Run(how+"/"+what, func(t *testing.T) {
				inWorld(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/_session" {
						http.SetCookie(w, &http.Cookie{Name: "AuthSession", Value: "s3cret"})
						return
					}
					all := r.Header.Get("Authorization") + r.Header.Get("Cookie") + r.Header.Get("X-Auth-CouchDB-Token") + r.Header.Get("X-Api-Key")
					if all == "" {
						t.Error("request without credentials")
					}
					answer(w, r)
				}, func(t *testing.T, n *memnet.Net) {
					_, err := open(t, n, config).Info(t.Context())
					if err == nil || what != "echo" && what != "header" && strings.Contains(err.Error(), "s3cret") {
						t.Error(err)
					}
					knowsIt := how == "basic" || how == "session" || how == "URL"
					encoded := base64.StdEncoding.EncodeToString([]byte("user:s3cret"))
					if knowsIt && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), encoded)) {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestTokenRenewed: each request uses the current token.
func TestTokenRenewed(t *testing.T) {
	tokens := []string{"one", "two"}
	var got []string
	inWorld(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, info)
	}, func(t *testing.T, n *memnet.Net) {
		missing := errors.New("there is no token")
		db := open(t, n, couchdb.Config{Auth: couchdb.Auth{Token: func(context.Context) (string, error) {
			if len(tokens) == 0 {
				return "", missing
			}
			token := tokens[0]
			tokens = tokens[1:]
			return token, nil
		}}})
		for range 2 {
			if _, err := db.Info(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if _, err := db.Info(t.Context()); !errors.Is(err, missing) {
			t.Error(err)
		}
	})
	if diff := cmp.Diff([]string{"Bearer one", "Bearer two"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestSessionsOfSeveralServers: if servers do not accept each other's sessions, the client logs in again.
func TestSessionsOfSeveralServers(t *testing.T) {
	logins := 0
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_session" {
			logins++
			http.SetCookie(w, &http.Cookie{Name: "AuthSession", Value: strconv.Itoa(logins)})
			return
		}
		if c, err := r.Cookie("AuthSession"); err != nil || c.Value != "3" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"db_name":"db","update_seq":"1-x"}`)
	}
	inWorld(t, handler, func(t *testing.T, n *memnet.Net) {
		db := open(t, n, couchdb.Config{Auth: couchdb.Auth{Username: "user", Password: secret, Session: true}})
		if _, err := db.Info(t.Context()); err != nil || logins != 3 {
			t.Errorf("%d logins, %v", logins, err)
		}
	})
}
