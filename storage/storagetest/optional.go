package storagetest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/storage"
)

// optional returns the store as a T, and fails the test if the store does not implement T.
func optional[T any](t *testing.T, s *suite) T {
	t.Helper()
	o, ok := storage.As[T](s.store)
	if !ok {
		t.Fatalf("the store is not a %T", &o)
	}
	return o
}

// testProperties compares the properties of the store with the expected ones.
func testProperties(t *testing.T, s *suite) {
	if diff := cmp.Diff(s.opts.Properties, storage.PropertiesOf(s.store)); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}

// testSync syncs an object that exists, one that was deleted, and one that never existed. The state
// after a crash can be checked only by a driver's own tests.
func testSync(t *testing.T, s *suite) {
	syncer := optional[storage.Syncer](t, s)
	ctx := t.Context()
	key, deleted := s.key("a/there"), s.key("b/deleted")
	version := s.create(t, key, claimOf("x", 1, []byte("body")), "body")
	s.create(t, deleted, storage.Meta{}, "")
	if err := s.store.Delete(ctx, deleted); err != nil {
		t.Fatal(err)
	}
	was := take(t, s.store, key)
	for _, key := range []string{key, deleted, s.key("c/d/never")} {
		if err := syncer.Sync(ctx, key); err != nil {
			t.Errorf("Sync %s: %v", key, err)
		}
	}
	unchanged(t, s.store, key, was)
	unchanged(t, s.store, deleted, nil)
	if _, err := s.store.Append(ctx, key, version, storage.Meta{}, storage.Bytes([]byte("+"))); err != nil {
		t.Errorf("Append after Sync: %v", err)
	}
	for _, bad := range []string{"", "/", "../a", "a//b", "a/"} {
		wantError(t, "Sync "+bad, syncer.Sync(ctx, bad), storage.ErrKey)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	wantError(t, "Sync", syncer.Sync(ended, key), context.Canceled)
}

// testPresign reads objects over HTTP. Any data that the driver adds must follow the body.
func testPresign(t *testing.T, s *suite) {
	presigner := optional[storage.Presigner](t, s)
	key, late := s.key("a/there"), s.key("a/late")
	body := bytes.Repeat([]byte("0123456789\x00\xff\r\n"), 100)
	version := s.create(t, key, storage.Meta{ContentType: "text/x-test", CacheControl: "no-cache"}, string(body))
	urls := make(map[string]string)
	for _, key := range []string{key, late} {
		u, err := presigner.Presign(t.Context(), key, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		urls[key] = u
	}
	s.fetched(t, urls[key], body)
	if status, _, _ := fetch(t, urls[late]); status < 400 || status > 499 {
		t.Errorf("URL of a missing object: status %d", status)
	}
	s.create(t, late, storage.Meta{ContentType: "text/x-test"}, "late")
	s.fetched(t, urls[late], []byte("late"))
	if _, err := s.store.Append(t.Context(), key, version, storage.Meta{ContentType: "text/x-test"}, storage.Bytes([]byte("+"))); err != nil {
		t.Fatal(err)
	}
	s.fetched(t, urls[key], append(body, '+'))
	if _, err := presigner.Presign(t.Context(), "../a", time.Hour); err == nil {
		t.Error("Presign of an invalid key: no error")
	} else {
		wantError(t, "Presign of an invalid key", err, storage.ErrKey)
	}
	for _, valid := range []time.Duration{0, -time.Hour} {
		if _, err := presigner.Presign(t.Context(), key, valid); err == nil {
			t.Errorf("Presign for %v: no error", valid)
		}
	}
}

// fetched fails the test unless a request for the URL returns the given body.
func (s *suite) fetched(t *testing.T, url string, body []byte) {
	t.Helper()
	status, contentType, got := fetch(t, url)
	if status != http.StatusOK || contentType != "text/x-test" {
		t.Errorf("presigned URL: status %d, type %q", status, contentType)
	}
	if s.opts.LargerSizes {
		got = got[:min(len(got), len(body))]
	}
	if !bytes.Equal(got, body) {
		t.Errorf("presigned URL: body is %.80q, want %.80q", got, body)
	}
}

func fetch(t *testing.T, url string) (status int, contentType string, body []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("Content-Type"), body
}

// testRequests compares the numbers of requests before and after operations.
func testRequests(t *testing.T, s *suite) {
	counter := optional[storage.Counter](t, s)
	total := func() (n uint64) {
		for operation, count := range counter.Requests() {
			if operation == "" || count == 0 {
				t.Errorf("operation %q was counted %d times", operation, count)
			}
			n += count
		}
		return n
	}
	key, seen := s.key("a"), total()
	version := s.create(t, key, storage.Meta{}, "body")
	more := func(what string, least uint64) {
		t.Helper()
		now := total()
		if now < seen+least {
			t.Errorf("%s was counted as %d requests, want at least %d", what, now-seen, least)
		}
		seen = now
	}
	more("Create", 1)
	if _, err := s.store.Append(t.Context(), key, version, storage.Meta{}, storage.Bytes([]byte("+"))); err != nil {
		t.Fatal(err)
	}
	more("Append", 1)
	take(t, s.store, key)
	more("Get and Stat", 2)
	s.list(t, s.prefix, "")
	more("List", 1)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := s.store.Stat(t.Context(), key); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	more("Stat at the same time", 8)
	clear(counter.Requests()) // the caller may change the returned map
	if now := total(); now < seen {
		t.Errorf("%d requests after %d: Requests does not return a copy", now, seen)
	}
}

// testProbe probes a conforming server, once and then concurrently.
func testProbe(t *testing.T, s *suite) {
	prober := optional[storage.Prober](t, s)
	probe := func() {
		checks, err := prober.Probe(t.Context())
		if err != nil {
			t.Errorf("Probe: %v", err)
		}
		if len(checks) == 0 {
			t.Error("Probe: no checks")
		}
		for _, c := range checks {
			if !c.OK || c.Name == "" || c.Detail == "" {
				t.Errorf("Probe: %+v", c)
			}
		}
	}
	probe()
	var both sync.WaitGroup
	for range 2 {
		both.Go(probe)
	}
	both.Wait()
	if got := s.list(t, "", ""); len(got) > 0 {
		t.Errorf("List after Probe: %q", got)
	}
	s.create(t, s.key("a"), storage.Meta{}, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := prober.Probe(ctx)
	wantError(t, "Probe", err, context.Canceled)
}

// testRecover restores an object with an earlier state of its body.
func testRecover(t *testing.T, s *suite) {
	recoverer := optional[storage.Recoverer](t, s)
	ctx, key := t.Context(), s.key("a/b")
	version := s.create(t, key, storage.Meta{Data: []byte("1")}, "one")
	version, err := s.store.Append(ctx, key, version, storage.Meta{Data: []byte("2")}, storage.Bytes([]byte("two")))
	if err != nil {
		t.Fatal(err)
	}
	s.create(t, s.key("a/c"), storage.Meta{}, "other")
	keys, err := collect(recoverer.LeftoverKeys(ctx, s.key("a/")))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{key, s.key("a/c")}; !slices.Equal(keys, want) {
		t.Errorf("LeftoverKeys: %q, want %q", keys, want)
	}
	leftovers, err := recoverer.Leftovers(ctx, key)
	if err != nil || len(leftovers) != 1 {
		t.Fatalf("Leftovers: %+v, error %v", leftovers, err)
	}
	r := leftovers[0]
	if r.Key != key || r.Size != 6 || !r.Current || len(r.States) == 0 || r.States[0].Version != version || r.States[0].Size != 6 {
		t.Errorf("Leftovers: %+v, want one of 6 bytes with version %s", r, version)
	}
	body, err := recoverer.OpenLeftover(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if data, err := io.ReadAll(body); string(data) != "onetwo" || err != nil {
		t.Errorf("OpenLeftover: %q, error %v", data, err)
	}
	restored, err := recoverer.Restore(ctx, r, 3, storage.Meta{Data: []byte("restored")})
	if err != nil {
		t.Fatal(err)
	}
	is(t, s.store, key, restored, storage.Meta{Data: []byte("restored")}, []byte("one"))
	_, err = s.store.Append(ctx, key, version, storage.Meta{}, storage.Bytes([]byte("x")))
	wantError(t, "Append at the version before", err, storage.ErrConflict)
	if restored, err = s.store.Append(ctx, key, restored, storage.Meta{}, storage.Bytes([]byte("+"))); err != nil {
		t.Fatal(err)
	}
	is(t, s.store, key, restored, storage.Meta{}, []byte("one+"))
	if left, err := recoverer.Leftovers(ctx, s.key("never")); len(left) > 0 || err != nil {
		t.Errorf("Leftovers of a key that was never written: %+v, error %v", left, err)
	}
	_, err = recoverer.Leftovers(ctx, strings.Repeat("x", storage.MaxKey+1))
	wantError(t, "Leftovers of an invalid key", err, storage.ErrKey)
}
