package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/internal/tcp"
	"github.com/feedctl/feedctl/storage"
)

// A Store keeps objects in the tables of one schema. It implements
// [storage.Store], [storage.Locator], [storage.Watcher], [storage.Clock] and
// [storage.Namer].
type Store struct {
	pool  *pgxpool.Pool
	owned bool // the pool is closed with the store
	table tables
	hints *hints
	watch *watches
}

// Open opens the store at a URL, such as
// "postgres://user@host/database?schema=feedctl"; see the package documentation
// for the parameters. It returns [storage.ErrNoStore] if there is no store, and writes nothing. The
// schema may have any version that can be read. Open is a [storage.Opener] for the schemes
// "postgres" and "postgresql".
func Open(ctx context.Context, u *url.URL) (storage.Store, error) {
	return newStore(ctx, u, slog.Default(), func(config *pgx.ConnConfig, name string) error {
		return schema.Check(ctx, config, name, schema.Read)
	})
}

// Create is like [Open], but the store can be written: Create creates the schema if it does not
// exist, and returns [storage.ErrLayout] if the schema must be migrated first.
func Create(ctx context.Context, u *url.URL) (storage.Store, error) {
	return Connect(ctx, u, slog.Default())
}

// Connect is like [Create], with a logger for warnings.
func Connect(ctx context.Context, u *url.URL, log *slog.Logger) (*Store, error) {
	return newStore(ctx, u, log, func(config *pgx.ConnConfig, name string) error {
		return schema.Create(ctx, config, name)
	})
}

// Options are the options of [New].
type Options struct {
	// Schema is the schema that holds the tables; by default "feedctl".
	Schema string
	// ReadOnly means that the schema must exist and is only read; New does not create one.
	ReadOnly bool
	// Log receives warnings; nil discards them.
	Log *slog.Logger
}

// New is like [Create], but uses the caller's pool, which the store does not close. To check the
// schema and to watch for changes, it opens connections outside the pool, with the pool's
// ConnConfig but without its hooks.
func New(ctx context.Context, pool *pgxpool.Pool, o Options) (*Store, error) {
	name := cmp.Or(o.Schema, schema.Default)
	if err := schema.CheckName(name); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	config, err := pool.Config().ConnConfig, error(nil)
	if o.ReadOnly {
		err = schema.Check(ctx, config, name, schema.Read)
	} else {
		err = schema.Create(ctx, config, name)
	}
	if err != nil {
		return nil, err
	}
	return over(pool, config, name, o.Log), nil
}

// Migrate migrates the schema of the store to the newest version; see [schema.Migrate].
func Migrate(ctx context.Context, u *url.URL, dryRun bool) (schema.Plan, error) {
	config, name, err := ParseURL(u)
	if err != nil {
		return schema.Plan{}, err
	}
	return schema.Migrate(ctx, config.ConnConfig, name, dryRun)
}

// ParseURL parses the URL of a store, which the package documentation describes, and returns the
// configuration of its pool and the name of its schema.
func ParseURL(u *url.URL) (config *pgxpool.Config, name string, err error) {
	rest, name, err := schema.Cut(u)
	if err != nil {
		return nil, "", err
	}
	config, err = pgxpool.ParseConfig(rest.String())
	if err != nil {
		return nil, "", fmt.Errorf("parse database URL: %w", err) // err does not contain the password
	}
	if _, ok := config.ConnConfig.RuntimeParams["application_name"]; !ok {
		config.ConnConfig.RuntimeParams["application_name"] = "feedctl"
	}
	config.ConnConfig.DefaultQueryExecMode = mode
	config.ConnConfig.DialFunc = tcp.Dialer(config.ConnConfig.ConnectTimeout).DialContext
	return config, name, nil
}

func newStore(ctx context.Context, u *url.URL, log *slog.Logger, prepare func(config *pgx.ConnConfig, name string) error) (*Store, error) {
	config, name, err := ParseURL(u)
	if err != nil {
		return nil, err
	}
	if err := prepare(config.ConnConfig, name); err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := over(pool, config.ConnConfig, name, log)
	s.owned = true
	return s, nil
}

// over returns a store that uses the given pool, and the given configuration for the connection
// that watches.
func over(pool *pgxpool.Pool, config *pgx.ConnConfig, name string, log *slog.Logger) *Store {
	return &Store{
		pool:  pool,
		table: newTables(name),
		hints: newHints(pool, channel(name)),
		watch: newWatches(config, channel(name), log),
	}
}

// Remote implements [storage.Locator].
func (s *Store) Remote() bool { return true }

// Close implements [storage.Store]. The channels of Watch are closed.
func (s *Store) Close() error {
	s.watch.close()
	s.hints.close()
	if s.owned {
		s.pool.Close()
	}
	return nil
}

// Create implements [storage.Store].
func (s *Store) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	return s.write(ctx, &write{kind: create, key: key, meta: meta, body: body})
}

// Append implements [storage.Store].
func (s *Store) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	return s.write(ctx, &write{kind: grow, key: key, at: at, meta: meta, body: tail})
}

