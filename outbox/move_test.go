package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// places runs a test with each possible store for the pages.
func places(t *testing.T, test func(t *testing.T, w *world, c outbox.Config, store storage.Store)) {
	t.Run("store", func(t *testing.T) {
		store := memory.New()
		test(t, newWorld(t), outbox.Config{Store: store}, store)
	})
	t.Run("database", func(t *testing.T) {
		w := newWorld(t)
		store := w.localStore()
		test(t, w, outbox.Config{Local: store}, store)
	})
}

func TestMove(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		w.exec(`SELECT feedctl.publish('things', 'a/b ü')`)
		w.exec(`SELECT feedctl.publish('things', NULL, 'patch', '{"a":1}')`)
		w.exec(`SELECT feedctl.publish('things', 'k', 'DELETE')`)
		w.exec(`SELECT feedctl.publish('things', 'k', 'PUT', '\x00ff'::bytea, headers => '{"X-B": "2 ü", "X-A": ""}', content_id => '<mine@test>')`)
		w.exec(`SELECT feedctl.publish('things', 'k', 'PUT', '{"z": 1,  "a":2}'::json)`)
		w.exec(`SELECT feedctl.publish('things', 'k', 'PUT', '{"z": 1}'::jsonb, content_type => 'application/vnd.x+json; charset=utf-8')`)
		w.exec(`INSERT INTO feedctl.outbox (feed, key) VALUES ('things', 'plain')`)
		w.exec(`SELECT feedctl.publish('others', 'stays')`)
		stats := w.drain(c)
		got := entities(t, store)
		json := func(op feed.Operation, key, body string) *feed.Entity {
			return &feed.Entity{Operation: op, ContentType: "application/json", ContentLocation: key, Body: []byte(body)}
		}
		binary := json(feed.Put, "k", "\x00\xff")
		binary.ContentID, binary.ContentType = "<mine@test>", "application/octet-stream"
		binary.Header = []feed.Field{{Name: "X-A"}, {Name: "X-B", Value: "2 ü"}}
		vendor := json(feed.Put, "k", `{"z": 1}`)
		vendor.ContentType = "application/vnd.x+json; charset=utf-8"
		want := []*feed.Entity{
			json(feed.Put, "a%2Fb%20%C3%BC", ""), json(feed.Patch, "", `{"a":1}`), json(feed.Delete, "k", ""),
			binary, json(feed.Put, "k", `{"z": 1,  "a":2}`), vendor, json(feed.Put, "plain", ""),
		}
		ids := map[string]bool{}
		for n, e := range got {
			ids[e.ContentID] = true
			if n < len(want) && want[n].ContentID == "" {
				e.ContentID = ""
			}
		}
		// Entities are read with the Content-Length of their parts, but events do not have one.
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(feed.Entity{}, "LastModified", "Size"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if len(ids) != len(want) {
			t.Errorf("Content-IDs are not unique: %v", ids)
		}
		if stats.Rows != int64(len(want)) || stats.Quarantined != 0 {
			t.Errorf("stats are %+v", stats)
		}
		if left := get[string](w, "SELECT string_agg(feed || ' ' || key, ',') FROM feedctl.outbox"); left != "others stays" {
			t.Errorf("left in the outbox: %q", left)
		}
	})
}

// Both the function and the table refuse to insert invalid events.
func TestInvalidEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, bad := range []struct{ column, value, want string }{
		{"feed", "'a b'", "feed must"},
		{"feed", "''", "feed must"},
		{"feed", "'a..b'", "feed must"},
		{"feed", "'.a'", "feed must"},
		{"feed", "repeat('a', 101)", "feed must"},
		{"key", "''", "key must"},
		{"key", "repeat('ü', 2049)", "key must"},
		{"op", "'POST'", "op must"},
		{"content_type", "''", "content_type must"},
		{"content_type", "E'text/plain\\r\\nX: y'", "content_type must"},
		{"content_type", "' text/plain'", "content_type must"},
		{"content_id", "''", "content_id must"},
		{"content_id", "'a b'", "content_id must"},
		{"content_id", "repeat('a', 1025)", "content_id must"},
		{"headers", "'[]'", "headers must"},
		{"headers", `'"x"'`, "headers must"},
		{"headers", `'{"X": 1}'`, "headers must"},
		{"headers", `'{"X": null}'`, "headers must"},
		{"headers", `'{"": "x"}'`, "headers must"},
		{"headers", `'{"X Y": "x"}'`, "headers must"},
		{"headers", `'{"X": "a\nb"}'`, "headers must"},
		{"headers", `'{"X": " a"}'`, "headers must"},
		{"headers", `'{"content-ID": "a"}'`, "headers must"},
		{"headers", `jsonb_build_object('X', repeat('a', 16384))`, "headers must"},
	} {
		t.Run(bad.column+" "+bad.value, func(t *testing.T) {
			values := map[string]string{"feed": "'f'", "key": "'k'", "op": "'PUT'", "content_type": "NULL", "headers": "NULL", "content_id": "NULL"}
			values[bad.column] = bad.value
			call := fmt.Sprintf("SELECT feedctl.publish(%s, %s, %s, '', %s, %s, %s)", values["feed"], values["key"], values["op"],
				values["content_type"], values["headers"], values["content_id"])
			insert := fmt.Sprintf("INSERT INTO feedctl.outbox (feed, %s) VALUES ('f', %s)", bad.column, bad.value)
			if bad.column == "feed" {
				insert = fmt.Sprintf("INSERT INTO feedctl.outbox (feed) VALUES (%s)", bad.value)
			}
			for _, sql := range []string{call, insert} {
				if _, err := w.pool.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), bad.want) {
					t.Errorf("%s: %v, want %q", sql, err, bad.want)
				}
			}
		})
	}
	if n := get[int](w, "SELECT count(*) FROM feedctl.outbox"); n != 0 {
		t.Errorf("%d rows in the outbox", n)
	}
}

