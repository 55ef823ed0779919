package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// server is shared by the tests; each test has its own database.
var server *pgtest.Server

func TestMain(m *testing.M) {
	var err error
	if server, err = pgtest.New("max_connections=200", "max_prepared_transactions=10"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// databases holds the URLs of databases that are no longer in use: it is faster to empty a database
// than to create one.
var databases struct {
	sync.Mutex
	made  int
	spare []string
}

// newDatabase returns the URL of a database with an empty outbox.
func newDatabase(t testing.TB) string {
	t.Helper()
	url := nextDatabase(t)
	t.Cleanup(func() { // this runs after all connections have been closed
		databases.Lock()
		defer databases.Unlock()
		databases.spare = append(databases.spare, url)
	})
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err == nil {
		_, err = conn.Exec(t.Context(), "DROP SCHEMA IF EXISTS feedctl, public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC")
		err = errors.Join(err, conn.Close(t.Context()))
	}
	if err == nil {
		err = schema.Create(t.Context(), config, schema.Default)
	}
	if err != nil {
		t.Fatal(err)
	}
	return url
}

func nextDatabase(t testing.TB) string {
	t.Helper()
	databases.Lock()
	defer databases.Unlock()
	if n := len(databases.spare); n > 0 {
		url := databases.spare[n-1]
		databases.spare = databases.spare[:n-1]
		return url
	}
	databases.made++
	url, err := server.Database(fmt.Sprint("outbox", databases.made))
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// A world is a database with an outbox.
type world struct {
	testing.TB
	url  string
	db   *outbox.DB
	pool *pgxpool.Pool
	feed string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, url: newDatabase(t), feed: testFeed}
	w.pool = w.connect(nil)
	w.db = outbox.Use(w.pool, schema.Default)
	return w
}

// with returns a world with the same database and another feed.
func (w *world) with(feed string) *world {
	other := *w
	other.feed = feed
	return &other
}

// connect returns a pool that is closed when the test ends.
func (w *world) connect(tracer pgx.QueryTracer) *pgxpool.Pool {
	w.Helper()
	config, err := pgxpool.ParseConfig(w.url)
	if err != nil {
		w.Fatal(err)
	}
	config.ConnConfig.Tracer = tracer
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	config.MaxConns = 40
	pool, err := pgxpool.NewWithConfig(w.Context(), config)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(pool.Close)
	return pool
}

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.pool.Exec(w.Context(), sql, args...); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

// get returns the single value of a query.
func get[T any](w *world, sql string, args ...any) T {
	w.Helper()
	var v T
	if err := w.pool.QueryRow(w.Context(), sql, args...).Scan(&v); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return v
}

// begin opens a transaction on a new connection.
func (w *world) begin() pgx.Tx {
	w.Helper()
	tx, err := w.pool.Begin(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func (w *world) in(tx pgx.Tx, sql string, args ...any) {
	w.Helper()
	if _, err := tx.Exec(w.Context(), sql, args...); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) commit(tx pgx.Tx) {
	w.Helper()
	if err := tx.Commit(w.Context()); err != nil {
		w.Fatal(err)
	}
}

const testFeed = "things"

// publish publishes bodies, each in its own transaction.
func (w *world) publish(bodies ...string) {
	w.Helper()
	for _, body := range bodies {
		w.exec("SELECT feedctl.publish($1, $2, 'PUT', $3::text)", w.feed, "key of "+body, body)
	}
}

// drain moves all rows to the store.
func (w *world) drain(c outbox.Config) outbox.Stats {
	w.Helper()
	c.Feed = w.feed
	stats, err := drain(w.Context(), w.db, c)
	if err != nil {
		w.Fatal(err)
	}
	return stats
}

func drain(ctx context.Context, db *outbox.DB, c outbox.Config) (outbox.Stats, error) {
	if c.Feed == "" {
		c.Feed = testFeed
	}
	runner, err := db.NewRunner(c)
	if err != nil {
		return outbox.Stats{}, err
	}
	err = runner.Drain(ctx)
	return runner.Stats(), err
}

type running struct {
	*outbox.Runner
	stop func() error
}

// run starts a runner, which ends at the latest when the test does.
func (w *world) run(db *outbox.DB, c outbox.Config) *running {
	w.Helper()
	c.Feed = testFeed
	runner, err := db.NewRunner(c)
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(w.Context())
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	errStopped := errors.New("stopped")
	r := &running{Runner: runner, stop: sync.OnceValue(func() error {
		cancel(errStopped)
		if err := <-done; !errors.Is(err, errStopped) {
			return fmt.Errorf("runner ended: %w", err)
		}
		return nil
	})}
	w.Cleanup(func() { _ = r.stop() })
	return r
}

func (r *running) mustStop(t testing.TB) {
	t.Helper()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
}

// await waits until the outbox of the feed is empty.
func (w *world) await() {
	w.Helper()
	for get[bool](w, "SELECT EXISTS (SELECT FROM feedctl.outbox WHERE feed = $1) FROM pg_sleep(0.002)", testFeed) {
		if w.Context().Err() != nil {
			w.Fatal(w.Context().Err())
		}
	}
}

func entities(t testing.TB, store storage.Store) []*feed.Entity {
	t.Helper()
	return entitiesOf(t, store, testFeed)
}

func entitiesOf(t testing.TB, store storage.Store, name string) []*feed.Entity {
	t.Helper()
	pages := chain.NewReader(store, name)
	newest, err := pages.Newest(t.Context())
	if errors.Is(err, chain.ErrNoFeed) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var all []*feed.Entity
	for n := int64(1); n <= newest.Number; n++ {
		p, object, err := pages.Open(t.Context(), n, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		for part, err := range page.NewReader(p.Whole(object.Body), p.Boundary, page.ReaderOptions{MaxWhole: 1 << 30}).Parts() {
			e := &feed.Entity{}
			if err == nil {
				err = feed.Parse(e, part, true)
			}
			if err != nil {
				t.Fatalf("page %d: %v", n, err)
			}
			e.Body = []byte(string(e.Body))
			e.ContentID = strings.Clone(e.ContentID)
			all = append(all, e)
		}
		if err := object.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// bodies returns the bodies of all entities, in order.
func bodies(t testing.TB, store storage.Store) []string {
	t.Helper()
	return bodiesOf(t, store, testFeed)
}

func bodiesOf(t testing.TB, store storage.Store, name string) []string {
	t.Helper()
	var all []string
	for _, e := range entitiesOf(t, store, name) {
		all = append(all, string(e.Body))
	}
	return all
}

// publishDirectly publishes an entity without the outbox.
func publishDirectly(t testing.TB, store storage.Store, body string) {
	t.Helper()
	f, err := producer.Open(t.Context(), store, testFeed, producer.Config{MaxPageEntities: 2})
	if err == nil {
		_, err = f.Publish(t.Context(), &feed.Entity{Operation: feed.Put, ContentType: "a/b", Body: []byte(body)})
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
