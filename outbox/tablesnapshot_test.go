package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// read returns the bodies of the entities of a snapshot, by key.
func read(t *testing.T, store storage.Store, index *snapshot.Index) map[string]string {
	t.Helper()
	state := map[string]string{}
	for n := range index.Pages {
		object, err := store.Get(t.Context(), layout.SnapshotPage(testFeed, index.ID, n), 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(object.Body)
		if err != nil {
			t.Fatal(err)
		}
		_, boundary, _ := strings.Cut(object.Meta.ContentType, "boundary=")
		for part, err := range page.NewReader(bytes.NewReader(data), strings.Trim(boundary, `"`), page.ReaderOptions{MaxWhole: 1 << 30}).Parts() {
			e := &feed.Entity{}
			if err == nil {
				err = feed.Parse(e, part, false)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, twice := state[e.Key()]; twice {
				t.Errorf("the snapshot has %s twice", e.Key())
			}
			state[e.Key()] = string(e.Body)
		}
	}
	return state
}

// TestSnapshotUnderLoad creates snapshots during many writes. Each snapshot must equal the state of
// the feed at the snapshot's position. After the rest of the feed has been applied to it, it must
// equal the table.
func TestSnapshotUnderLoad(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		w.exec(`CREATE TABLE products (id int PRIMARY KEY, v int)`)
		w.exec(`INSERT INTO products SELECT n, 0 FROM generate_series(1, 100) n`)
		c.Producer.MaxPageEntities = 50
		r := w.run(w.db, c)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for n := range 6 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(n), 2))
				for ctx.Err() == nil {
					if err := w.write(t.Context(), rng); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		var made []*snapshot.Index
		for range 3 {
			index, err := w.db.AttachSnapshot(t.Context(), outbox.Capture{Feed: testFeed, Table: "products"}, c, snapshots.Config{})
			if err != nil {
				t.Error(err)
				break
			}
			made = append(made, index)
		}
		stop()
		wg.Wait()
		w.await()
		r.mustStop(t)
		all := entities(t, store)
		want := w.table()
		for n, index := range made {
			state := read(t, store, index)
			if n > 0 { // before the first snapshot, nothing was captured
				first := read(t, store, made[0])
				at := apply(t, first, after(t, all, made[0].Feed.ContentID), index.Feed.ContentID)
				if diff := cmp.Diff(at, state); diff != "" {
					t.Errorf("snapshot %d is not the state at its position: %s", n, diff)
				}
			}
			if diff := cmp.Diff(want, apply(t, state, after(t, all, index.Feed.ContentID), "")); diff != "" {
				t.Errorf("state from snapshot %d and the feed after it (-want +got): %s", n, diff)
			}
			checkPosition(t, store, index)
		}
	})
}

// write changes some rows in one transaction, and rolls back some of the changes.
func (w *world) write(ctx context.Context, rng *rand.Rand) error {
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	id := 1 + rng.IntN(40)
	for range 1 + rng.IntN(3) {
		id += 1 + rng.IntN(40)
		switch rng.IntN(4) {
		case 0:
			_, err = tx.Exec(ctx, "DELETE FROM products WHERE id = $1", id)
		case 1:
			_, err = tx.Exec(ctx, "INSERT INTO products VALUES ($1, $2) ON CONFLICT DO NOTHING", id, rng.IntN(1000))
		default:
			_, err = tx.Exec(ctx, "UPDATE products SET v = v + 1 WHERE id = $1", id)
		}
		if err != nil {
			return err
		}
	}
	if rng.IntN(5) == 0 {
		return nil
	}
	return tx.Commit(ctx)
}

// table returns the contents of the table products: the JSON of each row by its key.
func (w *world) table() map[string]string {
	w.Helper()
	rows, err := w.pool.Query(w.Context(), "SELECT id::text, row_to_json(products.*)::text FROM products")
	if err != nil {
		w.Fatal(err)
	}
	defer rows.Close()
	state := map[string]string{}
	for rows.Next() {
		var key, body string
		if err := rows.Scan(&key, &body); err != nil {
			w.Fatal(err)
		}
		state[key] = body
	}
	if err := rows.Err(); err != nil {
		w.Fatal(err)
	}
	return state
}

