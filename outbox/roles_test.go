package outbox_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage/memory"
)

// A role with the documented rights can publish events, but cannot do anything else.
func TestPublisherRole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`DO $$ BEGIN IF to_regrole('shop_app') IS NULL THEN CREATE ROLE shop_app; END IF; END $$`)
	w.exec(`GRANT USAGE ON SCHEMA feedctl TO shop_app;
		GRANT INSERT (feed, key, op, body, content_type, headers, content_id) ON feedctl.outbox TO shop_app`)
	as := func(sql string) error {
		tx := w.begin()
		w.in(tx, "SET LOCAL ROLE shop_app")
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			return errors.Join(err, tx.Rollback(t.Context()))
		}
		return tx.Commit(t.Context())
	}
	for _, may := range []string{
		`SELECT feedctl.publish('things', '1', 'PUT', '{}'::jsonb, headers => '{"A": "b"}')`,
		`SELECT feedctl.publish('things', '2', 'DELETE')`,
		`INSERT INTO feedctl.outbox (feed, key, body) VALUES ('things', '3', 'x')`,
	} {
		if err := as(may); err != nil {
			t.Errorf("%s: %v", may, err)
		}
	}
	for _, mayNot := range []string{
		`SELECT * FROM feedctl.outbox`,
		`DELETE FROM feedctl.outbox`,
		`UPDATE feedctl.outbox SET key = 'x'`,
		`TRUNCATE feedctl.outbox`,
		`INSERT INTO feedctl.outbox (feed, id) OVERRIDING SYSTEM VALUE VALUES ('things', 1)`,
		`INSERT INTO feedctl.outbox (feed, created_at) VALUES ('things', now())`,
		`INSERT INTO feedctl.outbox (feed) VALUES ('things') RETURNING id`,
		`SELECT nextval('feedctl.outbox_id_seq')`,
		`SELECT * FROM feedctl.outbox_feed`,
		`DELETE FROM feedctl.outbox_lease`,
		`SELECT * FROM feedctl.objects`,
	} {
		if err := as(mayNot); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", mayNot, err)
		}
	}
	// Row security can restrict a role to one feed.
	w.exec(`ALTER TABLE feedctl.outbox ENABLE ROW LEVEL SECURITY;
		CREATE POLICY shop ON feedctl.outbox FOR INSERT TO shop_app WITH CHECK (feed = 'things')`)
	if err := as(`SELECT feedctl.publish('things', '4')`); err != nil {
		t.Error(err)
	}
	if err := as(`SELECT feedctl.publish('others', '4')`); err == nil {
		t.Error("publishes to another feed")
	}
	store := memory.New()
	w.drain(outbox.Config{Store: store})
	if n := len(entities(t, store)); n != 4 {
		t.Errorf("%d entities", n)
	}
}

