// Package storagetest is a test suite for the contract of [storage.Store]. A driver
// calls [Run] in a test of its package:
//
//	func TestMain(m *testing.M) { storagetest.Main(m, registry.Open) }
//
//	func TestStore(t *testing.T) {
//		storagetest.Run(t, func(t *testing.T) storage.Store { ... }, storagetest.Options{...})
//	}
package storagetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/storage"
)

// Options describe a driver: its optional features, which are then tested, and the extent of some
// tests.
type Options struct {
	// URL returns the URL with which the function given to [Main] opens the same store in another
	// process. URL is nil if that is impossible.
	URL func(storage.Store) string

	// Leftovers leaves in the store what a writer leaves behind if it is killed while it writes the
	// object at key, which may exist. Leftovers is nil if writers leave nothing behind.
	Leftovers func(t *testing.T, store storage.Store, key string)

	// Kills is the number of writing processes to kill. It must be 0 if URL is nil.
	Kills int

	// Counters is the number of concurrent writers that increment one counter, by default 32. Each
	// writer has to wait for all the others, so the test is much faster with fewer.
	Counters int

	// Long makes races longer and the largest body larger.
	Long bool

	// BodiesInMemory means that the store holds whole bodies in the memory of the process.
	BodiesInMemory bool

	// LargerSizes means that the size of an object in List may exceed that of its body, because of
	// data added by the driver.
	LargerSizes bool

	// Properties must be equal to the result of [storage.PropertiesOf]. Each feature that it
	// includes is tested.
	Properties storage.Properties
}

// A suite tests one store. Its keys begin with prefix, so that several suites can use the same
// store.
type suite struct {
	store  storage.Store
	prefix string
	opts   Options
}

// A store need not distinguish empty data from nil.
var sameBytes = cmp.Comparer(bytes.Equal)

// deep is a prefix like that of a feed's pages, but longer.
const deep = "feeds/Some.feed_name-1/pages/a/b.c/-d/_e/.f/"

// Run tests the contract. The factory returns an empty store, which Run closes. Run calls it,
// and the functions of the options, concurrently.
func Run(t *testing.T, factory func(t *testing.T) storage.Store, opts Options) {
	run := runner(factory, opts)
	alone := func(name string, test func(*testing.T, *suite)) {
		t.Run(name, func(t *testing.T) { run(t, "", test) })
	}
	for name, prefix := range map[string]string{"shallow": "", "deep": deep} {
		t.Run(name, func(t *testing.T) {
			run := func(name string, test func(*testing.T, *suite)) {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					run(t, prefix, test)
				})
			}
			run("create", testCreate)
			run("keys", testKeys)
			run("metadata", testMeta)
			run("append", testAppend)
			run("replace", testReplace)
			run("delete", testDelete)
			run("bodies", testBodies)
			run("digested", testDigested)
			run("ranges", testRanges)
			run("list", testList)
			run("list while writing", testListWhileWriting)
			run("names", testNames)
			run("cancel", testCancel)
			run("readers", testReaders)
			run("open bodies", testOpenBodies)
			if opts.Leftovers != nil {
				run("leftovers", testLeftovers)
			}
			if opts.Properties.Watches && prefix != "" { // RunOptional runs the others
				run("watch", testWatch)
			}
		})
	}
	alone("race to create", testRaceCreate)
	alone("race to increment", testRaceIncrement)
	alone("race of all", testRaceAll)
	alone("large", testLarge)
	RunOptional(t, factory, opts)
	if opts.URL != nil {
		alone("processes create", testProcessesCreate)
		alone("processes increment", testProcessesIncrement)
		alone("kill", testKill)
	}
}

// RunOptional runs only the tests of optional features, to show that a wrapper of the store hides
// none of them.
func RunOptional(t *testing.T, factory func(t *testing.T) storage.Store, opts Options) {
	run := runner(factory, opts)
	t.Run("properties", func(t *testing.T) { run(t, "", testProperties) })
	for _, optional := range []struct {
		name string
		has  bool
		test func(*testing.T, *suite)
	}{
		{"watch", opts.Properties.Watches, testWatch},
		{"clock", opts.Properties.Clock, testClock},
		{"sweep while writing", opts.Properties.Sweeps, testSweepWhileWriting},
		{"sync", opts.Properties.Syncs, testSync},
		{"presign", opts.Properties.Presigns, testPresign},
		{"requests", opts.Properties.Counts, testRequests},
		{"probe", opts.Properties.Probes, testProbe},
		{"recover", opts.Properties.Recovers, testRecover},
	} {
		if optional.has {
			t.Run(optional.name, func(t *testing.T) { run(t, "", optional.test) })
		}
	}
}

