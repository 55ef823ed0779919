package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/storage"
)

// sentinels lists all errors that promise that nothing was written.
var sentinels = []error{
	storage.ErrNotFound, storage.ErrExists, storage.ErrConflict, storage.ErrFull, storage.ErrPermission,
	storage.ErrLayout, storage.ErrKey, storage.ErrSize, storage.ErrMeta, storage.ErrUnsafe,
}

func isSentinel(err error) bool {
	return slices.ContainsFunc(sentinels, func(s error) bool { return errors.Is(err, s) })
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// TestServerErrors makes the server fail in the middle of writes, once or always, and
// checks the outcome.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("a")
	store, conn := open(t, url), connect(t, url)
	defer store.Close()
	run(t, conn, "CREATE SEQUENCE calls")
	const raise = "RAISE EXCEPTION 'injected' USING ERRCODE = '%s'"
	for _, fault := range []struct {
		name, code string
		times      int
		want       error  // nil if the write must succeed in the end, or the error is only known by its text
		text       string // text of the error if want is nil; "" for no error
	}{
		{"serialization failure", "40001", 2, nil, ""},
		{"deadlock", "40P01", 2, nil, ""},
		{"connection ended by the administrator", "terminate", 2, nil, ""},
		{"disk full", "53100", 1e6, storage.ErrFull, ""},
		{"no right", "42501", 1e6, storage.ErrPermission, ""},
		{"no table", "42P01", 1e6, storage.ErrLayout, ""},
		{"no procedure", "42883", 1e6, storage.ErrLayout, ""},
		{"timeout", "57014", 1e6, nil, "statement_timeout"},
		{"lock", "55P03", 1e6, nil, "lock_timeout"},
		{"standby", "25006", 1e6, nil, "read-only"},
		{"anything else", "XX000", 1e6, nil, "injected"},
	} {
		t.Run(fault.name, func(t *testing.T) {
			for verb, write := range writes {
				key := strings.ReplaceAll(fault.name+"/"+verb, " ", "_")
				var at storage.Version
				if verb != "create" {
					at = put(t, store, key)
				}
				failure := fmt.Sprintf(raise, fault.code)
				if fault.code == "terminate" {
					failure = "PERFORM pg_terminate_backend(pg_backend_pid())"
				}
				run(t, conn, "ALTER SEQUENCE calls RESTART", fmt.Sprintf(`
					CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
						IF nextval('calls') <= %d THEN %s; END IF;
						RETURN NULL;
					END $$`, fault.times, failure),
					"CREATE TRIGGER fail AFTER INSERT OR UPDATE OR DELETE ON feedctl.objects FOR EACH ROW EXECUTE FUNCTION fail()")
				err := write(t.Context(), store, key, at)
				run(t, conn, "DROP FUNCTION fail CASCADE")

				switch {
				case fault.want != nil && !errors.Is(err, fault.want):
					t.Errorf("%s: got error %v, want %v", verb, err, fault.want)
				case fault.want == nil && fault.text == "" && err != nil:
					t.Errorf("%s: %v", verb, err)
				case fault.text != "" && (err == nil || !strings.Contains(err.Error(), fault.text)):
					t.Errorf("%s: got error %v, want one with %q", verb, err, fault.text)
				case fault.text != "" && isSentinel(err):
					t.Errorf("%s: error %v matches one of package storage", verb, err)
				}
				checkDone(t, store, verb, key, err == nil)
			}
		})
	}
}

// writes holds a write of each kind. checkDone checks its effect.
var writes = map[string]func(ctx context.Context, store storage.Store, key string, at storage.Version) error{
	"create": func(ctx context.Context, store storage.Store, key string, _ storage.Version) error {
		_, err := store.Create(ctx, key, storage.Meta{}, storage.Bytes([]byte("new")))
		return err
	},
	"append": func(ctx context.Context, store storage.Store, key string, at storage.Version) error {
		_, err := store.Append(ctx, key, at, storage.Meta{}, storage.Bytes([]byte("new")))
		return err
	},
	"append much": func(ctx context.Context, store storage.Store, key string, at storage.Version) error {
		_, err := store.Append(ctx, key, at, storage.Meta{}, storage.Bytes(make([]byte, 3<<20)))
		return err
	},
	"replace": func(ctx context.Context, store storage.Store, key string, at storage.Version) error {
		_, err := store.Replace(ctx, key, at, storage.Meta{}, storage.Bytes([]byte("new")))
		return err
	},
	"delete": func(ctx context.Context, store storage.Store, key string, _ storage.Version) error {
		return store.Delete(ctx, key)
	},
}

