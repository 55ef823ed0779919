package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/loopback"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// content returns the body of an object, or "" if the object does not exist.
func content(t *testing.T, store storage.Store, key string) string {
	t.Helper()
	o, err := store.Get(t.Context(), key, 0, -1)
	if errors.Is(err, storage.ErrNotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	data, err := io.ReadAll(o.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func keys(t *testing.T, store storage.Store) (keys []string) {
	t.Helper()
	for entry, err := range store.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, entry.Key)
	}
	return keys
}

// TestTx: a transaction sees its own writes. Others see these, together with the caller's rows,
// only if and when the transaction has been committed.
func TestTx(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("a")
	store, conn := open(t, url), connect(t, url)
	defer store.Close()
	run(t, conn, "CREATE TABLE rows (n int)")
	long := strings.Repeat("0123456789", 300_000)
	for _, commit := range []bool{false, true} {
		t.Run(fmt.Sprintf("commit: %v", commit), func(t *testing.T) {
			deleted, grown := put(t, store, fmt.Sprintf("deleted-%v", commit)), put(t, store, fmt.Sprintf("grown-%v", commit))
			before := keys(t, store)
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			within := store.WithTx(tx)
			ctx, key := t.Context(), fmt.Sprintf("new-%v", commit)
			body := func(s string) storage.Body { return storage.Bytes([]byte(s)) }
			if _, err := tx.Exec(ctx, "INSERT INTO rows VALUES (1)"); err != nil {
				t.Fatal(err)
			}
			at, err := within.Create(ctx, key, storage.Meta{}, body("one"))
			if err != nil {
				t.Fatal(err)
			}
			// After a write that is refused, the transaction can still be used.
			if _, err := within.Create(ctx, key, storage.Meta{}, body("other")); !errors.Is(err, storage.ErrExists) {
				t.Errorf("Create again: %v", err)
			}
			if _, err := within.Append(ctx, key, deleted, storage.Meta{}, body("x")); !errors.Is(err, storage.ErrConflict) {
				t.Errorf("Append at another version: %v", err)
			}
			short := storage.Concat(body(long), numbers{-1, io.Discard})
			if _, err := within.Append(ctx, key, at, storage.Meta{}, short); !errors.Is(err, storage.ErrSize) {
				t.Errorf("Append of a bad body: %v", err)
			}
			ended, cancel := context.WithCancel(ctx)
			cancel()
			if _, err := within.Append(ended, key, at, storage.Meta{}, body(long)); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled Append: %v", err)
			}
			if _, err = within.Append(ctx, key, at, storage.Meta{}, body(long)); err != nil {
				t.Fatal(err)
			}
			if got := content(t, within, key); got != "one"+long {
				t.Errorf("the transaction sees %.20q, %d bytes", got, len(got))
			}
			if _, err := within.Replace(ctx, fmt.Sprintf("grown-%v", commit), grown, storage.Meta{}, body("replaced")); err != nil {
				t.Error(err)
			}
			if err := within.Delete(ctx, fmt.Sprintf("deleted-%v", commit)); err != nil {
				t.Error(err)
			}
			if err := within.Delete(ctx, "never"); err != nil {
				t.Error(err)
			}
			var plans string
			if err := tx.QueryRow(ctx, "SHOW plan_cache_mode").Scan(&plans); err != nil || plans != "auto" {
				t.Errorf("the transaction has plan_cache_mode %q, error %v", plans, err)
			}
			during := keys(t, within)
			if got := keys(t, store); !slices.Equal(got, before) {
				t.Errorf("others see %q before the commit, want %q", got, before)
			}
			if !commit {
				err = tx.Rollback(ctx)
			} else {
				err = tx.Commit(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
			want, grownTo, rows := before, "old", 0
			if commit {
				want, grownTo, rows = during, "replaced", 1
			}
			if got := keys(t, store); !slices.Equal(got, want) {
				t.Errorf("after the end others see %q, want %q", got, want)
			}
			if got := content(t, store, fmt.Sprintf("grown-%v", commit)); got != grownTo {
				t.Errorf("the replaced object is %q", got)
			}
			var n int
			if err := conn.QueryRow(ctx, "SELECT count(*) FROM rows").Scan(&n); err != nil || n != rows {
				t.Errorf("the caller's table has %d rows, want %d, error %v", n, rows, err)
			}
		})
	}
	checkWholeDatabase(t, url)
}

// TestTxPublish publishes to a feed within a transaction.
func TestTxPublish(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("a")
	store, conn := open(t, url), connect(t, url)
	defer store.Close()
	for n := range 3 {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			f, err := producer.Open(t.Context(), store.WithTx(tx), "f", producer.Config{MaxPageEntities: 2})
			if err != nil {
				return err
			}
			defer f.Close()
			entities := make([]*feed.Entity, 5)
			for i := range entities {
				entities[i] = &feed.Entity{Operation: feed.Put, ContentType: "text/plain", Body: fmt.Append(nil, n, i)}
			}
			_, err = f.Publish(t.Context(), entities...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := len(keys(t, store)); got != 8+1 {
		t.Errorf("15 entities are in %d objects, want 8 pages and the floor", got)
	}
}

// TestKeepAlive: an object is locked while a large body arrives, so the server must not take hours
// to notice that the host of the writer is gone.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	host := loopback.Host()
	listener, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	listener.Close()
	pgtest.StartOwn(t, "listen_addresses='"+host+"'", "port="+port)
	url := "postgres://postgres@" + host + ":" + port + "/postgres?sslmode=disable"
	store, conn := open(t, url), connect(t, url)
	defer store.Close()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	idle := func() (seconds int) {
		t.Helper()
		if err := tx.QueryRow(t.Context(), "SELECT current_setting('tcp_keepalives_idle')::int").Scan(&seconds); err != nil {
			t.Fatal(err)
		}
		return seconds
	}
	for _, c := range []struct{ size, want int }{{1000, idle()}, {3 << 20, 15}} {
		key := strconv.Itoa(c.size)
		if _, err := store.WithTx(tx).Create(t.Context(), key, storage.Meta{}, storage.Bytes(make([]byte, c.size))); err != nil {
			t.Fatal(err)
		}
		if got := idle(); got != c.want {
			t.Errorf("after %d bytes, the keepalive time is %d s, want %d", c.size, got, c.want)
		}
	}
}
