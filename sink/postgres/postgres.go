package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/suggest"
	"github.com/feedctl/feedctl/internal/tcp"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/internal/pgposition"
	"github.com/feedctl/feedctl/sink/internal/session"
)

// Options say what a sink writes.
type Options struct {
	// Table is TABLE or SCHEMA.TABLE, as it stands: upper case stays upper case. The
	// schema must exist; without one, it is the first of the search_path.
	Table string
	// Name tells consumers of one table apart; usually empty.
	Name string
	// Columns are columns of one's own, as in the documentation of the package; empty
	// for a table with whole entities.
	Columns string
	// Strict makes an entity that the columns refuse an error.
	Strict bool
	// Logger is told what goes into quarantine; nil for none.
	Logger *slog.Logger
}

// A Sink is a table. It implements [consumer.Sink].
type Sink struct {
	*session.Sink
	target *target
}

// Rejected returns how many entities the sink has put into quarantine since it was
// opened.
func (s *Sink) Rejected() consumer.Rejected {
	return consumer.Rejected{Quarantined: s.target.quarantined}
}

// Opener returns an opener for sinks named
// postgres://USER@HOST/DATABASE?table=SCHEMA.TABLE, with the optional parameters name,
// columns and strict=true; all others are for the connection.
func Opener(log *slog.Logger) sink.Opener {
	return func(ctx context.Context, s sink.Spec) (consumer.Sink, error) {
		url, o, err := parseSpec(s)
		if err != nil {
			return nil, err
		}
		if o.Table == "" {
			return nil, fmt.Errorf("%w: it has no table: want postgres://USER@HOST/DATABASE?table=SCHEMA.TABLE", sink.ErrSpec)
		}
		o.Logger = log
		return Open(ctx, url, o)
	}
}

// parseSpec returns the URL of the database and the options of the sink.
func parseSpec(s sink.Spec) (url string, o Options, err error) {
	rest := make(map[string][]string)
	for name, values := range s.Params {
		value := values[len(values)-1]
		switch name {
		case "table":
			o.Table = value
		case "name":
			o.Name = value
		case "columns":
			o.Columns = value
		case "strict":
			if value != "true" && value != "false" {
				return "", o, fmt.Errorf("%w: strict=%s: want true or false", sink.ErrSpec, value)
			}
			o.Strict = value == "true"
		default: // for the connection, of which PostgreSQL would refuse an unknown one
			if question := suggest.DidYouMean(name, []string{"table", "columns", "strict"}, ""); question != "" {
				return "", o, fmt.Errorf("%w: unknown parameter %q%s", sink.ErrSpec, name, question)
			}
			rest[name] = values
			continue
		}
		if len(values) > 1 {
			return "", o, fmt.Errorf("%w: parameter %q is given twice", sink.ErrSpec, name)
		}
	}
	s.Params = rest
	return s.String(), o, nil
}

// New returns a sink that writes a table in the database of a pool, which it does not open
// before it is asked for its position, as a [consumer.Job] does: see [Open]. Its connection is
// made as the pool makes its own, does not count as one of them, and has settings of its own.
func New(pool *pgxpool.Pool, o Options) (*Sink, error) {
	return newSink(pgposition.Dialer(pool, configure), o)
}

// Open opens a table in the database of a URL. It is created if it does not exist. It is
// refused with [sink.ErrLocked] if another consumer has it open, and if the table has
// rows but no position. The error matches [sink.ErrUnavailable] if the server did not do it
// for 30 seconds, and may later.
func Open(ctx context.Context, url string, o Options) (*Sink, error) { return open(ctx, url, o, nil) }

func open(ctx context.Context, url string, o Options, before func() error) (*Sink, error) {
	config, err := parseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	s, err := newSink(func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config) }, o)
	if err != nil {
		return nil, err
	}
	s.target.Before = before
	if _, err := s.Position(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func parseConfig(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%w: database URL: %w", sink.ErrSpec, err) // without the password
	}
	config.DialFunc = tcp.Dialer(config.ConnectTimeout).DialContext
	configure(config)
	return config, nil
}