// A role that does not own the tables but has all rights on them can run an outbox.
func TestRunnerRole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`DO $$ BEGIN IF to_regrole('shop_runner') IS NULL THEN CREATE ROLE shop_runner BYPASSRLS; END IF; END $$`)
	w.exec(`GRANT USAGE ON SCHEMA feedctl TO shop_runner;
		GRANT ALL ON ALL TABLES IN SCHEMA feedctl TO shop_runner; GRANT ALL ON ALL SEQUENCES IN SCHEMA feedctl TO shop_runner;
		ALTER TABLE feedctl.outbox ENABLE ROW LEVEL SECURITY`)
	u, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("role", "shop_runner")
	u.RawQuery = query.Encode()
	as := *w
	as.url = u.String()
	if as.db, err = outbox.Create(t.Context(), as.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(as.db.Close)
	w.publish("1", "2")
	local := as.localStore()
	as.drain(outbox.Config{Local: local})
	if diff := cmp.Diff([]string{"1", "2"}, bodies(t, local)); diff != "" {
		t.Error(diff)
	}
	if _, err := as.db.Status(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := as.db.Feeds(t.Context()); err != nil {
		t.Error(err)
	}
}

// If row security hides rows from a runner, the runner reports an error, instead of missing the
// rows.
func TestRunnerRowSecurity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`DO $$ BEGIN IF to_regrole('shop_helper') IS NULL THEN CREATE ROLE shop_helper; END IF; END $$`)
	w.exec(`GRANT USAGE ON SCHEMA feedctl TO shop_helper;
		GRANT ALL ON ALL TABLES IN SCHEMA feedctl TO shop_helper; GRANT ALL ON ALL SEQUENCES IN SCHEMA feedctl TO shop_helper;
		ALTER TABLE feedctl.outbox ENABLE ROW LEVEL SECURITY`)
	w.publish("1")
	u, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("role", "shop_helper")
	u.RawQuery = query.Encode()
	db, err := outbox.Create(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	_, moved := drain(t.Context(), db, outbox.Config{Feed: testFeed, Store: memory.New()})
	_, feeds := db.Feeds(t.Context())
	_, waiting := db.Waiting(t.Context())
	_, status := db.Status(t.Context())
	for what, err := range map[string]error{"run": moved, "feeds": feeds, "waiting": waiting, "status": status} {
		if !errors.Is(err, outbox.ErrSetup) || !strings.Contains(err.Error(), "BYPASSRLS") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A user whose functions shadow those of PostgreSQL can deceive the check constraint of the table,
// which is evaluated with the user's settings, but not the runner.
func TestHostileSearchPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`DROP SCHEMA IF EXISTS evil CASCADE; CREATE SCHEMA evil;
		CREATE FUNCTION evil.jsonb_each(jsonb, OUT key text, OUT value jsonb) RETURNS SETOF record LANGUAGE sql AS 'SELECT NULL::text, NULL::jsonb WHERE false';
		CREATE FUNCTION evil.strpos(text, text) RETURNS int LANGUAGE sql AS 'SELECT 0';
		CREATE FUNCTION evil.length(text) RETURNS int LANGUAGE sql AS 'SELECT 1'`)
	w.exec(`BEGIN; SET LOCAL search_path = evil, pg_catalog;
		SELECT feedctl.publish('things', '1', 'PUT', 'bad', headers => '{"A": "b\r\nContent-ID: <forged@example.com>"}');
		SELECT feedctl.publish('a..b', '1', 'PUT', 'bad');
		SELECT feedctl.publish('things', '2', 'PUT', 'good'); COMMIT`)
	w.exec(`BEGIN; SET LOCAL search_path = ''; SELECT feedctl.publish('things', '3', 'PUT', 'nowhere'); COMMIT`)
	store := memory.New()
	if stats := w.drain(outbox.Config{Store: store}); stats.Quarantined != 1 {
		t.Errorf("%d rows in quarantine", stats.Quarantined)
	}
	if diff := cmp.Diff([]string{"good", "nowhere"}, bodies(t, store)); diff != "" {
		t.Error(diff)
	}
	if feeds, err := w.db.Feeds(t.Context()); err != nil || !slices.Equal(feeds, []string{"things"}) {
		t.Errorf("feeds are %q, %v", feeds, err)
	}
}

// A role that does not own a table cannot attach it, and the error says why.
func TestAttachOthersTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`DO $$ BEGIN IF to_regrole('shop_owner') IS NULL THEN CREATE ROLE shop_owner; END IF; END $$`)
	w.exec(`CREATE TABLE products (id int PRIMARY KEY); GRANT ALL ON products TO shop_owner;
		GRANT ALL ON SCHEMA feedctl TO shop_owner; GRANT ALL ON ALL TABLES IN SCHEMA feedctl TO shop_owner`)
	u, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("role", "shop_owner")
	u.RawQuery = query.Encode()
	db, err := outbox.Create(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	c := outbox.Capture{Table: "products", Feed: testFeed}
	if err := db.Attach(t.Context(), c); !errors.Is(err, outbox.ErrCapture) || !strings.Contains(err.Error(), "owner is postgres") {
		t.Error(err)
	}
	w.exec(`ALTER TABLE products OWNER TO shop_owner`)
	if err := db.Attach(t.Context(), c); err != nil {
		t.Error(err)
	}
	w.does(`INSERT INTO products VALUES (1)`, `PUT 1 {"id":1}`)
	if err := db.DetachFeed(t.Context(), testFeed); err != nil {
		t.Error(err)
	}
}

