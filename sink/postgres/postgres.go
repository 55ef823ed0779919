package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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

// Options configure a sink.
type Options struct {
	// Table is TABLE or SCHEMA.TABLE, without case folding. The schema must exist; it
	// defaults to the first of the search_path.
	Table string
	// Name distinguishes consumers of one table; usually empty.
	Name string
	// Columns describes custom columns, as explained in the documentation of the package; empty for
	// a table with whole entities.
	Columns string
	// Strict makes it an error if the table rejects an entity.
	Strict bool
	// Logger receives warnings about quarantined entities; nil discards them.
	Logger *slog.Logger
}

// A Sink writes to a table. It implements [consumer.Sink].
type Sink struct {
	*session.Backfiller
	target *target
}

// Rejected returns how many entities the sink has quarantined since it was opened.
func (s *Sink) Rejected() consumer.Rejected {
	return consumer.Rejected{Quarantined: s.target.quarantined}
}

// Opener returns an opener for sinks named
// postgres://USER@HOST/DATABASE?table=SCHEMA.TABLE, with the optional parameters name,
// columns and strict=true; all other parameters are for the connection.
func Opener(log *slog.Logger) sink.Opener {
	return func(ctx context.Context, s sink.Spec) (consumer.Sink, error) {
		url, o, err := parseSpec(s)
		if err != nil {
			return nil, err
		}
		if o.Table == "" {
			return nil, errNoTable
		}
		o.Logger = log
		return Open(ctx, url, o)
	}
}

// Check returns an error that matches [sink.ErrSpec] if the name of a sink is wrong, as far as that
// can be known without the database.
func Check(s sink.Spec) error {
	url, o, err := parseSpec(s)
	if err != nil {
		return err
	}
	if o.Table == "" {
		return errNoTable
	}
	if _, err := parseConfig(url); err != nil {
		return err
	}
	_, err = newSink(nil, o)
	return err
}

var errNoTable = fmt.Errorf("%w: table is missing: want postgres://USER@HOST/DATABASE?table=SCHEMA.TABLE", sink.ErrSpec)

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
		default: // for the connection; PostgreSQL rejects unknown ones
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

// New returns a sink that writes to a table in the database of a pool. The sink opens the table, as
// [Open] does, in its Position method, which a [consumer.Job] calls first. The connection has the
// configuration of the pool, with some changes, but does not belong to the pool.
func New(pool *pgxpool.Pool, o Options) (*Sink, error) {
	return newSink(pgposition.Dialer(pool, configure), o)
}

// Open opens a table in the database of a URL. It creates the table if it does not exist. It
// returns an error if the table has rows but no position, [sink.ErrLocked] if another consumer
// has it open, and an error that matches [sink.ErrUnavailable] if the server was not available
// for 30 seconds.
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

func configure(config *pgx.ConnConfig) {
	if _, ok := config.RuntimeParams["application_name"]; !ok {
		config.RuntimeParams["application_name"] = "feedctl consume"
	}
	config.RuntimeParams["client_encoding"] = "UTF8"    // overrides that of the database or the user
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // leaves no state in a shared session
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
	return &Sink{session.NewBackfiller("postgres table "+o.Table, t), t}, nil
}

type target struct {
	pgposition.Keeper
	table       table
	projections []projection // empty for a table with whole entities
	document    int          // field of the staged row with the whole body; -1 if there is none
	strict      bool

	staging string // name of the staging table; empty until the tables are prepared

	spool spool
	last  map[string]int // index of the last entry for each key of the batch
	// changes are the patches of documents from earlier entries of the batch.
	changes []changed
	// unsure means that patches may have missed such an earlier entry, because its key has another
	// spelling that is equal as a value of the column. Before the merge, the server compares the
	// keys.
	unsure bool
	kinds  struct{ puts, deletes, refused int }
	body   content.Reader
	buf    []byte

	ahead    *ahead // the COPY of this batch, if it has begun
	pieces   []byte // buffer for ahead
	sent     int64  // rows before this offset in the spool were passed to ahead
	sentRows int    // number of rows that were sent, if ahead is direct
	direct   bool   // rows may be copied straight into the table, since all keys so far were new
	fresh    bool   // the batch has only PUTs with different keys so far
	alone    bool   // the rows of the batch must not be copied ahead
	looked   bool   // the batch has read from the database

	// Newest first:
	backfill bool                 // the batch may have entities that are older than stored ones
	notes    map[string]*keyNotes // of the batch
	noted    bool                 // there may be notes in the table or in the batch
	prepared bool                 // the table of notes exists
	complete bool                 // the commit removes all notes

	replacing replacing

	quarantined int64

	expected map[string]*sink.Row // rows that the commit must find in the table, by key; nil for no row
}

// prepare creates the tables, or checks the existing ones.
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
	// The name of the staging table depends on its columns.
	sum := sha256.Sum256([]byte(strings.Join(slices.Concat(staged, t.table.contents), ",")))
	staging := fmt.Sprintf("feedctl_batch_%x", sum[:8])
	if err := t.explain(ctx, staging); err != nil {
		return err
	}
	t.staging = staging
	t.direct = len(t.projections) == 0
	return nil
}

// explain checks the types and privileges with an EXPLAIN of the statements of a batch.
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
		return errors.Join(fmt.Errorf("the table cannot be used: %w", err), tx.Rollback(context.WithoutCancel(ctx)))
	}
	return tx.Commit(ctx) // the staging table is kept
}

// Recover discards uncommitted work, prepares the tables on its first call, ensures that the sink
// has the lock, and reads the position.
func (t *target) Recover(ctx context.Context) (at feed.Position, err error) {
	if err := t.reset(); err != nil {
		return at, err
	}
	if t.staging == "" {
		err = t.Retry(ctx, func() error { return t.prepare(ctx) })
	}
	if err == nil {
		at, err = t.Keeper.Recover(ctx)
		t.noted = at.Tail != nil
	}
	return at, err
}

var _ session.Remote = (*target)(nil)

// Unavailable reports whether an error means that the server is unavailable.
func (t *target) Unavailable(err error) bool { return pgposition.Passes(err) }

func (t *target) Close() error { return errors.Join(t.reset(), t.Keeper.Close()) }