// Replace implements [storage.Store].
func (s *Store) Replace(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	return s.write(ctx, &write{kind: replace, key: key, at: at, meta: meta, body: body})
}

// write retries a write until its outcome is known. All attempts write the same version, so that an
// attempt that took effect unnoticed is recognized by it.
func (s *Store) write(ctx context.Context, w *write) (storage.Version, error) {
	defer w.done(s.table)
	if err := w.prepare(ctx, s.table); err != nil {
		return "", w.failed(err)
	}
	err := retryWrite(ctx, func(uncertain bool) error {
		err := w.do(ctx, s.pool, s.table)
		if uncertain && (errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrExists)) {
			return s.resolve(ctx, w, err)
		}
		return err
	})
	if err != nil {
		return "", w.failed(err)
	}
	s.hints.add(w.key)
	return w.version, nil
}

// resolve finds out whether a conflict was caused by an earlier attempt at the same
// write, whose outcome was unknown.
func (s *Store) resolve(ctx context.Context, w *write, conflict error) error {
	info, err := s.table.stat(ctx, s.pool, w.key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if info.Version == w.version {
		return nil
	}
	return unknown(fmt.Errorf("the connection was lost, and another writer has changed the object since: %w", conflict))
}

// Delete implements [storage.Store].
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := checkKey(ctx, key); err != nil {
		return failed("delete", key, err)
	}
	var at storage.Version // the version that an earlier attempt may have deleted
	err := retryWrite(ctx, func(bool) error {
		for {
			info, err := s.table.stat(ctx, s.pool, key)
			switch {
			case errors.Is(err, storage.ErrNotFound):
				return nil
			case err != nil:
				return err
			case at != "" && info.Version != at:
				return unknown(errors.New("the connection was lost, and another writer has changed the object since"))
			}
			at = info.Version
			if deleted, err := s.table.remove(ctx, s.pool, key, at); err != nil || deleted {
				return err
			}
			at = "" // nothing was deleted: another writer has just changed the object
		}
	})
	if err != nil {
		return failed("delete", key, err)
	}
	s.hints.add(key)
	return nil
}

// Get implements [storage.Store]. The body holds no connection between reads. If the object is
// replaced or deleted, the body can be read only up to the end of the current batch. The context
// also applies to reading the body.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if err := checkRange(ctx, key, offset); err != nil {
		return nil, failed("get", key, err)
	}
	var o opened
	err := retry(ctx, func() (err error) {
		o, err = s.table.open(ctx, s.pool, key, offset, length)
		return err
	})
	if err != nil {
		return nil, failed("get", key, err)
	}
	return o.object(ctx, func(id, from, to int64, buffer []byte) (data []byte, err error) {
		err = retry(ctx, func() (err error) {
			data, err = s.table.read(ctx, s.pool, id, from, to, buffer)
			return err
		})
		return data, err
	}), nil
}

// Stat implements [storage.Store].
func (s *Store) Stat(ctx context.Context, key string) (info storage.Info, err error) {
	if err := checkKey(ctx, key); err != nil {
		return storage.Info{}, failed("stat", key, err)
	}
	err = retry(ctx, func() (err error) {
		info, err = s.table.stat(ctx, s.pool, key)
		return err
	})
	if err != nil {
		return storage.Info{}, failed("stat", key, err)
	}
	return info, nil
}

// List implements [storage.Store].
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	return list(ctx, prefix, after, s.page(ctx, s.table.sql.list, prefix))
}

// Names implements [storage.Namer].
func (s *Store) Names(ctx context.Context, prefix, after string) iter.Seq2[string, error] {
	return names(ctx, prefix, after, s.page(ctx, s.table.sql.names, prefix))
}

// page returns a function that reads a page of a listing with the given statement.
func (s *Store) page(ctx context.Context, statement, prefix string) func(after string, limit int) ([]storage.Entry, error) {
	return func(after string, limit int) (entries []storage.Entry, err error) {
		err = retry(ctx, func() (err error) {
			entries, err = s.table.list(ctx, s.pool, statement, prefix, after, limit)
			return err
		})
		return entries, err
	}
}

// Now implements [storage.Clock] with the server's clock, from which Info.Modified is also taken.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = retry(ctx, func() error {
		return s.pool.QueryRow(ctx, "SELECT clock_timestamp()", mode).Scan(&now)
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("read clock of server: %w", err)
	}
	return now.UTC(), nil
}

// Watch implements [storage.Watcher].
func (s *Store) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	return s.watch.channelOf(ctx, prefix)
}

// WatchKeys implements [storage.KeyWatcher].
func (s *Store) WatchKeys(ctx context.Context, prefix string, changed func(key string)) error {
	return s.watch.add(ctx, &subscription{prefix, changed, func() {}})
}

// WithTx returns a store that reads and writes within the caller's transaction; see [Tx].
func (s *Store) WithTx(tx pgx.Tx) *Tx { return newTx(tx, s.table, s.hints.channel) }