// configure sets what the sink needs of its connection.
func configure(config *pgx.ConnConfig) {
	if _, ok := config.RuntimeParams["application_name"]; !ok {
		config.RuntimeParams["application_name"] = "feedctl consume"
	}
	config.RuntimeParams["client_encoding"] = "UTF8"    // whatever the database or the user has
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // leaves nothing behind in a shared session
}

func newSink(dial func(context.Context) (*pgx.Conn, error), o Options) (*Sink, error) {
	table, err := parseTable(o.Table)
	if err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	projections, err := parseColumns(o.Columns)
	if err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	t := &target{
		Keeper: pgposition.New(table.schema, table.name, o.Name, o.Logger, dial),
		table:  table, projections: projections, document: -1, strict: o.Strict, last: make(map[string]int),
	}
	return &Sink{session.New("postgres table "+o.Table, t), t}, nil
}

// A target is a table.
type target struct {
	pgposition.Keeper
	table       table
	projections []projection // none: a table with whole entities
	document    int          // field of the staged row with the whole body; -1 if there is none
	strict      bool

	staging string // name of the staging table; empty before the tables were prepared

	spool spool
	last  map[string]int // keys of the batch, with their last entry
	// changes are the patches of what earlier entries of the batch have left.
	changes []changed
	// unsure: patches may have overlooked such an entry, since its key is the same in other
	// words. The server is asked before the merge.
	unsure bool
	kinds  struct{ puts, deletes, refused int }
	body   content.Reader
	buf    []byte

	ahead  *ahead // takes rows already; nil if there is none
	pieces []byte // for it
	sent   int64  // offset in the spool of what it has not got
	alone  bool   // the batch has none
	looked bool   // the batch has needed rows of the table

	quarantined int64
}

// prepare makes the tables, or looks whether those that are there will do.
func (t *target) prepare(ctx context.Context) error {
	if err := t.Writer.Connect(ctx); err != nil {
		return err
	}
	err := pgx.BeginTxFunc(ctx, t.Writer.Conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		return t.setUp(ctx, tx)
	})
	if err != nil {
		return err
	}
	// The name tells the columns.
	sum := sha256.Sum256([]byte(strings.Join(t.table.contents, ",")))
	staging := fmt.Sprintf("feedctl_batch_%x", sum[:8])
	if err := t.explain(ctx, staging); err != nil {
		return err
	}
	t.staging = staging
	return nil
}

// explain has the server look at the statements of a batch: whether the types fit
// and the rights are there.
func (t *target) explain(ctx context.Context, staging string) error {
	if err := t.Step(); err != nil {
		return err
	}
	tx, err := t.Writer.Conn.Begin(ctx)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue(t.table.stage(staging, "", "DELETE ROWS"))
	b.Queue("EXPLAIN " + t.table.remove(staging))
	b.Queue("EXPLAIN " + t.table.upsert(staging, true))
	if len(t.projections) > 0 {
		b.Queue("EXPLAIN "+t.table.quarantine(staging), t.table.name, t.Name)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return errors.Join(fmt.Errorf("the table will not do: %w", err), tx.Rollback(context.WithoutCancel(ctx)))
	}
	return tx.Commit(ctx) // the session has its staging table now
}

// Recover forgets what was not committed, makes sure of the tables, the first time, and of
// the lock, and reads the position.
func (t *target) Recover(ctx context.Context) (at feed.Position, err error) {
	if err := t.reset(); err != nil {
		return at, err
	}
	if t.staging == "" {
		err = t.Retry(ctx, func() error { return t.prepare(ctx) })
	}
	if err == nil {
		at, err = t.Keeper.Recover(ctx)
	}
	if err != nil && pgposition.Passes(err) && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", sink.ErrUnavailable, err)
	}
	return at, err
}

func (t *target) Close() error { return errors.Join(t.reset(), t.Keeper.Close()) }
