package couchtest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestNamed: a server that the environment names can be used even if it requires a password.
func TestNamed(t *testing.T) {
	fake := NewFake(t)
	fake.Require(Credentials{User: "admin", Password: "a:b/@"})
	withUser := func(user *url.Userinfo) string {
		u, err := url.Parse(fake.URL())
		if err != nil {
			t.Fatal(err)
		}
		u.User = user
		return u.String()
	}
	t.Setenv(Variable, withUser(url.UserPassword("admin", "a:b/@")))
	s, err := named()
	if err != nil {
		t.Fatal(err)
	}
	var db string
	t.Run("test", func(t *testing.T) {
		db = s.NewDB(t)
		Send(t, http.MethodPut, db+"/a%2Fb", `{"n":1}`)
		if got := Send(t, http.MethodGet, db+"/a%2Fb", ""); !strings.Contains(got, `"_id":"a/b"`) {
			t.Errorf("the document is %s", got)
		}
		DeleteAtEnd(t, db+"-never-created")
	})
	if err := request(http.MethodGet, db); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("after the test, the database still exists: %v", err)
	}
	t.Run("killed", func(t *testing.T) { // kills the server of this test, not the one that others use
		own := StartOwn(t)
		own.NewDB(t)
		own.Kill()
	})
	if s.Kill(); s.Restart() == nil {
		t.Error("a server that others use was started again")
	}

	// CouchDB responds like this to _design%2Fx, with its own address.
	fake.Inject(1, On("", "_design%2Fx"), func(w http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		http.Redirect(w, r, fake.URL()+"/_session?x=1", http.StatusMovedPermanently)
	})
	s, err = named()
	if err != nil {
		t.Fatal(err)
	}
	if got := Send(t, http.MethodGet, s.URL()+"/db/_design%2Fx", ""); !strings.Contains(got, "admin") {
		t.Errorf("a redirect leads to %s", got)
	}

	for _, wrong := range []string{
		"127.0.0.1:5984", "http://", "ftp://admin:secret@127.0.0.1", "http://admin:secret@127.0.0.1:1", "http://admin:secret@[",
		fake.URL() + "?x=1", withUser(url.UserPassword("admin", "secret")),
	} {
		t.Setenv(Variable, wrong)
		if s, err := named(); err == nil || s != nil {
			t.Errorf("%s is taken", wrong)
		} else if !strings.Contains(err.Error(), Variable) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