// put creates the objects that the functions in writes change.
func put(t *testing.T, store storage.Store, key string) storage.Version {
	t.Helper()
	at, err := store.Create(t.Context(), key, storage.Meta{}, storage.Bytes([]byte("old")))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// checkDone compares the object with its expected state before or after the write.
func checkDone(t *testing.T, store storage.Store, verb, key string, done bool) {
	t.Helper()
	sizes := map[string][2]int64{"create": {-1, 3}, "append": {3, 6}, "append much": {3, 3 + 3<<20}, "replace": {3, 3}, "delete": {3, -1}}
	want := sizes[verb][0]
	if done {
		want = sizes[verb][1]
	}
	info, err := store.Stat(t.Context(), key)
	if errors.Is(err, storage.ErrNotFound) {
		info.Size = -1
	} else if err != nil {
		t.Error(err)
	}
	if info.Size != want {
		t.Errorf("%s: the object has size %d, want %d", verb, info.Size, want)
	}
}

// commitMark returns bytes that occur only in the request that commits a write.
func commitMark(verb, key string, at storage.Version) string {
	switch verb {
	case "create":
		return key
	case "append much":
		return "commit\x00"
	}
	return string(at)
}

// TestLostConnection cuts the connection of a write, either before the server receives it
// or after the server has responded. The write must take effect exactly once.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("a")
	direct := open(t, url)
	defer direct.Close()
	for _, moment := range []pgtest.Moment{pgtest.BeforeRequest, pgtest.AfterTransaction} {
		for verb, write := range writes {
			t.Run(fmt.Sprintf("%s, moment %d", verb, moment), func(t *testing.T) {
				p := pgtest.StartProxy(t, url, nil)
				store := open(t, p.URL())
				defer store.Close()
				key := fmt.Sprintf("%s/%v", strings.ReplaceAll(verb, " ", "_"), moment)
				var at storage.Version
				if verb != "create" {
					at = put(t, direct, key)
				}
				p.CutAt(commitMark(verb, key, at), moment, func() {})
				if err := write(t.Context(), store, key, at); err != nil {
					t.Error(err)
				}
				if !p.WasCut() {
					t.Error("no connection was cut")
				}
				checkDone(t, direct, verb, key, true)
			})
		}
	}
}

// TestLostConnectionOfReader cuts the connection of reads. Reads must be retried and return the
// stored objects.
func TestLostConnectionOfReader(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("a")
	p := pgtest.StartProxy(t, url, nil)
	store := open(t, p.URL())
	defer store.Close()
	for _, moment := range []pgtest.Moment{pgtest.BeforeRequest, pgtest.AfterTransaction} {
		there, not := fmt.Sprintf("there/%d", moment), fmt.Sprintf("not/%d", moment)
		put(t, store, there)
		for name, read := range map[string]func() error{
			"stat": func() error { _, err := store.Stat(t.Context(), not); return err },
			"get":  func() error { _, err := store.Get(t.Context(), not, 0, -1); return err },
		} {
			p.CutAt(not, moment, func() {})
			if err := read(); !errors.Is(err, storage.ErrNotFound) || !p.WasCut() {
				t.Errorf("%s of nothing: %v, cut: %v", name, err, p.WasCut())
			}
		}
		p.CutAt(there, moment, func() {})
		if got := content(t, store, there); got != "old" || !p.WasCut() {
			t.Errorf("get: %q, cut: %v", got, p.WasCut())
		}
		p.CutAt(there, moment, func() {})
		if err := store.Delete(t.Context(), there); err != nil || !p.WasCut() {
			t.Errorf("delete: %v, cut: %v", err, p.WasCut())
		}
	}
}

// TestUnknown: another writer changes the object before a writer whose connection was lost
// has read the outcome of its write.
func TestUnknown(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("a")
	direct := open(t, url)
	defer direct.Close()
	for verb, write := range writes {
		t.Run(verb, func(t *testing.T) {
			p := pgtest.StartProxy(t, url, nil)
			store := open(t, p.URL())
			defer store.Close()
			key := strings.ReplaceAll(verb, " ", "_")
			var at storage.Version
			if verb != "create" {
				at = put(t, direct, key)
			}
			p.CutAt(commitMark(verb, key, at), pgtest.AfterTransaction, func() {
				info, err := direct.Stat(context.Background(), key)
				if errors.Is(err, storage.ErrNotFound) {
					_, err = direct.Create(context.Background(), key, storage.Meta{}, storage.Bytes())
				} else if err == nil {
					_, err = direct.Replace(context.Background(), key, info.Version, storage.Meta{}, storage.Bytes())
				}
				if err != nil {
					t.Error(err)
				}
			})
			err := write(t.Context(), store, key, at)
			if err == nil || isSentinel(err) {
				t.Errorf("got error %v, want one that matches none of package storage", err)
			}
			if !p.WasCut() {
				t.Error("no connection was cut")
			}
		})
	}
}