// Values of the maximum length can be published.
func TestMaximumLengths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`SELECT feedctl.publish('things', repeat('ü', 2048), 'PUT', '', repeat('a', 256),
		jsonb_build_object('X', repeat('a', 8000), 'Y', repeat('b', 8300)), repeat('c', 1024))`)
	store := memory.New()
	if stats := w.drain(outbox.Config{Store: store}); stats.Rows != 1 {
		t.Errorf("%+v", stats)
	}
}

// An invalid row that was inserted in spite of the checks is quarantined, and the other rows are
// published.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		w.exec(`ALTER TABLE feedctl.outbox DROP CONSTRAINT outbox_check`)
		w.publish("1")
		w.exec(`INSERT INTO feedctl.outbox (feed, headers) VALUES ('things', '{"X": "a\nb"}'), ('things', '[]')`)
		w.publish("2", strings.Repeat("large", 3))
		c.MaxEntity = 14
		c.MaxRows = 2
		stats := w.drain(c)
		if diff := cmp.Diff([]string{"1", "2"}, bodies(t, store)); diff != "" {
			t.Error(diff)
		}
		if stats.Quarantined != 3 || stats.Rows != 2 {
			t.Errorf("%+v", stats)
		}
		reasons := get[string](w, `SELECT string_agg(id || ' ' || reason, '; ' ORDER BY id) FROM feedctl.outbox_quarantine`)
		for _, want := range []string{"2 ", "control character", "3 headers are not a JSON object", "5 body has 15 bytes, the limit is 14"} {
			if !strings.Contains(reasons, want) {
				t.Errorf("reasons are %q, want %q", reasons, want)
			}
		}
		if n := get[int](w, "SELECT count(*) FROM feedctl.outbox"); n != 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}

// Bodies that are larger than a piece are read in pieces.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		w.publish("before")
		w.exec(`INSERT INTO feedctl.outbox (feed, body) SELECT 'things', convert_to(string_agg(n::text, ' '), 'UTF8') FROM generate_series(1, 500000) n`)
		w.publish("after")
		want := get[string](w, `SELECT string_agg(n::text, ' ') FROM generate_series(1, 500000) n`)
		c.Producer.SpoolDir = t.TempDir()
		w.drain(c)
		if diff := cmp.Diff([]string{"before", want, "after"}, bodies(t, store)); diff != "" {
			t.Errorf("large body differs: %.1000s", diff)
		}
	})
}

// A batch can fill many pages, which are written in order.
func TestManyPages(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		w.exec(`INSERT INTO feedctl.outbox (feed, body) SELECT 'things', convert_to(n::text, 'UTF8') FROM generate_series(1, 200) n`)
		c.MaxRows, c.Producer.MaxPageEntities = 150, 2
		w.drain(c)
		var want []string
		for n := range 200 {
			want = append(want, fmt.Sprint(n+1))
		}
		if diff := cmp.Diff(want, bodies(t, store)); diff != "" {
			t.Error(diff)
		}
	})
}