// The documented rights suffice to attach a table, even with row security. If rights are missing,
// Attach fails, instead of later writes.
func TestAttachRole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`DO $$ BEGIN IF to_regrole('goods_owner') IS NULL THEN CREATE ROLE goods_owner; END IF; END $$`)
	w.exec(`CREATE TABLE goods (id int PRIMARY KEY); ALTER TABLE goods OWNER TO goods_owner;
		GRANT USAGE, CREATE ON SCHEMA feedctl TO goods_owner; GRANT SELECT ON feedctl.schema_version TO goods_owner;
		GRANT SELECT, INSERT, UPDATE, DELETE ON feedctl.outbox_capture TO goods_owner`)
	u, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("role", "goods_owner")
	u.RawQuery = query.Encode()
	db, err := outbox.Create(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	c := outbox.Capture{Table: "goods", Feed: testFeed}
	for _, grant := range []string{
		`GRANT INSERT (feed, key, op, body) ON feedctl.outbox TO goods_owner; ALTER TABLE feedctl.outbox ENABLE ROW LEVEL SECURITY`,
		`CREATE POLICY goods ON feedctl.outbox FOR INSERT TO goods_owner WITH CHECK (feed = 'things')`,
	} {
		if err := db.Attach(t.Context(), c); !errors.Is(err, outbox.ErrSetup) || !strings.Contains(err.Error(), "outbox") {
			t.Errorf("attached without %s: %v", grant, err)
		}
		w.does(`INSERT INTO goods VALUES (0); DELETE FROM goods`)
		w.exec(grant)
	}
	if err := db.Attach(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.does(`SET row_security = off; INSERT INTO goods VALUES (1), (2); DELETE FROM goods WHERE id = 1; TRUNCATE goods; RESET row_security`,
		`PUT 1 {"id":1}`, `PUT 2 {"id":2}`, `DELETE 1`, `DELETE 2`)
	// Forced row security hides rows even from the table's owner.
	w.exec(`INSERT INTO goods VALUES (3)`)
	w.events()
	w.exec(`ALTER TABLE goods ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY`)
	if _, err := w.pool.Exec(t.Context(), `TRUNCATE goods`); err == nil || !strings.Contains(err.Error(), "see all of its rows") {
		t.Errorf("TRUNCATE of rows that are hidden: %v", err)
	}
	w.does(`DELETE FROM goods`, `DELETE 3`)
}

// All operations work through PgBouncer in transaction mode.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	direct := s.URL("pooled")
	config, err := pgx.ParseConfig(direct)
	if err == nil {
		err = schema.Create(t.Context(), config, schema.Default)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, url: pgtest.PgBouncer(t, s, "pooled"), feed: testFeed}
	w.pool = w.connect(nil)
	if w.db, err = outbox.Create(t.Context(), w.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.db.Close)
	w.exec(`CREATE TABLE products (id int PRIMARY KEY)`)
	local := w.localStore()
	r := w.run(w.db, outbox.Config{Local: local, MaxRows: 3})
	w.attach(outbox.Capture{Table: "products"})
	w.exec(`INSERT INTO products VALUES (1), (2), (3), (4)`)
	w.await()
	w.publish("x")
	w.await()
	r.mustStop(t)
	if diff := cmp.Diff([]string{`{"id":1}`, `{"id":2}`, `{"id":3}`, `{"id":4}`, "x"}, bodies(t, local)); diff != "" {
		t.Error(diff)
	}
	if _, err := w.db.Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSetupErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := drain(t.Context(), outbox.Use(w.pool, "nowhere"), outbox.Config{Store: memory.New()}); !errors.Is(err, outbox.ErrSetup) {
		t.Error(err)
	}
	for _, bad := range []string{"mysql://h/d", "postgres://u:topsecret@h:port/d", "postgres://u:topsecret@%zz/d", "postgres://u:topsecret@127.0.0.1:1/d?schema=No"} {
		if _, err := outbox.Create(t.Context(), bad); err == nil || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, bad := range []outbox.Config{
		{}, {Feed: "a b", Store: memory.New()}, {Feed: "a"}, {Feed: "a", Store: memory.New(), MaxRows: -1},
	} {
		if _, err := w.db.NewRunner(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
