package postgres_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/storage"
)

// TestStandby: reading from a standby works, and the errors of writes say that the server may be a
// standby. With target_session_attrs, a writer waits until there is a primary.
func TestStandby(t *testing.T) {
	t.Parallel()
	server := pgtest.StartOwn(t, "log_connections=on")
	url := server.URL("a")
	waiting := open(t, url+"&target_session_attrs=read-write&application_name=waiting")
	defer waiting.Close()
	versions := make(map[string]storage.Version)
	for verb := range writes {
		if verb != "create" {
			versions[verb] = put(t, waiting, strings.ReplaceAll(verb, " ", "_"))
		}
	}
	server.Demote()
	store, log := openWithLog(t, url)
	if got := content(t, store, "append"); got != "old" {
		t.Errorf("the standby has %q", got)
	}
	changed, err := store.Watch(t.Context(), "a/")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		<-changed // by time
	}
	if log.lines() != 1 {
		t.Errorf("the log is %s", &log.text)
	}
	for verb, write := range writes {
		key := strings.ReplaceAll(verb, " ", "_")
		err := write(t.Context(), store, key, versions[verb])
		if err == nil || isSentinel(err) || !strings.Contains(err.Error(), "read-only") || strings.Contains(err.Error(), "unknown") {
			t.Errorf("%s on a standby: error is %v", verb, err)
		}
		checkDone(t, store, verb, key, false)
	}

	tries := func() int { return strings.Count(server.Log(), "application_name=waiting") }
	before := tries()
	done := make(chan error)
	go func() { done <- writes["append"](context.Background(), waiting, "append", versions["append"]) }()
	for tries() < before+3 {
		select {
		case err := <-done:
			t.Fatalf("write that requires the primary: %v", err)
		default:
		}
	}
	server.Promote()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	checkDone(t, waiting, "append", "append", true)
}

// TestTooManyConnections: a writer waits for a free connection.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	server := pgtest.StartOwn(t, "max_connections=8", "superuser_reserved_connections=0")
	url := server.URL("a")
	store, conn := open(t, url), connect(t, url)
	defer store.Close()
	alone(t, conn)
	for range 7 {
		connect(t, url)
	}
	done := make(chan error)
	go func() { done <- writes["create"](context.Background(), store, "create", "") }()
	for !strings.Contains(server.Log(), "too many clients already") {
		select {
		case err := <-done:
			t.Fatalf("create without a connection: %v", err)
		default:
		}
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	checkDone(t, store, "create", "create", true)
}

// TestSerializable: if a stricter isolation level is set, concurrent writers get serialization
// failures. Every increment must be counted exactly once.
func TestSerializable(t *testing.T) {
	t.Parallel()
	const writers, steps = 4, 20
	url := pgtest.Start(t).URL("a") + "&default_transaction_isolation=serializable"
	store := open(t, url)
	defer store.Close()
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			_, err := store.Create(t.Context(), "counter", storage.Meta{}, storage.Bytes())
			if err != nil && !errors.Is(err, storage.ErrExists) {
				t.Error(err)
			}
			for range steps {
				for err = storage.ErrConflict; errors.Is(err, storage.ErrConflict); {
					err = countOn(t.Context(), store)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := len(content(t, store, "counter")); got != writers*steps {
		t.Errorf("counted to %d, want %d", got, writers*steps)
	}
}

// TestMessagesInOtherLanguage: errors are recognized whatever the language of the server's
// messages.
func TestMessagesInOtherLanguage(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("a")
	p, conn := pgtest.StartProxy(t, url, strings.NewReplacer("SERROR\x00", "SERREU\x00")), connect(t, url)
	store := open(t, p.URL())
	defer store.Close()
	run(t, conn, "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "+
		"$$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '53100'; END $$",
		"CREATE TRIGGER fail AFTER INSERT ON feedctl.objects FOR EACH ROW EXECUTE FUNCTION fail()")
	err := writes["create"](t.Context(), store, "create", "")
	if !errors.Is(err, storage.ErrFull) || !strings.Contains(err.Error(), "ERREU") {
		t.Errorf("got error %v, want %v in another language", err, storage.ErrFull)
	}
}

// alone waits until the database has no other sessions.
func alone(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for n := 1; n > 0; {
		err := conn.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestIdleSession makes the server close idle connections.
func TestIdleSession(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("a")
	store, conn := open(t, url), connect(t, url)
	defer store.Close()
	// The limit is set only now, since opening a store may take longer.
	run(t, conn, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET idle_session_timeout = 100', current_database()); END $$")
	run(t, conn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`)
	for verb, write := range writes {
		key := strings.ReplaceAll(verb, " ", "_")
		var at storage.Version
		if verb != "create" {
			at = put(t, store, key)
		}
		alone(t, conn)
		if err := write(t.Context(), store, key, at); err != nil {
			t.Error(err)
		}
		checkDone(t, store, verb, key, true)
	}
}

// TestIdleTransaction: the server ends a transaction whose body arrives too slowly.
func TestIdleTransaction(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("a")
	patient, store, conn := open(t, url), open(t, url+"&idle_in_transaction_session_timeout=100&pool_max_conns=1"), connect(t, url)
	defer store.Close()
	at := put(t, patient, "append_much") // it has also migrated
	patient.Close()
	_, err := store.Append(t.Context(), "append_much", at, storage.Meta{}, slow{3 << 20, func() { alone(t, conn) }})
	if err == nil || isSentinel(err) || !strings.Contains(err.Error(), "idle_in_transaction_session_timeout") || strings.Contains(err.Error(), "unknown") {
		t.Errorf("got error %v", err)
	}
	checkDone(t, store, "append much", "append_much", false)
}

// slow is a body of zeros that calls wait when half of it has been read.
type slow struct {
	size int64
	wait func()
}

func (s slow) Size() int64 { return s.size }

func (s slow) Open() (io.ReadCloser, error) {
	half := io.LimitReader(zeros{}, s.size/2)
	return io.NopCloser(io.MultiReader(half, waiting(s.wait), io.LimitReader(zeros{}, s.size-s.size/2))), nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A waiting is an empty reader that calls a function, which may block, when it is read.
type waiting func()

func (w waiting) Read([]byte) (int, error) { w(); return 0, io.EOF }
