package couchdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
)

// started runs a bridge until stop is called, which returns what Run returned.
func (r *rig) started() (stop func() (Report, error)) {
	r.t.Helper()
	b := r.open(r.store)
	ctx, cancel := context.WithCancelCause(r.t.Context())
	var report Report
	var err error
	var done sync.WaitGroup
	done.Go(func() { report, err = b.Run(ctx) })
	return func() (Report, error) {
		cancel(errors.New("enough"))
		done.Wait()
		return report, errors.Join(err, b.Close())
	}
}

// await waits until the feed holds n entities.
func (r *rig) await(n int) {
	r.t.Helper()
	watch, err := r.store.(*memory.Store).Watch(r.t.Context(), "feeds/")
	if err != nil {
		r.t.Fatal(err)
	}
	for len(r.events()) < n {
		select {
		case <-watch:
		case <-r.t.Context().Done():
			r.t.Fatal("the test ends")
		}
	}
}

// TestFollow: changes made while the bridge waits are published at once, even after the connection was
// lost.
func TestFollow(t *testing.T) {
	for _, longPoll := range []bool{false, true} {
		t.Run(fmt.Sprint("long poll ", longPoll), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.configure = func(c *Config) { c.Follow, c.LongPoll = true, longPoll }
			r.fill(0, 3)
			stop := r.started()
			r.await(3)
			for n := 3; n < 10; n++ {
				r.fill(n, n+1)
				r.await(n + 1)
				if n == 6 {
					r.fake.Drop()
				}
			}
			r.fake.Rewind(r.url, "0")
			r.fill(10, 11)
			r.await(11)
			report, err := stop()
			if err == nil || !strings.Contains(err.Error(), "enough") || report.Published != 11 {
				t.Errorf("%+v, %v", report, err)
			}
			r.check()
		})
	}
}