func runner(factory func(t *testing.T) storage.Store, opts Options) func(t *testing.T, prefix string, test func(*testing.T, *suite)) {
	return func(t *testing.T, prefix string, test func(*testing.T, *suite)) {
		store := factory(t)
		test(t, &suite{store: store, prefix: prefix, opts: opts})
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

func (s *suite) key(name string) string { return s.prefix + name }

// A claim, stored in the metadata of an object, describes the object's body, so that a mixture of
// two states is detected.
type claim struct {
	Writer string
	N      int
	SHA256 string
}

func claimOf(writer string, n int, body []byte) storage.Meta {
	sum := sha256.Sum256(body)
	data, err := json.Marshal(claim{Writer: writer, N: n, SHA256: hex.EncodeToString(sum[:])})
	if err != nil {
		panic(err)
	}
	return storage.Meta{ContentType: "text/plain", CacheControl: "no-cache", Data: data}
}

// whole reads an object and returns an error unless the body matches the metadata.
func whole(ctx context.Context, store storage.Store, key string) (storage.Info, claim, error) {
	o, err := store.Get(ctx, key, 0, -1)
	if err != nil {
		return storage.Info{}, claim{}, err
	}
	defer o.Body.Close()
	c, err := checkWhole(o)
	return o.Info, c, err
}

func checkWhole(o *storage.Object) (c claim, err error) {
	sum := sha256.New()
	n, err := io.Copy(sum, o.Body)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(o.Meta.Data, &c); err != nil {
		return c, fmt.Errorf("metadata of %s: %w", o.Key, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); n != o.Size || got != c.SHA256 {
		return c, fmt.Errorf("%s: body has %d bytes with digest %s; metadata says %d and %s", o.Key, n, got, o.Size, c.SHA256)
	}
	return c, nil
}

// A snapshot is the complete state of an object; a nil *snapshot means that the object does not
// exist.
type snapshot struct {
	Info storage.Info
	Body []byte
}

func take(t *testing.T, store storage.Store, key string) *snapshot {
	t.Helper()
	o, err := store.Get(t.Context(), key, 0, -1)
	if errors.Is(err, storage.ErrNotFound) {
		if _, err := store.Stat(t.Context(), key); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("Stat %s after Get returned ErrNotFound: %v", key, err)
		}
		return nil
	}
	if err != nil {
		t.Fatalf("Get %s: %v", key, err)
	}
	defer o.Body.Close()
	body, err := io.ReadAll(o.Body)
	if err != nil {
		t.Fatalf("read %s: %v", key, err)
	}
	info, err := store.Stat(t.Context(), key)
	if err != nil {
		t.Fatalf("Stat %s: %v", key, err)
	}
	if diff := cmp.Diff(o.Info, info, sameBytes); diff != "" {
		t.Errorf("Get and Stat of %s differ:\n%s", key, diff)
	}
	return &snapshot{Info: info, Body: body}
}

// unchanged fails the test if the object has changed.
func unchanged(t *testing.T, store storage.Store, key string, was *snapshot) {
	t.Helper()
	if diff := cmp.Diff(was, take(t, store, key), sameBytes); diff != "" {
		t.Errorf("%s has changed:\n%s", key, diff)
	}
}

// is fails the test unless the object has this version, metadata and body.
func is(t *testing.T, store storage.Store, key string, version storage.Version, meta storage.Meta, body []byte) {
	t.Helper()
	got := take(t, store, key)
	if got == nil {
		t.Fatalf("%s does not exist", key)
	}
	if got.Info.Modified.IsZero() {
		t.Errorf("%s has no time", key)
	}
	want := storage.Info{Key: key, Version: version, Size: int64(len(body)), Modified: got.Info.Modified, Meta: meta}
	if diff := cmp.Diff(want, got.Info, sameBytes); diff != "" {
		t.Errorf("%s (-want +got):\n%s", key, diff)
	}
	if !bytes.Equal(got.Body, body) {
		t.Errorf("%s: body is %.80q, want %.80q", key, got.Body, body)
	}
}

// create calls Create, which must succeed.
func (s *suite) create(t *testing.T, key string, meta storage.Meta, body string) storage.Version {
	t.Helper()
	version, err := s.store.Create(t.Context(), key, meta, storage.Bytes([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	if version == "" {
		t.Errorf("Create %s: the version is empty", key)
	}
	return version
}

// wantError fails the test unless err matches want.
func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}
