package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
)

// A faultBed is a server with two stores: clean, without faults, which shows the actual state, and
// faulty, with the faults that are set for each key.
type faultBed struct {
	config        s3.Config
	clean, faulty *s3.Store
	elsewhere     *url.URL // another address of the server; nil if there is none
	keys          atomic.Int64
	faults        sync.Map // by key, a func(s3fault.Request) s3fault.Fault
}

func newFaultBed(t *testing.T) *faultBed {
	t.Helper()
	server := s3test.Start(t)
	u, err := url.Parse(server.URL("faults"))
	if err != nil {
		t.Fatal(err)
	}
	bed := new(faultBed)
	if bed.config, err = s3.ParseURL(u); err != nil {
		t.Fatal(err)
	}
	bed.config.PartSize, bed.config.Memory = faultPart, faultMemory
	if bed.config.Endpoint != "" {
		endpoint, err := url.Parse(bed.config.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		proxy := httptest.NewServer(s3fault.Proxy(endpoint, pass))
		t.Cleanup(proxy.Close)
		if bed.elsewhere, err = url.Parse(proxy.URL); err != nil {
			t.Fatal(err)
		}
	}
	bed.clean = bed.open(t, pass)
	bed.faulty = bed.open(t, bed.decide)
	for _, store := range []*s3.Store{bed.clean, bed.faulty} { // so that the stores need not probe the server later
		if _, err := store.Create(t.Context(), bed.key(), storage.Meta{}, storage.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	return bed
}

func (b *faultBed) decide(r s3fault.Request) s3fault.Fault {
	key := faultKey.FindString(r.Path + r.Prefix)
	if decide, ok := b.faults.Load(key); ok {
		return decide.(func(s3fault.Request) s3fault.Fault)(r)
	}
	return nil
}

var faultKey = regexp.MustCompile("key/[0-9]{6}")

// open opens a store over a transport with faults.
func (b *faultBed) open(t *testing.T, decide func(s3fault.Request) s3fault.Fault) *s3.Store {
	t.Helper()
	store, err := openOver(t.Context(), b.config, decide)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func openOver(ctx context.Context, config s3.Config, decide func(s3fault.Request) s3fault.Fault) (*s3.Store, error) {
	config.Backoff = time.Millisecond
	config.Transport = func(next http.RoundTripper) http.RoundTripper { return s3fault.Wrap(next, decide) }
	return s3.Connect(ctx, config)
}

// pass injects no fault.
func pass(s3fault.Request) s3fault.Fault { return nil }

func (b *faultBed) key() string { return fmt.Sprintf("key/%06d", b.keys.Add(1)) }

// A faultState is the state of an object; a nil *faultState means that the object does not exist.
type faultState struct {
	meta storage.Meta
	body []byte
}

func (o *faultState) String() string {
	if o == nil {
		return "nothing"
	}
	return fmt.Sprintf("%.60q (%d bytes) with %.60q (%d bytes), type %q, cache %q",
		o.body, len(o.body), o.meta.Data, len(o.meta.Data), o.meta.ContentType, o.meta.CacheControl)
}

func same(a, b *faultState) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(a.body, b.body) && sameMeta(a.meta, b.meta)
}

func sameMeta(a, b storage.Meta) bool {
	return a.ContentType == b.ContentType && a.CacheControl == b.CacheControl && bytes.Equal(a.Data, b.Data)
}

// look reads an object and checks that Get and Stat agree.
func look(ctx context.Context, store storage.Store, key string) (*faultState, storage.Version, error) {
	got, err := store.Get(ctx, key, 0, -1)
	if errors.Is(err, storage.ErrNotFound) {
		if _, err := store.Stat(ctx, key); !errors.Is(err, storage.ErrNotFound) {
			return nil, "", fmt.Errorf("Stat of an object that Get does not find: %w", err)
		}
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		return nil, "", err
	}
	info, err := store.Stat(ctx, key)
	if err != nil {
		return nil, "", err
	}
	if got.Size != int64(len(body)) || info.Size != got.Size || info.Version != got.Version || !sameMeta(info.Meta, got.Meta) {
		return nil, "", fmt.Errorf("Get of %d bytes and Stat differ: %+v, %+v", len(body), got.Info, info)
	}
	return &faultState{got.Meta, body}, got.Version, nil
}

// definite lists the errors that promise that nothing was written.
var definite = []error{
	storage.ErrExists, storage.ErrConflict, storage.ErrFull, storage.ErrPermission,
	storage.ErrKey, storage.ErrSize, storage.ErrMeta, storage.ErrUnsafe,
}

func isDefinite(err error) bool {
	for _, sentinel := range definite {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// prepare creates the object for the call and returns the version with which the method is to be
// called.
func (c call) prepare(ctx context.Context, bed *faultBed, key string) (storage.Version, error) {
	store := bed.clean
	if c.own {
		store = bed.faulty
	}
	for _, suffix := range c.below {
		if _, err := store.Create(ctx, key+suffix, storage.Meta{}, storage.Bytes()); err != nil {
			return "", err
		}
	}
	if c.before == nil {
		return "", nil
	}
	create, grown := c.before.body, []byte(nil)
	if c.own {
		half := len(create) / 2
		create, grown = create[:half], create[half:]
	}
	version, err := store.Create(ctx, key, c.before.meta, storage.Bytes(create))
	if err != nil {
		return "", err
	}
	if c.own || c.stale {
		next, err := store.Append(ctx, key, version, c.before.meta, storage.Bytes(grown))
		if err != nil || c.stale {
			return version, err
		}
		version = next
	}
	return version, nil
}

// try makes the call with the faults that decide returns, and returns an error unless the outcome
// is correct.
func (c call) try(t *testing.T, bed *faultBed, f faultCase, decide func(s3fault.Request) s3fault.Fault) error {
	ctx, key := t.Context(), bed.key()
	at, err := c.prepare(ctx, bed, key)
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	bed.faults.Store(key, decide)
	version, err := c.do(ctx, bed.faulty, key, at)
	bed.faults.Delete(key)
	if f.late != nil {
		_, _ = f.late.Release(ctx) // whether it takes effect is seen in the object
	}
	return c.check(ctx, bed, f, key, at, version, err)
}

// check compares the result of the call with the state of the object.
func (c call) check(ctx context.Context, bed *faultBed, f faultCase, key string, at, version storage.Version, err error) error {
	is, now, lerr := look(ctx, bed.clean, key)
	if lerr != nil {
		return fmt.Errorf("after %w: look: %w", err, lerr)
	}
	switch {
	case isWrong(err):
		return fmt.Errorf("wrong read: %w", err)
	case errors.Is(err, c.want) && c.want != nil && same(is, c.before):
		return nil
	case err == nil && c.want != nil:
		return fmt.Errorf("no error, want %w", c.want)
	case err == nil:
		if !same(is, c.after) {
			return fmt.Errorf("acknowledged, but the object is %v, want %v", is, c.after)
		}
		if version != "" && version != now {
			return fmt.Errorf("returned version %q, but the object has %q", version, now)
		}
		return nil
	case f.hidden && (c.want == nil || c.read) && !(c.large && f.corrupts):
		return fmt.Errorf("was not hidden: %w", err)
	case isDefinite(err):
		if !same(is, c.before) {
			return fmt.Errorf("definite error (%w), but the object is %v, was %v", err, is, c.before)
		}
		if !errors.Is(err, c.want) && !errors.Is(err, f.sentinel) {
			return fmt.Errorf("definite error for no reason: %w", err)
		}
	case errors.Is(err, storage.ErrNotFound) && !errors.Is(c.want, storage.ErrNotFound):
		return fmt.Errorf("object exists: %w", err)
	case !same(is, c.before) && !same(is, c.after):
		return fmt.Errorf("unknown outcome (%w), and the object is %v, which is neither %v nor %v", err, is, c.before, c.after)
	}
	return c.again(ctx, bed, key, at, is, err)
}

// again repeats the call after an error, without faults.
func (c call) again(ctx context.Context, bed *faultBed, key string, at storage.Version, is *faultState, err error) error {
	_, err2 := c.do(ctx, bed.faulty, key, at)
	now, _, lerr := look(ctx, bed.clean, key)
	switch {
	case lerr != nil:
		return lerr
	case c.want != nil && !errors.Is(err2, c.want):
		return fmt.Errorf("called again after %w: got %w, want %w", err, err2, c.want)
	case err2 == nil && !same(now, c.after):
		return fmt.Errorf("called again after %w: acknowledged, but the object is %v, want %v", err, now, c.after)
	case err2 != nil && !isDefinite(err2) && c.want == nil:
		return fmt.Errorf("called again after %w: %w", err, err2)
	case err2 != nil && !same(now, is):
		return fmt.Errorf("called again after %w: %w, but %v became %v", err, err2, is, now)
	case err2 != nil && same(is, c.before) && !same(c.before, c.after) && c.want == nil:
		return fmt.Errorf("called again after %w, where nothing had changed: %w", err, err2)
	}
	return nil
}

// requests returns the operations of the requests of a call without faults.
func (c call) requests(t *testing.T, bed *faultBed) []s3fault.Operation {
	t.Helper()
	var mu sync.Mutex
	var operations []s3fault.Operation
	if err := c.try(t, bed, faultCase{hidden: true}, func(r s3fault.Request) s3fault.Fault {
		mu.Lock()
		defer mu.Unlock()
		operations = append(operations, r.Operation)
		return nil
	}); err != nil {
		t.Errorf("without a fault: %v", err)
	}
	return operations
}

// sampled returns n if one in n faults is injected into a call: 16 for multipart uploads, which are
// slow, and 4 if another call sends the same requests. Faults that corrupt bodies are always
// injected.
func (c call) sampled() int {
	switch {
	case *allFaults:
		return 1
	case c.parts:
		return 16
	case c.redundant():
		return 4
	}
	return 1
}

// TestFaults injects each fault, or a sample of them, into each request of each call.
func TestFaults(t *testing.T) {
	bed := newFaultBed(t)
	for _, c := range calls() {
		if testing.Short() && c.redundant() {
			continue
		}
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) { c.tryAll(t, bed) })
	}
}

func (c call) tryAll(t *testing.T, bed *faultBed) {
	operations := c.requests(t, bed)
	every := c.sampled()
	first := rand.IntN(every)
	t.Logf("requests: %v; one in %d faults, from number %d", operations, every, first)
	if slices.Contains(operations, s3fault.ListObjectsV2) && c.name != "list" {
		t.Error("the call lists keys, but listings may be outdated")
	}
	pool := newPool(32)
	defer pool.Wait()
	for n, operation := range operations {
		// A Late can hold only one request, so each case needs its own.
		for i := range distinctFaults(bed.elsewhere) {
			f := distinctFaults(bed.elsewhere)[i]
			if !f.fits(operation) || f.corrupts && c.unverified || !f.corrupts && (n+i)%every != first {
				continue
			}
			pool.Go(func() {
				if err := c.try(t, bed, f, nth(n+1, f.fault)); err != nil {
					t.Errorf("request %d (%s), %s: %v", n+1, operation, f.name, err)
				}
			})
		}
	}
}

// TestLastingFaults injects the same fault into every request of a call until the driver
// gives up.
func TestLastingFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("TestFaults has the same faults one at a time")
	}
	bed := newFaultBed(t)
	for _, c := range calls() {
		if c.redundant() {
			continue
		}
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			pool := newPool(32)
			defer pool.Wait()
			for _, f := range distinctFaults(bed.elsewhere) {
				if f.late != nil {
					continue // it holds one request
				}
				f.hidden = false
				pool.Go(func() {
					if err := c.try(t, bed, f, func(r s3fault.Request) s3fault.Fault {
						if f.fits(r.Operation) {
							return f.fault
						}
						return nil
					}); err != nil {
						t.Errorf("%s: %v", f.name, err)
					}
				})
			}
		})
	}
}

// nth injects a fault into the nth request, and no other.
func nth(n int, fault s3fault.Fault) func(s3fault.Request) s3fault.Fault {
	var requests atomic.Int64
	return func(s3fault.Request) s3fault.Fault {
		if requests.Add(1) == int64(n) {
			return fault
		}
		return nil
	}
}

// A pool runs functions with limited concurrency.
type pool struct {
	wg    sync.WaitGroup
	slots chan struct{}
}

func newPool(n int) *pool { return &pool{slots: make(chan struct{}, n)} }

func (p *pool) Go(f func()) {
	p.slots <- struct{}{}
	p.wg.Go(func() {
		defer func() { <-p.slots }()
		f()
	})
}

func (p *pool) Wait() { p.wg.Wait() }
