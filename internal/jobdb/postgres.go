package jobdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/internal/tcp"
)

// defaultSchema is the schema of the tables in PostgreSQL.
const defaultSchema = "feedctl_jobs"

// idleLimit is how long a transaction may be idle. It ends the transactions of a process that is frozen, since their
// locks would keep other nodes from taking over its jobs. It is shorter than the lease of a node.
const idleLimit = "5s"

type postgres struct {
	pool     *pgxpool.Pool
	schema   string
	readOnly bool
}

func openPostgres(ctx context.Context, text string, a Access) (*postgres, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	explicit := u.Query().Has("schema")
	rest, name, err := schema.Cut(u)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	if !explicit {
		name = defaultSchema
	}
	config, err := pgxpool.ParseConfig(rest.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	config.ConnConfig.DialFunc = tcp.Dialer(config.ConnConfig.ConnectTimeout).DialContext
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // prepared statements would stay in a shared session
	config.MaxConns = max(config.MaxConns, 2)                               // during a migration, one connection holds a lock
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &postgres{pool, name, a == Read}, nil
}

func (p *postgres) reserve(context.Context) (io.Closer, error) { return nil, nil }

func (p *postgres) has(ctx context.Context, name string) (exists bool, err error) {
	err = p.pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", p.schema+"."+name).Scan(&exists)
	return exists, err
}

func (p *postgres) name() string {
	c := p.pool.Config().ConnConfig
	host := net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	if strings.HasPrefix(c.Host, "/") {
		host = "" // a Unix socket
	}
	return (&url.URL{Scheme: "postgres", Host: host, Path: "/" + c.Database, RawQuery: "schema=" + p.schema}).String()
}

func (p *postgres) close() error {
	p.pool.Close()
	return nil
}

func (p *postgres) dialect() dialect {
	return dialect{
		prefix: p.schema + ".",
		now:    "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
		lock:   "FOR UPDATE",
		skip:   "FOR UPDATE SKIP LOCKED",
		param:  "$",
	}
}

func (p *postgres) begin(ctx context.Context, readOnly bool, do func(Tx) error) error {
	start := "BEGIN"
	if readOnly || p.readOnly {
		start = "BEGIN READ ONLY"
	}
	// The limit is set only for this transaction: behind PgBouncer, the next transaction on the connection may belong
	// to another program.
	options := pgx.TxOptions{BeginQuery: start + "; SET LOCAL idle_in_transaction_session_timeout = '" + idleLimit + "'"}
	for attempt := 1; ; attempt++ {
		err := pgx.BeginTxFunc(ctx, p.pool, options, func(tx pgx.Tx) error { return do(&postgresTx{tx}) })
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != deadlock || attempt == deadlockTries {
			return err
		}
	}
}

const (
	deadlock      = "40P01" // deadlock_detected: transactions waited for each other, and the server has rolled back this one
	deadlockTries = 5
)

type postgresTx struct{ tx pgx.Tx }

func (t *postgresTx) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := t.tx.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

func (t *postgresTx) Query(ctx context.Context, sql string, args ...any) (Rows, error) {
	rows, err := t.tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return &postgresRows{rows}, nil
}

type postgresRows struct{ pgx.Rows }

func (r *postgresRows) Close() error {
	r.Rows.Close()
	return r.Err()
}

func unwrapPostgres(tx Tx) pgx.Tx { return tx.(*rewriting).Tx.(*postgresTx).tx }

// alone holds a lock with a transaction on a connection of its own. The transaction is idle while do runs; if that
// takes longer than 10 minutes, the process is considered frozen.
func (p *postgres) alone(ctx context.Context, do func() error) error {
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = '10min'"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "feedctl queue "+p.schema); err != nil {
			return err
		}
		return do()
	})
}

func (p *postgres) migrateQueue(ctx context.Context) error {
	return migrateQueue(ctx, riverpgxv5.New(p.pool), p.schema)
}

func (p *postgres) queue(ctx context.Context, c QueueConfig) (Queue, error) {
	return newQueue(ctx, riverpgxv5.New(p.pool), unwrapPostgres, p.schema, c)
}

func (p *postgres) ui(ctx context.Context, prefix string) (http.Handler, error) {
	return newUI(ctx, riverpgxv5.New(p.pool), p.schema, prefix)
}
