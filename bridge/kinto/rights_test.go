package kinto

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/kinto"
)

// guest returns the credentials of a user without the rights of [kintotest.User].
func guest() kinto.Auth { return kinto.Auth{Username: "guest", Password: kintotest.Password} }

// principal returns the name of a user in permissions.
func principal(t *testing.T, server *kintotest.Server, user kinto.Auth) string {
	t.Helper()
	s, err := kinto.OpenServer(kinto.Config{URL: server.URL(), Auth: user})
	if err != nil {
		t.Fatal(err)
	}
	root, err := s.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root.User.ID
}

// newPrivateRig returns a rig with a collection that only [kintotest.User] may read and write.
func newPrivateRig(t *testing.T, server *kintotest.Server) *rig {
	t.Helper()
	r := newRigOf(t, server.NewCollection(t))
	bucket, _, _ := strings.Cut(r.url, "/collections/")
	kintotest.Send(t, http.MethodPatch, bucket, `{"permissions":{"write":[]}}`)
	return r
}

// share lets only the given users and the owner read the collection or, if path is not empty, the object
// at that path below the collection.
func (r *rig) share(path string, users ...string) {
	r.t.Helper()
	body, err := json.Marshal(map[string]any{"permissions": map[string][]string{"read": append([]string{}, users...)}})
	if err != nil {
		r.t.Fatal(err)
	}
	kintotest.Send(r.t, http.MethodPatch, r.url+path, string(body))
}

// TestRightsRemoved: a user may no longer read a collection, while single records are still shared
// with the user: the server still lists the shared records, and has no tombstones of the others. The
// bridge ends, and deletes nothing.
func TestRightsRemoved(t *testing.T) {
	t.Parallel()
	for _, backend := range kintotest.Backends {
		server := kintotest.Start(t, backend)
		for _, follow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s follow %t", backend, follow), func(t *testing.T) {
				r := newPrivateRig(t, server)
				user := principal(t, server, guest())
				r.fill(0, 30)
				// A user who may create records may read the metadata of the collection, too.
				kintotest.Send(t, http.MethodPatch, r.url, fmt.Sprintf(`{"permissions":{"record:create":[%q]}}`, user))
				r.share("", user)
				for n := range 5 {
					r.share(fmt.Sprint("/records/r", n), user)
				}
				r.configure = func(c *Config) {
					r.as(guest())(c)
					c.OnGone, c.MaxGone = Delete, 100
				}
				f := r.following()
				f.caughtUp(r.listed())
				if !follow {
					f.stop()
				}
				f.between(func() {
					r.share("")
					r.put("r1", `"n":"new"`)
					r.put("r20", `"n":"new"`)
				})
				if got := len(r.listedTo(guest())); got != 5 {
					t.Fatalf("the server lists %d records", got)
				}
				if follow {
					f.stops(ErrRights, 30)
				}
				configure := r.configure
				r.configure = func(c *Config) {
					configure(c)
					c.ReconcileNow = true
				}
				if _, err := r.tryRun(r.store); !errors.Is(err, ErrRights) {
					t.Errorf("error is %v", err)
				}
				if got := len(r.fold()); got != 30 {
					t.Errorf("the feed has %d records", got)
				}
				r.share("", user)
				r.run()
				r.check()
			})
		}
	}
}
