package producer_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/faulttest"
	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/s3"
	"github.com/feedctl/feedctl/verify"
)

var s3Part = flag.Int("s3-part", 20, "run one in this many cases of the fault tables on S3 (1: all); with -short, a sixth as many")

// s3Retry is how long a producer retries in the presence of faults. A producer without faults retries
// for patience: it must not give up on a slow machine.
const (
	s3Retry  = 100 * time.Millisecond
	patience = 5 * time.Minute
)

// An s3Bed opens stores on an S3 server, with a separate prefix for each case.
type s3Bed struct {
	config s3.Config
	n      int
}

func newS3Bed(t *testing.T) *s3Bed {
	t.Helper()
	u, err := url.Parse(s3test.Start(t).URL("producer"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := s3.ParseURL(u)
	if err != nil {
		t.Fatal(err)
	}
	config.Backoff = time.Millisecond
	return &s3Bed{config: config}
}

// next begins a case with a healthy server.
func (b *s3Bed) next(t *testing.T) (prefix string, clean storage.Store) {
	t.Helper()
	b.n++
	prefix = fmt.Sprintf("%s/%d", b.config.Prefix, b.n)
	clean = b.open(t, prefix, nil)
	if _, err := clean.Create(t.Context(), "known/fit", storage.Meta{}, storage.Bytes()); err != nil {
		t.Fatal(err)
	}
	return prefix, clean
}

// open opens a store. If decide is not nil, it chooses the outcome of each request.
func (b *s3Bed) open(t *testing.T, prefix string, decide func(s3fault.Request) s3fault.Fault) storage.Store {
	t.Helper()
	config := b.config
	config.Prefix = prefix
	if decide != nil {
		config.Transport = func(next http.RoundTripper) http.RoundTripper { return s3fault.Wrap(next, decide) }
	}
	store, err := s3.Connect(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// s3Paths returns the paths whose requests are made to fail, one at a time. Each path performs one
// kind of write, and retries it for the given time.
func s3Paths(retryFor time.Duration) []faulttest.Path {
	publishing := func(name string, from, to int) faulttest.Path {
		p := publishing(name, from, to)
		p.Setup = func(t *testing.T, store storage.Store) {
			if from > 1 {
				mustPublish(t, store, ids(1, from-1))
			}
		}
		p.Do = func(ctx context.Context, store storage.Store) error {
			return publishOnce(ctx, store, retryFor, ids(from, to))
		}
		return p
	}
	orphans := publishing("page in the place of an orphan", 1, 8)
	orphans.Setup = orphaned
	return []faulttest.Path{
		publishing("first page", 1, 2),
		publishing("append", 2, 2),
		publishing("append that closes, and pages ahead", 3, 11),
		publishing("pages ahead of a closed page", 4, 12),
		orphans, floorRaising(), snapshotting(retryFor),
	}
}

// snapshotting returns a path that writes a snapshot.
func snapshotting(retryFor time.Duration) faulttest.Path {
	return faulttest.Path{
		Name:  "snapshot",
		Setup: func(*testing.T, storage.Store) {},
		Do: func(ctx context.Context, store storage.Store) error {
			all := func(yield func(*feed.Entity, error) bool) {
				for n := range 20 {
					e := &feed.Entity{ContentType: "text/plain", ContentLocation: fmt.Sprint(n), Body: []byte(strings.Repeat("x", 400))}
					if !yield(e, nil) {
						return
					}
				}
			}
			_, err := snapshots.Write(ctx, store, testFeed, all, snapshots.Config{MaxPageBytes: 2000, Concurrency: 2, RetryFor: retryFor})
			return err
		},
		Check: func(t *testing.T, store storage.Store, done bool) {
			found, _, err := snapshots.List(t.Context(), store, testFeed)
			if err != nil || done && len(found) == 0 {
				t.Fatalf("snapshots %v, %v", found, err)
			}
			for _, id := range found {
				checkSnapshot(t, store, id, 20)
			}
		},
	}
}

// checkSnapshot compares the pages of a snapshot with their metadata.
func checkSnapshot(t *testing.T, store storage.Store, id string, want int) {
	t.Helper()
	index, err := snapshots.Read(t.Context(), store, testFeed, id)
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for n := range index.PageCount {
		key := layout.SnapshotPage(testFeed, id, n)
		info, err := store.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		p, err := snapshot.DecodePage(id, n, info.Meta.Data)
		if sum := fmt.Sprintf("%x", sha256.Sum256(faulttest.ReadObject(t, store, key))); err != nil || p.SHA256 != sum {
			t.Fatalf("%s has SHA-256 %s, its metadata says %+v, %v", key, sum, p, err)
		}
		got += p.Entities
	}
	if got != want || index.Entities != int64(want) {
		t.Fatalf("snapshot has %d entities, %d in its index, want %d", got, index.Entities, want)
	}
}

func publishOnce(ctx context.Context, store storage.Store, retryFor time.Duration, ids []string) error {
	f, err := producer.Open(ctx, store, testFeed, producer.Config{MaxPageEntities: 3, RetryFor: retryFor})
	if err != nil {
		return err
	}
	_, err = f.Publish(ctx, entities(ids)...)
	return errors.Join(err, f.Close())
}

// floorRaising returns a path that prunes the first two of four pages, whatever their age: it raises
// the floor and deletes the pages, as Prune does.
func floorRaising() faulttest.Path {
	return faulttest.Path{
		Name:  "floor",
		Setup: func(t *testing.T, store storage.Store) { mustPublish(t, store, ids(1, 10)) },
		Do: func(ctx context.Context, store storage.Store) error {
			if _, err := chain.RaiseFloor(ctx, store, testFeed, 3); err != nil {
				return err
			}
			_, err := producer.Prune(ctx, store, testFeed, producer.PrunePolicy{Before: 3})
			return err
		},
		Check: func(t *testing.T, store storage.Store, done bool) {
			got := visibleIDs(t, store)
			if !slices.Equal(got, ids(7, 10)) && (done || !slices.Equal(got, ids(1, 10))) {
				t.Fatalf("the feed has %v", got)
			}
		},
	}
}

// An s3Fault is a fault that may occur in a request.
type s3Fault struct {
	name  string
	fits  func(s3fault.Operation) bool
	fault func(late *s3fault.Late) s3fault.Fault
}

func s3Faults() []s3Fault {
	always := func(f s3fault.Fault) func(*s3fault.Late) s3fault.Fault {
		return func(*s3fault.Late) s3fault.Fault { return f }
	}
	all := func(s3fault.Operation) bool { return true }
	put := func(o s3fault.Operation) bool { return o == s3fault.PutObject }
	write := func(o s3fault.Operation) bool { return !o.Reads() }
	get := func(o s3fault.Operation) bool { return o == s3fault.GetObject }
	conflict := s3fault.Answer(http.StatusConflict, "ConditionalRequestConflict")
	slow := s3fault.Answer(http.StatusServiceUnavailable, "SlowDown")
	return []s3Fault{
		{"409", put, always(conflict)},
		{"409 after success", put, always(s3fault.Landed(conflict))},
		{"503", all, always(slow)},
		{"503 after success", write, always(s3fault.Landed(slow))},
		{"404 of a proxy", all, always(s3fault.AnswerOfProxy(http.StatusNotFound))},
		{"404 of a proxy after success", write, always(s3fault.Landed(s3fault.AnswerOfProxy(http.StatusNotFound)))},
		{"timeout", all, always(s3fault.Fail(s3fault.ErrTimeout()))},
		{"timeout after success", write, always(s3fault.Landed(s3fault.Fail(s3fault.ErrTimeout())))},
		{"reset after success", write, always(s3fault.Landed(s3fault.Fail(s3fault.ErrReset())))},
		{"reset in the request", put, always(s3fault.ResetRequest(50))},
		{"sent twice", write, always(s3fault.Twice())},
		{"late", write, (*s3fault.Late).Hold},
		{"reset in the answer", get, always(s3fault.ResetResponse(20))},
		{"truncated", get, always(s3fault.Truncate(20))},
		{"flipped bit", get, always(s3fault.FlipBody(-3))},
		{"denied", all, always(s3fault.Answer(http.StatusForbidden, "AccessDenied"))},
		{"full", put, always(s3fault.Answer(http.StatusInsufficientStorage, "InsufficientStorage"))},
	}
}

// chosen returns a function that selects the cases to run: a different sample in each run of the test.
func chosen(t *testing.T) func() bool {
	t.Helper()
	part := *s3Part
	if testing.Short() {
		part *= 6
	}
	n := rand.IntN(part)
	t.Logf("running every case whose number leaves %d when divided by %d", n, part)
	n = part - n
	return func() bool { n++; return n%part == 0 }
}

// TestFaultsS3 makes each applicable fault occur in each HTTP request of each path. Then another
// producer repeats the write and publishes more.
func TestFaultsS3(t *testing.T) {
	bed := newS3Bed(t)
	chosen := chosen(t)
	impatient := s3Paths(s3Retry)
	for i, p := range s3Paths(patience) {
		operations := bed.operations(t, p)
		for _, f := range s3Faults() {
			for n, operation := range operations {
				if !f.fits(operation) || !chosen() {
					continue
				}
				t.Run(testName(p.Name, f.name, n, operation), func(t *testing.T) { bed.meet(t, p, impatient[i].Do, f, n+1) })
			}
		}
	}
}

func testName(parts ...any) string {
	return strings.ReplaceAll(strings.TrimSuffix(fmt.Sprintln(parts...), "\n"), " ", "_")
}

// operations returns the requests that a path makes when none fails.
func (b *s3Bed) operations(t *testing.T, p faulttest.Path) (all []s3fault.Operation) {
	t.Helper()
	prefix, clean := b.next(t)
	p.Setup(t, clean)
	var mu sync.Mutex
	counted := b.open(t, prefix, func(r s3fault.Request) s3fault.Fault {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r.Operation)
		return nil
	})
	if err := p.Do(t.Context(), counted); err != nil {
		t.Fatal(err)
	}
	p.Check(t, clean, true)
	return all
}

// meet performs the write of a path, with the fault in the request with the given number.
func (b *s3Bed) meet(t *testing.T, p faulttest.Path, do func(context.Context, storage.Store) error, f s3Fault, number int) {
	prefix, clean := b.next(t)
	p.Setup(t, clean)
	late := &s3fault.Late{}
	broken := b.open(t, prefix, func(r s3fault.Request) s3fault.Fault {
		if r.N != number || !f.fits(r.Operation) {
			return nil
		}
		return f.fault(late)
	})
	err := do(t.Context(), broken)
	p.Check(t, clean, err == nil)
	goOn(t, p, b.open(t, prefix, nil), func() {
		if _, err := late.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// goOn makes another producer repeat the write and publish more. It checks that readers then see the
// same before and after delayed requests land.
func goOn(t *testing.T, p faulttest.Path, store storage.Store, land func()) {
	t.Helper()
	if err := p.Do(t.Context(), store); err != nil {
		t.Fatalf("after the fault: %v", err)
	}
	p.Check(t, store, true)
	before := visibleIDs(t, store)
	more := ids(1001, 1005)
	mustPublish(t, store, more)
	for _, step := range []func(){func() {}, land} {
		step()
		if got := visibleIDs(t, store); !slices.Equal(got, slices.Concat(before, more)) {
			t.Fatalf("the feed has %v", got)
		}
		report, err := verify.Store(t.Context(), store, testFeed, "")
		if err != nil || len(report.Violations) > 0 {
			t.Fatalf("verify: %v, %v", report, err)
		}
	}
}

// TestStorageFaultsS3 makes each operation of each path fail, alone or with all later operations. The
// operation may have landed, be lost, or land later.
func TestStorageFaultsS3(t *testing.T) {
	bed := newS3Bed(t)
	chosen := chosen(t)
	impatient := s3Paths(s3Retry)
	for i, p := range s3Paths(patience) {
		verbs := bed.verbs(t, p)
		for n, verb := range verbs {
			for _, outcome := range []string{"lost", "landed", "late"} {
				for _, lasting := range []bool{false, true} {
					if outcome == "late" && (lasting || !verb.Writes()) || !chosen() {
						continue
					}
					name := testName(p.Name, outcome, n, verb, map[bool]string{true: "lasting"}[lasting])
					t.Run(name, func(t *testing.T) { bed.fail(t, p, impatient[i].Do, outcome, n+1, lasting) })
				}
			}
		}
	}
}

// verbs returns the operations that a path performs when none fails.
func (b *s3Bed) verbs(t *testing.T, p faulttest.Path) (all []fault.Verb) {
	t.Helper()
	_, clean := b.next(t)
	p.Setup(t, clean)
	var mu sync.Mutex
	counted := fault.Wrap(clean, func(op fault.Op) fault.Outcome {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, op.Verb)
		return fault.Pass
	})
	if err := p.Do(t.Context(), counted); err != nil {
		t.Fatal(err)
	}
	return all
}

func (b *s3Bed) fail(t *testing.T, p faulttest.Path, do func(context.Context, storage.Store) error, outcome string, number int, lasting bool) {
	prefix, clean := b.next(t)
	p.Setup(t, clean)
	late := &fault.Late{}
	broken := fault.Wrap(b.open(t, prefix, nil), func(op fault.Op) fault.Outcome {
		switch {
		case op.N < number, op.N > number && !lasting:
			return fault.Pass
		case outcome == "lost", outcome == "late" && !op.Verb.Writes():
			return fault.Lost
		case outcome == "landed":
			return fault.Landed
		}
		return late
	})
	err := do(t.Context(), broken)
	p.Check(t, clean, err == nil)
	goOn(t, p, b.open(t, prefix, nil), func() { _ = late.Release(t.Context()) })
}
