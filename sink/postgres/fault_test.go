package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/postgres"
)

// testServerErrors makes the server fail during the merge, once or always. Transient errors are
// retried; after other errors, the batch and the position are rolled back.
func testServerErrors(t *testing.T, w *world) {
	w.exec("CREATE SEQUENCE calls")
	k := w.open(t, postgres.Options{Table: "t"})
	write(t, k, entity(1, "a", `1`))
	for i, c := range []struct {
		name, failure string
		times         int
		want          string // text of the expected error; "" for no error
	}{
		{"serialization failure", "40001", 2, ""},
		{"deadlock", "40P01", 2, ""},
		{"connection ended by the administrator", "terminate", 2, ""},
		{"disk full", "53100", 1e6, "free disk space"},
		{"no right", "42501", 1e6, "GRANT"},
		{"timeout", "57014", 1e6, "statement_timeout"},
		{"lock", "55P03", 1e6, "lock_timeout"},
		{"standby", "25006", 1e6, "target_session_attrs"},
		{"constraint", "23514", 1e6, "injected"}, // whole entities are never quarantined
		{"anything else", "XX000", 1e6, "injected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			failure := fmt.Sprintf("RAISE EXCEPTION 'injected' USING ERRCODE = '%s'", c.failure)
			if c.failure == "terminate" {
				failure = "PERFORM pg_terminate_backend(pg_backend_pid())"
			}
			w.exec("ALTER SEQUENCE calls RESTART", fmt.Sprintf(`
				CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					IF nextval('calls') <= %d THEN %s; END IF;
					RETURN NULL;
				END $$`, c.times, failure),
				"CREATE TRIGGER fail AFTER INSERT OR UPDATE ON t EXECUTE FUNCTION fail()")
			n := 2 + i
			before, err := k.Position(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			err = tryWrite(t.Context(), k, entity(n, "a", fmt.Sprint(n)))
			w.exec("DROP FUNCTION fail CASCADE")
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
			after, e := k.Position(t.Context())
			if e != nil {
				t.Fatal(e)
			}
			want := before
			if err == nil {
				want = at(n)
			}
			if after.ContentID != want.ContentID {
				t.Errorf("position is %v, want %v", after, want)
			}
			if id := w.value("SELECT content_id FROM t"); id != want.ContentID {
				t.Errorf("the row is that of %s, the position is %s", id, want.ContentID)
			}
		})
	}
}

// testLost cuts the connection before each kind of request, and after its response. The batch must
// take effect exactly once.
func testLost(t *testing.T, w *world) {
	p := pgtest.StartProxy(t, w.url, nil)
	k, err := postgres.Open(t.Context(), p.URL(), postgres.Options{Table: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	w.exec("CREATE TABLE changes (n int)",
		"CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO changes VALUES (1); RETURN NEW; END $$",
		"CREATE TRIGGER count AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION note()")
	n, changes := 0, 0
	for _, mark := range []string{"BEGIN ISOLATION", "COPY", "INSERT INTO", "COMMIT"} {
		for _, moment := range []pgtest.Moment{pgtest.BeforeRequest, pgtest.AfterAnswer} {
			for _, rows := range []int{1, 600} { // of 600 rows, some are copied before the end of the batch
				n++
				changes += rows
				var entities []*feed.Entity
				for i := range rows {
					entities = append(entities, entity(n, fmt.Sprint(i), fmt.Sprintf(`{"n":%d,"pad":"%01000d"}`, n, i)))
				}
				p.CutAt(mark, moment, func() {})
				write(t, k, entities...)
				if !p.WasCut() {
					t.Errorf("%s (moment %d): the connection was not cut", mark, moment)
				}
				got := w.value(fmt.Sprintf("SELECT count(*) || ' ' || (SELECT count(*) FROM changes) FROM t WHERE body->>'n' = '%d'", n))
				if want := fmt.Sprint(rows, " ", changes); got != want {
					t.Errorf("%s (moment %d), %d rows: %s, want %s", mark, moment, rows, got, want)
				}
			}
		}
	}
}

// TestRestart restarts and kills the server while a sink is in use.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.StartOwn(t), "a")
	k := w.open(t, postgres.Options{Table: "t"})
	var down sync.WaitGroup
	down.Go(func() {
		for range 2 {
			w.server.Kill()
			w.server.Start()
			w.server.Restart()
		}
	})
	ended := make(chan struct{})
	go func() { down.Wait(); close(ended) }()
	n := 0
	for running := true; running; {
		select {
		case <-ended:
			running = false
		default:
		}
		n++
		write(t, k, entity(n, fmt.Sprint(n), `{}`))
	}
	k.Close()
	w.connect()
	if got := w.value("SELECT count(*)::text FROM t"); got != fmt.Sprint(n) {
		t.Errorf("%s rows, want %d", got, n)
	}
	k = w.open(t, postgres.Options{Table: "t"})
	if p, err := k.Position(t.Context()); err != nil || p.ContentID != at(n).ContentID {
		t.Errorf("position is %v (%v)", p, err)
	}
}

// TestStandby: a sink that requires the primary waits until there is one.
func TestStandby(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.StartOwn(t, "log_connections=on"), "a")
	w.url += "&target_session_attrs=read-write&application_name=waiting"
	k := w.open(t, postgres.Options{Table: "t"})
	write(t, k, entity(1, "a", `1`))
	w.server.Demote()
	tries := func() int { return strings.Count(w.server.Log(), "application_name=waiting") }
	before := tries()
	done := make(chan error, 1)
	go func() { done <- tryWrite(context.Background(), k, entity(2, "b", `2`)) }()
	for tries() < before+3 {
		select {
		case err := <-done:
			t.Fatalf("without a primary: %v", err)
		default:
		}
	}
	w.server.Promote()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.connect()
	if got := w.value("SELECT string_agg(key, ' ' ORDER BY key) FROM t"); got != "a b" {
		t.Errorf("the table has %s", got)
	}
}