// TestIdle: when Idle is called, the feed has what the source had at the previous call.
func TestIdle(t *testing.T) {
	for name, configure := range map[string]func(*Config){
		"continuous": func(*Config) {},
		"long poll":  func(c *Config) { c.LongPoll = true },
		"selector":   func(c *Config) { c.Filter.Selector = json.RawMessage(`{"n":{"$gte":0}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigOf(t, Options{})
			var written atomic.Int64
			var b *Bridge
			before, calls := int64(0), make(chan int64, 1000)
			r.configure = func(c *Config) {
				configure(c)
				c.Follow, c.Idle = true, func() {
					if held := b.Progress().Published; held < before {
						t.Errorf("the feed has %d documents, the source had %d at the previous call", held, before)
					}
					before = written.Load()
					calls <- before
				}
			}
			b = r.open(r.store)
			b.heartbeat = 200 * time.Millisecond
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := b.Run(ctx)
				done <- err
			}()
			for n := range 100 {
				r.do("PUT", fmt.Sprint("/doc", n), fmt.Sprintf(`{"n":%d}`, n))
				written.Add(1)
			}
			for <-calls < 100 {
			}
			<-calls
			stop()
			if err := errors.Join(<-done, b.Close()); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

// TestIdleWhilePublishing: Idle is not called while changes that were read are not in the feed yet.
func TestIdleWhilePublishing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var idle, pages atomic.Int64
	r.configure = func(c *Config) { c.Follow, c.Idle = true, func() { idle.Add(1) } }
	held := make(chan struct{})
	b := r.open(fault.Wrap(r.store, func(op fault.Op) fault.Outcome {
		if op.Verb.Writes() {
			pages.Add(1)
			<-held
		}
		return fault.Pass
	}))
	b.heartbeat = 50 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := b.Run(ctx)
		done <- err
	}()
	for idle.Load() == 0 {
		runtime.Gosched()
	}
	r.fill(0, 1)
	for pages.Load() == 0 {
		runtime.Gosched()
	}
	before := idle.Load()
	for n := r.endChecks(); n < 5 && idle.Load() <= before+1; n += r.endChecks() {
		runtime.Gosched()
	}
	if after := idle.Load(); after > before+1 { // a check was under way
		t.Errorf("called %d times while a change was being published", after-before)
	}
	close(held)
	for before := idle.Load(); idle.Load() < before+2; {
		runtime.Gosched()
	}
	stop()
	if err := errors.Join(<-done, b.Close()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.check()
}

// endChecks returns how many times the end of the source was requested since the last call.
func (r *rig) endChecks() (n int) {
	for _, request := range r.fake.Requests() {
		if strings.Contains(request, "feed=normal") && strings.Contains(request, "limit=1&") {
			n++
		}
	}
	return n
}

// A lateFeed holds back the rows of continuous feeds, but not their heartbeats.
type lateFeed struct {
	http.RoundTripper
	held atomic.Bool
}

func (l *lateFeed) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Get("feed") == "continuous" {
		response.Body = &lateBody{response.Body, &l.held, nil}
	}
	return response, err
}

type lateBody struct {
	io.ReadCloser
	held    *atomic.Bool
	pending []byte
}

func (b *lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.pending = append(b.pending, p[:n]...)
	if b.held.Load() {
		return copy(p, "\n"), err
	}
	n = copy(p, b.pending)
	b.pending = b.pending[n:]
	return n, err
}

// TestIdleWhileLate: Idle is not called while the source has changes that have not arrived, although
// its heartbeats do.
func TestIdleWhileLate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var idle atomic.Int64
	late := &lateFeed{RoundTripper: http.DefaultTransport}
	r.configure = func(c *Config) {
		source, err := couchdb.Open(couchdb.Config{URL: r.url, HTTP: &http.Client{Transport: late}})
		if err != nil {
			t.Fatal(err)
		}
		c.Source, c.Follow, c.Idle = source, true, func() { idle.Add(1) }
	}
	b := r.open(r.store)
	b.heartbeat = 50 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := b.Run(ctx)
		done <- err
	}()
	for idle.Load() == 0 {
		runtime.Gosched()
	}
	late.held.Store(true)
	r.fill(0, 1)
	before := idle.Load()
	r.endChecks()
	for n := 0; n < 5 && idle.Load() <= before+1; n += r.endChecks() {
		runtime.Gosched()
	}
	if after := idle.Load(); after > before+1 { // a check was under way
		t.Errorf("called %d times while the source had a change that had not arrived", after-before)
	}
	late.held.Store(false)
	r.await(1)
	for before := idle.Load(); idle.Load() < before+2; {
		runtime.Gosched()
	}
	stop()
	if err := errors.Join(<-done, b.Close()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.check()
}

// TestTwoBridges: two bridges that publish to one feed, with separate indexes or the same one, slow
// each other down but do no harm.
func TestTwoBridges(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{false, true} {
		t.Run(fmt.Sprint("same index ", same), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.configure = func(c *Config) { c.Follow = true }
			other := *r
			if !same {
				other.dir = t.TempDir()
			}
			other.options = r.options
			stop, stopOther := r.started(), other.started()
			for n := range 30 {
				r.fill(10*n, 10*n+10)
				if n%10 == 5 {
					r.await(10*n + 10)
				}
			}
			r.await(300)
			one, _ := stop()
			two, _ := stopOther()
			if one.Published+two.Published != 300 {
				t.Errorf("%d and %d entities were published", one.Published, two.Published)
			}
			r.check()
		})
	}
}

// TestDuplicates: while the bridge reads, another producer publishes first what the source will have
// later, and then what the bridge is about to publish. The bridge finds both in the feed, and
// publishes neither.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(0, 3)
	r.run()
	both, later := bridge.Version{ID: "both", Rev: r.put("both", `{}`)}, bridge.Version{ID: "later", Rev: "1-a"}
	r.fake.Inject(1, couchtest.On("", "/_changes"), func(w http.ResponseWriter, q *http.Request, healthy http.HandlerFunc) {
		var entities []*feed.Entity
		for _, p := range []bridge.Version{later, both} {
			e := p.Entity(feed.Put, "application/json")
			e.Body = []byte(r.do(http.MethodGet, "/both", ""))
			entities = append(entities, e)
		}
		publish(t, r.store, entities...)
		healthy(w, q)
	})
	if report := r.run(); report.Published != 0 {
		t.Errorf("revisions in the feed were published again: %+v", report)
	}
	r.graft(later.ID, false, `"n":1`, later.Rev)
	if report := r.run(); report.Published != 0 || report.Repeated != 1 || report.Read != 0 {
		t.Errorf("a revision in the feed was not recognised: %+v", report)
	}
}

func publish(t *testing.T, store storage.Store, entities ...*feed.Entity) {
	t.Helper()
	f, err := producer.Open(t.Context(), store, testFeed, producer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Publish(t.Context(), entities...); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestEnd: a bridge whose context ends, at any moment, finishes what it has begun.
func TestEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.options = Options{Revs: true}
	for n := range 20 {
		held := len(r.events())
		r.fill(30*n, 30*n+30)
		stop := r.started()
		if n%2 == 0 {
			r.await(held + 1)
		}
		if _, err := stop(); err != nil && !strings.Contains(err.Error(), "enough") && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		r.verify()
	}
	r.run()
	r.check()
}

// TestServer publishes the changes of a real server in all modes.
func TestServer(t *testing.T) {
	t.Parallel()
	for name, options := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigOf(t, options)
			r.fill(0, 150)
			r.graft("conflict", false, `"v":1`, "2-b", "1-a")
			r.graft("conflict", false, `"v":2`, "2-c", "1-a")
			rev := r.put("gone", `{}`)
			r.do(http.MethodDelete, "/gone?rev="+rev, "")
			r.put("attached", fmt.Sprintf(`{"_attachments":{"a.bin":{"content_type":"application/octet-stream","data":%q}}}`, strings.Repeat("AAAA", 3000)))
			want := int64(153)
			if options.Conflicts {
				want++
			}
			if report := r.run(); report.Published != want {
				t.Errorf("report is %+v", report)
			}
			if report := r.run(); !report.NoChanges || report.Rows != 0 {
				t.Errorf("then %+v", report)
			}
			r.fill(150, 155)
			if report := r.run(); report.Published != 5 {
				t.Errorf("then %+v", report)
			}
			seen := map[string]bool{}
			for _, e := range r.events() {
				if seen[e.ContentID] || (e.Op == feed.Delete) != (e.ID == "gone") {
					t.Errorf("%+v", e)
				}
				seen[e.ContentID] = true
			}
			r.verify()
		})
	}
}

// TestLargeAttachment: memory does not depend on the size of an attachment.
func TestLargeAttachment(t *testing.T) {
	const size = 64 << 20
	r := newRig(t)
	store, err := file.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r.store = store
	r.options = Options{Attachments: Multipart}
	r.put("large", `{"_attachments":{"a":{"content_type":"text/plain","data":"aGVsbG8="}}}`)
	r.fake.Inject(1, func(q *http.Request) bool { return strings.Contains(q.URL.Path, "/_bulk_get") }, func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		w.Header().Set("Content-Type", `multipart/mixed; boundary="outer"`)
		fmt.Fprintf(w, "--outer\r\nContent-Type: multipart/related; boundary=\"inner\"\r\n\r\n--inner\r\nContent-Type: application/json\r\n\r\n"+
			`{"_id":"large","_rev":%q,"_attachments":{"a":{"content_type":"text/plain","length":%d,"follows":true}}}`+
			"\r\n--inner\r\nContent-Length: %d\r\n\r\n", r.rev("large"), size, size)
		_, _ = io.CopyN(w, zeros{}, size)
		fmt.Fprint(w, "\r\n--inner--\r\n--outer--")
	})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	report := r.run()
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; report.Published != 1 || grown > 16<<20 {
		t.Errorf("%d entities were published; %d MiB were allocated for %d MiB", report.Published, grown>>20, size>>20)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestLostConnection: a source sends a heartbeat every few seconds, and a lost connection is logged.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var log bytes.Buffer
	r.configure = func(c *Config) { c.Follow, c.Log = true, slog.New(slog.NewTextHandler(&log, nil)) }
	r.fill(0, 3)
	stop := r.started()
	r.await(3)
	r.fill(3, 4)
	r.await(4) // through the continuous feed
	r.fake.Drop()
	r.fill(4, 5)
	r.await(5)
	_, _ = stop()
	if !strings.Contains(log.String(), "source is unavailable, retrying") {
		t.Errorf("the log is %s", &log)
	}
	for _, request := range r.fake.Requests() {
		if strings.Contains(request, "_changes") && !strings.Contains(request, "heartbeat=5000") {
			t.Error(request)
		}
	}
	r.check()
}
