package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
)

// TestKintoSinkFrozen: a sink is stopped by SIGSTOP after each of its first requests to write. Another one
// takes over and writes everything; then the first continues. The first sink must end, and the collection must have the
// records with which the feed ends.
func TestKintoSinkFrozen(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, dir: t.TempDir(), store: "file:" + t.TempDir()}
	feedctl(t, "init", r.store)
	r.startServer(0)
	want := r.publishSteps()
	for _, backend := range kintotest.Backends {
		server := kintotest.Start(t, backend)
		for after := range 4 { // each chunk takes two
			t.Run(fmt.Sprintf("%s after %d", backend, after+1), func(t *testing.T) {
				t.Parallel() // it mostly waits
				into := server.NewCollection(t)
				through, frozen := &process{t: t, name: "sink"}, make(chan struct{})
				proxy := freezer(t, server.URL(), after, through, frozen)
				consume := []string{"consume", r.url(0), "--batch-entities", "8", "--log-level", "error", "--into"}
				through.args = append(consume, "kinto:"+strings.Replace(into, server.URL(), proxy, 1))
				through.start()
				t.Cleanup(func() { through.kill(os.Kill) })
				<-frozen
				feedctl(t, append(consume, "kinto:"+into)...)
				if diff := cmp.Diff(want, decoded(t, into)); diff != "" {
					t.Errorf("after the takeover, the collection differs (-want +got):\n%s", diff)
				}
				if err := through.cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				waitFor(t, through.stderr.String, through.ended)
				if through.err == nil || !strings.Contains(through.stderr.String(), "another consumer has taken the sink over") {
					t.Errorf("the first sink has ended: %v\n%s", through.err, through.stderr)
				}
				if diff := cmp.Diff(want, decoded(t, into)); diff != "" {
					t.Errorf("in the end, the collection differs (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// freezer returns the URL of a proxy in front of a server. It lets the given number of write requests pass, and then
// stops the process p before p gets the response to the next one.
func freezer(t *testing.T, server string, after int, p *process, frozen chan<- struct{}) string {
	t.Helper()
	root, err := url.Parse(strings.TrimSuffix(server, "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	var written atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(root)
	proxy.ModifyResponse = func(response *http.Response) error {
		if response.Request.Method != http.MethodPost || written.Add(1) != int64(after+1) {
			return nil
		}
		defer close(frozen)
		return p.cmd.Process.Signal(syscall.SIGSTOP)
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// publishSteps publishes a feed in which keys change several times and are deleted, and returns the values with which the
// feed ends, by key.
func (r *rig) publishSteps() map[string]any {
	r.t.Helper()
	store, err := storage.Registry{"file": file.Open}.Open(r.t.Context(), r.store)
	if err != nil {
		r.t.Fatal(err)
	}
	defer store.Close()
	f, err := producer.Open(r.t.Context(), store, "events", producer.Config{})
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	left := map[string]any{}
	for n := range 64 {
		key := fmt.Sprint("r", n*7%20)
		e := &feed.Entity{Operation: feed.Put, ContentType: "application/json", ContentLocation: key, Body: fmt.Appendf(nil, `{"n":%d}`, n)}
		left[key] = map[string]any{"n": float64(n)}
		if n%3 == 2 {
			e = &feed.Entity{Operation: feed.Delete, ContentLocation: key}
			delete(left, key)
		}
		if _, err := f.Publish(r.t.Context(), e); err != nil {
			r.t.Fatal(err)
		}
	}
	return left
}