// testSilent: the server does not respond to the first connection, as during a failover.
// With connect_timeout, the sink tries again.
func testSilent(t *testing.T, w *world) {
	config, err := pgx.ParseConfig(w.url)
	if err != nil {
		t.Fatal(err)
	}
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for first := true; ; first = false {
			client, err := l.Accept()
			if err != nil {
				return
			}
			defer client.Close()
			if first {
				continue
			}
			server, err := net.Dial(network, address)
			if err != nil {
				return
			}
			defer server.Close()
			go io.Copy(client, server)
			go io.Copy(server, client)
		}
	}()
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(config.User, config.Password), Host: l.Addr().String(), Path: "/" + config.Database,
		RawQuery: "sslmode=disable&connect_timeout=2",
	}
	k, err := postgres.Open(t.Context(), u.String(), postgres.Options{Table: "t"})
	if err != nil {
		t.Fatal(err)
	}
	write(t, k, entity(1, "a", `1`))
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// testOneConnection: an idle sink has one connection, outside a transaction, which holds the lock.
// If the connection is lost, the sink connects and takes the lock again.
func testOneConnection(t *testing.T, w *world) {
	const sessions = `SELECT string_agg(state, ' ') FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'feedctl consume'`
	k := w.open(t, postgres.Options{Table: "t"})
	for n := range 2 {
		write(t, k, entity(n, "a", `1`))
		if got := w.value(sessions); got != "idle" {
			t.Errorf("round %d: the sessions of an idle sink are %q, want one idle session", n, got)
		}
		if _, err := postgres.Open(t.Context(), w.url, postgres.Options{Table: "t"}); !errors.Is(err, sink.ErrLocked) {
			t.Errorf("round %d: a second sink: got error %v, want %v", n, err, sink.ErrLocked)
		}
		w.exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'feedctl consume'")
	}
	write(t, k, entity(2, "a", `2`))
	if got := w.value("SELECT body::text FROM t"); got != "2" {
		t.Errorf("the row is %s", got)
	}
}

