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

	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/internal/tcp"
)

// A DB is a database with an outbox. Its methods may be called concurrently. They work through
// PgBouncer in transaction mode, since no state outlives a transaction.
type DB struct {
	pool   *pgxpool.Pool
	schema string
	begin  string
	poller *poller
}

// stallLimit is how long the server lets a transaction wait for its next statement.
const stallLimit = 5 * time.Second

// Open connects to the database at a URL, such as "postgres://user@host/database?schema=feedctl". Parts
// missing from the URL are taken from the environment variables and the password file of libpq
// (PGPASSWORD, PGPASSFILE and so on). Errors do not contain the password. If the schema does not exist,
// the error matches storage.ErrNoStore; if the schema must be migrated first, it matches
// storage.ErrLayout.
func Open(ctx context.Context, rawURL string) (*DB, error) {
	return open(ctx, rawURL, func(config *pgx.ConnConfig, name string) error {
		return schema.Check(ctx, config, name, schema.Write)
	})
}

// Create is like [Open], but creates the schema if it does not exist.
func Create(ctx context.Context, rawURL string) (*DB, error) {
	return open(ctx, rawURL, func(config *pgx.ConnConfig, name string) error {
		return schema.Create(ctx, config, name)
	})
}

func open(ctx context.Context, rawURL string, prepare func(config *pgx.ConnConfig, name string) error) (*DB, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// err contains the URL, and the error it wraps may contain a part of the password.
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
	// Statement descriptions are cached only by the client.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	if _, ok := config.ConnConfig.RuntimeParams["application_name"]; !ok {
		config.ConnConfig.RuntimeParams["application_name"] = "feedctl outbox"
	}
	config.ConnConfig.RuntimeParams["client_encoding"] = "UTF8" // whatever the default of the database or user is
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

// Use returns the outbox in an existing schema, such as "feedctl". Closing the outbox closes the
// pool.
//
// Transactions of the outbox read tables by their indexes, because statistics are misleading for a
// table that is empty at one moment and full at the next. Up to PostgreSQL 17, this makes the estimated
// cost of anything without an index, such as a sequence, so high that the server would compile the
// statement each time. That takes tens of milliseconds, so jit is off. Commits are synchronous, so that
// a row that was committed asynchronously is durable before it is published. Rows hidden by row
// security cause an error, instead of being missed. The server ends the transactions of a process that
// hangs or whose host is gone, so that such a process does not keep its locks.
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

// Close closes the pool of connections.
func (d *DB) Close() { d.pool.Close() }

// outbox returns the full name of the table, for statements outside of transactions.
func (d *DB) outbox() string { return pgx.Identifier{d.schema, "outbox"}.Sanitize() }

// do runs f in a transaction. After an error other than f's, it is unknown whether the
// transaction was committed.
func (d *DB) do(ctx context.Context, f func(tx pgx.Tx) error) error {
	return setup(pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{BeginQuery: d.begin}, f))
}

// setup wraps errors due to missing objects or privileges in ErrSetup.
func setup(err error) error {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch server.Code {
		case "3F000", "42P01", "42703", "42883": // no such schema, table, column, function
			return fmt.Errorf("%w: %w: run \"feedctl init\" or \"feedctl migrate\" with the URL of the database", ErrSetup, err)
		case "42501": // insufficient_privilege
			return fmt.Errorf("%w: %w: GRANT the privilege to this user, with BYPASSRLS if there is row security, or run this command as the owner", ErrSetup, err)
		}
	}
	return err
}