func after(t *testing.T, all []*feed.Entity, id string) []*feed.Entity {
	t.Helper()
	for n, e := range all {
		if e.ContentID == id {
			return all[n+1:]
		}
	}
	t.Fatalf("%s is not in the feed", id)
	return nil
}

// apply applies entities to a state, up to and including the entity with the given Content-ID.
func apply(t *testing.T, state map[string]string, entities []*feed.Entity, until string) map[string]string {
	t.Helper()
	for _, e := range entities {
		if e.Operation == feed.Delete {
			delete(state, e.Key())
		} else {
			state[e.Key()] = string(e.Body)
		}
		if e.ContentID == until {
			return state
		}
	}
	if until != "" {
		t.Fatalf("%s is not in the feed", until)
	}
	return state
}

// checkPosition checks that the position in the index can be found in the feed.
func checkPosition(t *testing.T, store storage.Store, index *snapshot.Index) {
	t.Helper()
	name, n, err := layout.ParseFeedPageURL(index.Feed.Page)
	if err != nil || name != testFeed || index.Feed.URL != layout.FeedPath(testFeed) {
		t.Errorf("position is %+v, %v", index.Feed, err)
	}
	_, object, err := chain.NewReader(store, testFeed).Open(t.Context(), n, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	data, err := io.ReadAll(object.Body)
	if err != nil || !bytes.Contains(data, []byte(index.Feed.ContentID)) {
		t.Errorf("page %d does not have %s (%v)", n, index.Feed.ContentID, err)
	}
	if index.CreatedAt.After(index.Feed.LastModified) {
		t.Errorf("created at %v, after its position %v", index.CreatedAt, index.Feed.LastModified)
	}
}

func TestSnapshotOfLargeRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.localStore()
	w.exec(`CREATE TABLE products (id int PRIMARY KEY, v text)`)
	w.exec(`INSERT INTO products VALUES (1, 'small'), (2, repeat('äb', 30000)), (3, repeat('abcdefgh', 1100000)), (4, 'small')`)
	index, err := w.db.AttachSnapshot(t.Context(), outbox.Capture{Feed: testFeed, Table: "products"}, outbox.Config{Local: store}, snapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.table(), read(t, store, index)); diff != "" {
		t.Errorf("%.1000s", diff)
	}
}

// The rows in a snapshot have the same form as those published by the triggers, whatever the
// settings of the session are.
func TestSnapshotOfTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := *w
	as.url += "&timezone=Asia/Kolkata&datestyle=SQL,DMY&intervalstyle=sql_standard&bytea_output=escape&extra_float_digits=0"
	as.db = outbox.Use(as.connect(nil), schema.Default)
	store := w.localStore()
	w.exec(`CREATE TYPE pair AS (a int, b timestamptz)`)
	w.exec(`CREATE TABLE products (id timestamptz PRIMARY KEY, day date, took interval, bytes bytea, x float8, pairs pair[], named regclass)`)
	w.exec(`INSERT INTO products VALUES ('2026-02-03 04:05:06Z', '2026-02-03', '1 day -2 hours', '\x00ff', 0.1::float8 + 0.2, '{"(1,2026-02-03 04:05:06Z)"}', 'products')`)
	index, err := as.db.AttachSnapshot(t.Context(), outbox.Capture{Feed: testFeed, Table: "products"}, outbox.Config{Local: store}, snapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w.exec(`CREATE TABLE old AS TABLE products; DELETE FROM products; INSERT INTO products TABLE old`)
	w.drain(outbox.Config{Local: store})
	all := entities(t, store) // the marker, the DELETE and the PUT
	if len(all) != 3 {
		t.Fatalf("%d events", len(all))
	}
	want := map[string]string{all[2].Key(): string(all[2].Body)}
	if diff := cmp.Diff(want, read(t, store, index)); diff != "" {
		t.Errorf("the snapshot differs from an event: %s", diff)
	}
	if diff := cmp.Diff(want, map[string]string{all[0].Key(): string(all[0].Body)}); diff != "" {
		t.Errorf("the event at its position differs: %s", diff)
	}
}

func TestSnapshotOfNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE products (id int PRIMARY KEY)`)
	_, err := w.db.AttachSnapshot(t.Context(), outbox.Capture{Feed: testFeed, Table: "products"}, outbox.Config{Local: w.localStore()}, snapshots.Config{})
	if !errors.Is(err, outbox.ErrEmpty) {
		t.Error(err)
	}
	w.does(`INSERT INTO products VALUES (1)`, `PUT 1 {"id":1}`)
}

// An empty table whose feed is not empty has an empty snapshot. The entities after the position of
// the snapshot lead to the contents of the table.
func TestSnapshotOfEmptyTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, move := outbox.Capture{Feed: testFeed, Table: "products"}, outbox.Config{Local: w.localStore()}
	w.exec(`CREATE TABLE products (id int PRIMARY KEY)`)
	if err := w.db.Attach(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.exec(`INSERT INTO products VALUES (1)`)
	w.drain(move)
	w.exec(`DELETE FROM products`)
	index, err := w.db.AttachSnapshot(t.Context(), c, move, snapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w.exec(`INSERT INTO products VALUES (2)`)
	w.drain(move)
	all := entities(t, move.Local)
	if len(all) != 3 || len(index.Pages) != 0 || index.Feed == nil || index.Feed.ContentID != all[0].ContentID {
		t.Errorf("%d events, index %+v; want 3, no pages and the position after the first", len(all), index)
	}
}

// A long transaction that writes to the table delays the installation of the triggers, but other
// writers wait only for a moment.
func TestAttachWaitsItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE products (id int PRIMARY KEY)`)
	long := w.begin()
	w.in(long, `INSERT INTO products VALUES (1)`)
	done := make(chan error, 1)
	go func() { done <- w.db.Attach(t.Context(), outbox.Capture{Feed: testFeed, Table: "products"}) }()
	for n := range 3 {
		w.exec(`SET lock_timeout = 5000`)
		w.exec(`INSERT INTO products VALUES ($1)`, n+2)
	}
	select {
	case err := <-done:
		t.Errorf("attach did not wait: %v", err)
	default:
	}
	w.commit(long)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.does(`INSERT INTO products VALUES (9)`, `PUT 9 {"id":9}`)
}

// A snapshot can be read even if the database is configured to end long transactions.
func TestSlowSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE products (id int PRIMARY KEY, v text)`)
	w.exec(`INSERT INTO products SELECT n, repeat('x', 1000) FROM generate_series(1, 5000) n`)
	settings := "idle_in_transaction_session_timeout=400"
	if get[int](w, `SELECT current_setting('server_version_num')::int`) >= 170000 { // the next setting is new in version 17
		settings += "&transaction_timeout=400"
	}
	as := *w
	as.url += "&" + settings
	as.db = outbox.Use(as.connect(nil), schema.Default)
	store := w.localStore()
	write := snapshots.Config{MaxPageBytes: 1 << 16, Progress: func(int64, int) { w.exec(`SELECT pg_sleep(0.3)`) }}
	index, err := as.db.AttachSnapshot(t.Context(), outbox.Capture{Feed: testFeed, Table: "products"}, outbox.Config{Local: store}, write)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.table(), read(t, store, index)); diff != "" {
		t.Errorf("%.1000s", diff)
	}
}

// If there is no second connection, the table is unlocked again and is not attached.
func TestSnapshotWithOneConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`CREATE TABLE products (id int PRIMARY KEY); INSERT INTO products VALUES (1)`)
	db, err := outbox.Create(t.Context(), w.url+"&pool_max_conns=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	_, err = db.AttachSnapshot(t.Context(), outbox.Capture{Feed: testFeed, Table: "products"}, outbox.Config{Local: w.localStore()}, snapshots.Config{})
	if err == nil || !strings.Contains(err.Error(), "second connection") {
		t.Error(err)
	}
	w.does(`INSERT INTO products VALUES (2)`)
}