// An event that is published twice with the same Content-ID is in the feed once.
func TestSameContentID(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		for range 3 {
			for _, id := range []string{"<1@test>", "<2@test>"} {
				w.exec(`SELECT feedctl.publish('things', 'k', 'PUT', $1, content_id => $1)`, id)
				w.exec(`SELECT feedctl.publish('things', 'k', 'PUT', $1, content_id => $1)`, id)
			}
			w.drain(c)
		}
		r := w.run(w.db, c)
		for n := range 5 {
			w.exec(`SELECT feedctl.publish('things', 'k', 'PUT', '<1@test>', content_id => '<1@test>')`)
			w.await()
			w.publish(fmt.Sprint(n))
			w.await()
		}
		r.mustStop(t)
		if diff := cmp.Diff([]string{"<1@test>", "<2@test>", "0", "1", "2", "3", "4"}, bodies(t, store)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWrongDestination(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish("1")
	w.drain(outbox.Config{Store: memory.New()})
	if _, err := drain(t.Context(), w.db, outbox.Config{Local: w.localStore()}); !errors.Is(err, outbox.ErrDestination) {
		t.Error(err)
	}
}

// A feed that was not written by this outbox is left alone.
func TestForeignFeed(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T) (*world, *memory.Store) {
		w, store := newWorld(t), memory.New()
		w.publish("1")
		w.drain(outbox.Config{Store: store})
		w.publish("2")
		return w, store
	}
	refused := func(t *testing.T, w *world, store storage.Store, want string) {
		t.Helper()
		before := len(entities(t, store))
		_, err := drain(t.Context(), w.db, outbox.Config{Store: store})
		if !errors.Is(err, outbox.ErrForeign) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if after := len(entities(t, store)); after != before {
			t.Errorf("%d entities were published", after-before)
		}
		if n := get[int](w, "SELECT count(*) FROM feedctl.outbox"); n == 0 {
			t.Error("rows were deleted")
		}
	}
	t.Run("another store", func(t *testing.T) {
		w, _ := setup(t)
		refused(t, w, memory.New(), "check --store")
	})
	t.Run("another database", func(t *testing.T) {
		_, store := setup(t)
		w, _ := setup(t)
		refused(t, w, store, "another database")
	})
	t.Run("restored database", func(t *testing.T) {
		w, store := setup(t)
		w.exec("CREATE TABLE backup AS SELECT * FROM feedctl.outbox_feed")
		w.drain(outbox.Config{Store: store})
		w.publish("3")
		w.exec("DELETE FROM feedctl.outbox_feed")
		w.exec("INSERT INTO feedctl.outbox_feed SELECT * FROM backup")
		refused(t, w, store, "restored from a backup")
	})
	t.Run("another producer", func(t *testing.T) {
		w, store := setup(t)
		f, err := producer.Open(t.Context(), store, testFeed, producer.Config{})
		if err != nil {
			t.Fatal(err)
		}
		checkpoint, err := f.Checkpoint(t.Context())
		if err == nil {
			_, err = f.PublishBatch(t.Context(), producer.Batch{
				Entities: []*feed.Entity{{Operation: feed.Put, ContentType: "a/b"}}, Checkpoint: []byte("other"), Previous: checkpoint,
			})
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		refused(t, w, store, "another program")
	})
}

// Entities that others publish without a checkpoint cause no errors.
func TestOtherPublishers(t *testing.T) {
	t.Parallel()
	w, store := newWorld(t), memory.New()
	publishDirectly(t, store, "first")
	w.publish("1")
	r := w.run(w.db, outbox.Config{Store: store})
	w.await()
	publishDirectly(t, store, "second")
	w.publish("2")
	w.await()
	r.mustStop(t)
	if diff := cmp.Diff([]string{"first", "1", "second", "2"}, bodies(t, store)); diff != "" {
		t.Error(diff)
	}
}

// Another runner takes over after the first has crashed, and does so immediately if the first has
// released the lease.
func TestTakeover(t *testing.T) {
	t.Parallel()
	w, store := newWorld(t), memory.New()
	c := outbox.Config{Store: store, Lease: 500 * time.Millisecond}
	slow := c
	slow.Lease = time.Minute // the runner must keep the lease even if it is not scheduled for a long time
	w.publish("1")
	first := w.run(w.db, slow)
	w.await()
	second := w.run(w.db, c)
	w.publish("2")
	w.await()
	if s := second.Stats(); s.Rows != 0 || s.Working {
		t.Errorf("the second runner is active, too: %+v", s)
	}
	first.mustStop(t)
	w.publish("3")
	w.await()
	second.mustStop(t)
	// A killed runner leaves its lease behind, and perhaps a batch.
	w.exec(`INSERT INTO feedctl.outbox_lease VALUES ('things', 'dead', clock_timestamp() + interval '300 ms')`)
	w.publish("4")
	third := w.run(w.db, c)
	w.await()
	third.mustStop(t)
	if diff := cmp.Diff([]string{"1", "2", "3", "4"}, bodies(t, store)); diff != "" {
		t.Error(diff)
	}
}

// TestDrainBesideAnother: while another runner has the lease, Drain waits until that runner has
// moved the rows, or moves the rows itself if the other runner was killed.
func TestDrainBesideAnother(t *testing.T) {
	t.Parallel()
	w, store := newWorld(t), memory.New()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := outbox.Config{Store: store, Lease: 500 * time.Millisecond}
	first := w.run(w.db, c)
	w.publish("1")
	w.await()
	if stats, err := drain(ctx, w.db, c); err != nil || stats.Rows != 0 {
		t.Errorf("Drain while another runner is active: %+v, %v", stats, err)
	}
	first.mustStop(t)
	w.exec(`INSERT INTO feedctl.outbox_lease VALUES ('things', 'dead', clock_timestamp() + interval '300 ms')`)
	w.publish("2")
	if stats, err := drain(ctx, w.db, c); err != nil || stats.Rows != 1 {
		t.Errorf("Drain after a killed runner: %+v, %v", stats, err)
	}
	if diff := cmp.Diff([]string{"1", "2"}, bodies(t, store)); diff != "" {
		t.Error(diff)
	}
}
