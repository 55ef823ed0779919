package outbox

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/internal/tcp"
	"github.com/feedctl/feedctl/storage/postgres/schema"
)

// A DB is a database with an outbox. Its methods may be called concurrently, and work
// through a PgBouncer in transaction mode: nothing outlives a transaction.
type DB struct {
	pool   *pgxpool.Pool
	schema string
	begin  string
	poller *poller
}

// stallLimit is how long a transaction waits for its next statement.
const stallLimit = 5 * time.Second

// Open connects to the database that a URL names, such as
// "postgres://user@host/database?schema=feedctl". What the URL leaves out is taken from
// the variables and the password file of libpq (PGPASSWORD, PGPASSFILE and so on). The
// password does not show in errors. A schema that is not there is an error that matches
// storage.ErrNoStore, one that must be migrated first, storage.ErrLayout.
func Open(ctx context.Context, rawURL string) (*DB, error) {
	return open(ctx, rawURL, func(config *pgx.ConnConfig, name string) error {
		return schema.Check(ctx, config, name, schema.Write)
	})
}

// Create is [Open], but makes the schema if there is none.
func Create(ctx context.Context, rawURL string) (*DB, error) {
	return open(ctx, rawURL, func(config *pgx.ConnConfig, name string) error {
		return schema.Create(ctx, config, name)
	})
}

func open(ctx context.Context, rawURL string, prepare func(config *pgx.ConnConfig, name string) error) (*DB, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// The error shows the URL, and its cause what may be a part of the password.
		return nil, errors.New("database URL is invalid: write % / ? # @ within a password as %25 %2F %3F %23 %40")
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("parse database URL: scheme %q is not postgres", u.Scheme)
	}
	rest, name, err := schema.Cut(u)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(rest.String())
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	// Descriptions of statements are kept on this side only.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	if _, ok := config.ConnConfig.RuntimeParams["application_name"]; !ok {
		config.ConnConfig.RuntimeParams["application_name"] = "feedctl outbox"
	}
	config.ConnConfig.RuntimeParams["client_encoding"] = "UTF8" // whatever the database or the user has
	config.ConnConfig.DialFunc = tcp.Dialer(config.ConnConfig.ConnectTimeout).DialContext
	if err := prepare(config.ConnConfig, name); err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return Use(pool, name), nil
}

// Use returns the outbox in a schema that is there, such as "feedctl". The pool is
// closed with it.
//
// In a transaction, tables are read by their indexes: statistics of a table that is
// empty at one moment and full at the next mislead. Up to PostgreSQL 17, what cannot be
// read by an index counts as so dear then, a sequence too, that the server would compile the
// statement each time (jit), for tens of milliseconds. And a row that was committed
// asynchronously must not be published before it is durable: a synchronous commit
// after it sees to that. Rows that row security hides must not be taken for none: they
// are an error. A process that does not go on, or whose host is gone, must
// not keep its locks: the server ends its transaction.
func Use(pool *pgxpool.Pool, schema string) *DB {
	d := &DB{pool: pool, schema: schema, begin: fmt.Sprintf(`BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
		SET LOCAL search_path = %s, pg_catalog, pg_temp;
		SET LOCAL standard_conforming_strings = on; SET LOCAL client_encoding = 'UTF8';
		SET LOCAL idle_in_transaction_session_timeout = %d;
		SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off; SET LOCAL row_security = off;
		SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN ('off', 'local')`,
		pgx.Identifier{schema}.Sanitize(), stallLimit.Milliseconds())}
	d.poller = newPoller(d)
	return d
}

// Close closes the connections.
func (d *DB) Close() { d.pool.Close() }

// outbox returns the full name of the table, for statements outside of transactions.
func (d *DB) outbox() string { return pgx.Identifier{d.schema, "outbox"}.Sanitize() }

// do runs f in a transaction. After an error nobody knows whether it was committed,
// unless the error is f's.
func (d *DB) do(ctx context.Context, f func(tx pgx.Tx) error) error {
	return setup(pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{BeginQuery: d.begin}, f))
}

// setup names the errors of a database that lacks something.
func setup(err error) error {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch server.Code {
		case "3F000", "42P01", "42703", "42883": // no such schema, table, column, function
			return fmt.Errorf("%w: %w: run \"feedctl init\" or \"feedctl migrate\" with the URL of the database", ErrSetup, err)
		case "42501": // insufficient_privilege
			return fmt.Errorf("%w: %w: GRANT it to the user, with BYPASSRLS if there is row security, or have the owner do it", ErrSetup, err)
		}
	}
	return err
}