// testPool: a sink connects with the hooks of its pool.
func testPool(t *testing.T, w *world) {
	config, err := pgxpool.ParseConfig(w.url)
	if err != nil {
		t.Fatal(err)
	}
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.RuntimeParams["application_name"] = "hooked"
		return nil
	}
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS hooked; SET search_path = hooked")
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	k, err := postgres.New(pool, postgres.Options{Table: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if _, err := k.Position(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, k, entity(1, "a", `1`))
	if got := w.value("SELECT body::text || ' ' || (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hooked') FROM hooked.t"); got != "1 1" {
		t.Errorf("the row and the number of connections are %q", got)
	}
}

// testTakenOver takes the lock away from a sink unnoticed. After that, the sink must not commit.
func testTakenOver(t *testing.T, w *world) {
	for name, url := range map[string]func(*pgtest.TestServer) string{
		"direct":    func(*pgtest.TestServer) string { return w.url },
		"pgbouncer": func(s *pgtest.TestServer) string { return pgtest.PgBouncer(t, s, "TakenOver") },
	} {
		t.Run(name, func(t *testing.T) {
			w.exec("DROP TABLE IF EXISTS t, feedctl_positions")
			url := url(w.server)
			open := func() (*postgres.Sink, error) {
				return postgres.Open(t.Context(), url, postgres.Options{Table: "t"})
			}
			first, err := open()
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			write(t, first, entity(1, "a", `1`))
			b, err := first.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range 400 { // some rows have been copied by the end of the loop
				if err := b.Apply(t.Context(), entity(2, "a", fmt.Sprintf(`"%01000d"`, i))); err != nil {
					t.Fatal(err)
				}
			}
			w.exec("SELECT pg_terminate_backend(l.pid) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database WHERE l.locktype = 'advisory' AND d.datname = current_database()")
			second, err := open()
			if err != nil {
				t.Fatal(err)
			}
			defer second.Close()
			if err := b.Commit(t.Context(), at(2)); !errors.Is(err, sink.ErrLocked) {
				t.Errorf("commit without the lock: %v", err)
			}
			if _, err := first.Position(t.Context()); !errors.Is(err, sink.ErrLocked) {
				t.Errorf("position without the lock: %v", err)
			}
			write(t, second, entity(3, "a", `3`))
			if got := w.value("SELECT body::text FROM t"); got != "3" {
				t.Errorf("the row is %s", got)
			}
			second.Close()
			if p, err := first.Position(t.Context()); err != nil || p.ContentID != at(3).ContentID {
				t.Errorf("after the second sink was closed: position is %v (%v)", p, err)
			}
			write(t, first, entity(4, "a", `4`))
		})
	}
}

// testNames runs consumers with different names that write to one table concurrently.
func testNames(t *testing.T, w *world) {
	names := []string{"", "b", "it's"}
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			k, err := postgres.Open(t.Context(), w.url, postgres.Options{Table: "t", Name: name})
			if err != nil {
				t.Error(err)
				return
			}
			defer k.Close()
			for n := range 20 {
				if err := tryWrite(t.Context(), k, entity(n, fmt.Sprint(i, "/", n), `{}`)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := w.value("SELECT count(*)::text FROM t"); got != "60" {
		t.Errorf("%s rows", got)
	}
	if diff := cmp.Diff(map[string]string{"": "20", "b": "20", "it's": "20"}, w.pairs("SELECT name, commits::text FROM feedctl_positions")); diff != "" {
		t.Error(diff)
	}
}

// testSpec opens a sink by name, with an upper-case schema and table.
func testSpec(t *testing.T, w *world) {
	w.exec(`CREATE SCHEMA "S"`)
	s, err := sink.ParseSpec(w.url + "&table=S.T&name=n&columns=v=/v:int")
	if err != nil {
		t.Fatal(err)
	}
	k, err := postgres.Opener(nil)(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	write(t, k.(*postgres.Sink), entity(1, "a", `{"v":1}`))
	if got := w.value(`SELECT v || name FROM "S"."T", "S".feedctl_positions`); got != "1n" {
		t.Errorf("got %q", got)
	}
}

// testInterrupted ends contexts while a commit waits for another session's lock. The end of the
// batch's context does not interrupt the commit; the end of the commit's own context does.
func testInterrupted(t *testing.T, w *world) {
	k := w.open(t, postgres.Options{Table: "t"})
	write(t, k, entity(1, "a", `1`))
	w.exec("BEGIN", "UPDATE t SET headers = '{}'")
	for _, own := range []bool{true, false} {
		batch, end := context.WithCancel(t.Context())
		b, err := k.Begin(batch)
		if err == nil {
			err = b.Apply(batch, entity(2, "a", `2`))
		}
		if err != nil {
			t.Fatal(err)
		}
		commit, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		done := make(chan error)
		go func() { done <- b.Commit(commit, feed.Position{ContentID: "2"}) }()
		for w.value("SELECT 'yes' FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") == "" {
			w.exec("SELECT pg_stat_clear_snapshot()")
		}
		end()
		if own {
			interrupt()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("interrupted commit: %v", err)
			}
			w.exec("COMMIT")
			if at, err := k.Position(t.Context()); err != nil || at.ContentID == "2" {
				t.Fatalf("position %v, error %v", at, err)
			}
			w.exec("BEGIN", "UPDATE t SET headers = '{}'")
			continue
		}
		w.exec("COMMIT")
		if err := <-done; err != nil {
			t.Errorf("the batch was not committed: %v", err)
		}
	}
}
