package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/observe"
	"github.com/feedctl/feedctl/storage/postgres"
	"github.com/feedctl/feedctl/storage/storagetest"
)

var registry = storage.Registry{"postgres": postgres.Create, "postgresql": postgres.Create}

func TestMain(m *testing.M) {
	if url := os.Getenv(openVariable); url != "" {
		openOnly(url)
		return
	}
	storagetest.Main(m, registry.Open)
}

// TestStore runs the suite for stores. The server syncs its files, since writers are killed. The
// test does not run in parallel, since the suite measures the memory of the process.
func TestStore(t *testing.T) {
	testStore(t, pgtest.StartOwn(t, "fsync=on").URL("a"), func(s storage.Store) storage.Store { return s })
}

// allTests enables longer tests, which rarely find more.
var allTests = flag.Bool("all", false, "also run the whole suite through PgBouncer, longer races, and a body of 1 GiB")

// TestPgBouncer runs the suite with wrapped stores, through PgBouncer in transaction mode. It
// leaves out the tests that the suite repeats with other keys, and tests of hints, which depend on
// time.
func TestPgBouncer(t *testing.T) {
	testStore(t, pgtest.PgBouncer(t, pgtest.Start(t), "a"), func(s storage.Store) storage.Store {
		return observe.Wrap(s, func(context.Context, observe.Operation) {})
	})
}

var skipped = regexp.MustCompile("^TestPgBouncer/(shallow/|(deep/)?watch$)")

// counters is the number of concurrent writers to one object: more than a pool has
// connections, so that the writers also compete for connections.
const counters = 10

// testStore runs the suite for stores, with a separate schema for each store.
func testStore(t *testing.T, database string, wrap func(storage.Store) storage.Store) {
	kills := 15
	if *allTests {
		kills = 50
	}
	var n atomic.Int32
	var urls sync.Map // by store
	storagetest.Run(t, func(t *testing.T) storage.Store {
		if skipped.MatchString(t.Name()) && !*allTests {
			t.Skip("only with -all")
		}
		u := withSchema(t, database, fmt.Sprintf("s%d", n.Add(1)))
		store := wrap(open(t, u))
		urls.Store(store, u)
		return store
	}, storagetest.Options{
		URL: func(s storage.Store) string {
			u, _ := urls.Load(s)
			return u.(string)
		},
		Kills:      kills,
		Counters:   counters,
		Long:       *allTests,
		Properties: storage.Properties{Remote: true, Watches: true, Clock: true, Names: true},
	})
}

func withSchema(t *testing.T, database, name string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("schema", name)
	u.RawQuery = query.Encode()
	return u.String()
}

func open(t *testing.T, u string) *postgres.Store {
	t.Helper()
	store, err := registry.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return store.(*postgres.Store)
}
