package against_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/against"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/kinto"
)

func openKinto(t *testing.T, url, user string) against.Kinto {
	c, err := kinto.Open(kinto.Config{URL: url, Auth: kinto.Auth{Username: user, Password: "secret"}, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	return against.Kinto{Collection: c}
}

// TestKinto: a collection is listed in pages, all of which show the same state.
func TestKinto(t *testing.T) {
	t.Parallel()
	url := kintotest.StartOwn(t, kintotest.Memory, "paginate_by=7").NewCollection(t)
	for n := range 20 {
		kintotest.Send(t, http.MethodPut, fmt.Sprintf("%s/records/r%02d", url, n), fmt.Sprintf(`{"data":{"n":%d}}`, n))
	}
	kintotest.Send(t, http.MethodDelete, url+"/records/r03", "")
	kintotest.Send(t, http.MethodPut, url+"/records/deleted", `{"data":{"deleted":true}}`) // a live record with a member "deleted"
	k := openKinto(t, url, kintotest.User)
	for _, bodies := range []bool{true, false} {
		state, err := k.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		err = k.List(t.Context(), state, bodies, func(i against.Item) error {
			found[i.Key] = true
			stamp := strings.Trim(i.Version, `"`)
			if bodies != strings.Contains(string(i.Body), `"last_modified":`+stamp) {
				t.Errorf("%s in version %s has the body %s", i.Key, i.Version, i.Body)
			}
			return nil
		})
		if err != nil || len(found) != 20 || found["r03"] || !found["deleted"] {
			t.Errorf("listed %v, %v", found, err)
		}
	}
	state, err := k.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = k.List(t.Context(), state, false, func(against.Item) error {
		if n++; n == 3 {
			kintotest.Send(t, http.MethodPut, url+"/records/later", "")
		}
		return nil
	})
	if !errors.Is(err, against.ErrChanged) || n != 7 {
		t.Errorf("after %d records of a list that changed: %v", n, err)
	}
	stop := errors.New("stop")
	if state, err = k.State(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := k.List(t.Context(), state, false, func(against.Item) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error of the callback: %v", err)
	}
}

// TestKintoRights: a user without the right to read the collection gets an error, not a list of the
// shared records.
func TestKintoRights(t *testing.T) {
	t.Parallel()
	root := kintotest.Start(t, kintotest.Memory).URL()
	url := root + "/buckets/private/collections/c"
	kintotest.Send(t, http.MethodPut, root+"/buckets/private", "")
	kintotest.Send(t, http.MethodPut, url, "")
	kintotest.Send(t, http.MethodPut, url+"/records/shared", `{"permissions":{"read":["system.Everyone"]}}`)
	if _, err := openKinto(t, url, "stranger").State(context.Background()); !errors.Is(err, kinto.ErrForbidden) {
		t.Errorf("stranger: %v", err)
	}
	kintotest.Send(t, http.MethodPut, root+"/buckets/private/collections/feedctl-positions", "")
	kintotest.Send(t, http.MethodPut, root+"/buckets/private/collections/public", `{"permissions":{"read":["system.Everyone"]}}`)
	for _, auth := range []kinto.Auth{{}, {Username: "stranger", Password: "secret"}} {
		c, err := kinto.Open(kinto.Config{URL: root + "/buckets/private/collections/public", Auth: auth, Attempts: 1})
		if err != nil {
			t.Fatal(err)
		}
		k := against.Kinto{Collection: c}
		if _, err := k.State(t.Context()); err != nil {
			t.Errorf("%q: %v", auth.Username, err)
		}
		if target, err := k.IsTarget(t.Context()); target || err != nil {
			t.Errorf("%q, without the right to read the positions: %v, %v", auth.Username, target, err)
		}
	}
	if _, err := openKinto(t, url+"-other", kintotest.User).State(context.Background()); !errors.Is(err, kinto.ErrNotFound) {
		t.Errorf("no collection: %v", err)
	}
}
