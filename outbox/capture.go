package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/layout"
)

// A Capture specifies which changes of a table are published, and to which feed.
//
// An inserted or updated row becomes a PUT with the row as a JSON object, and a deleted or truncated
// row becomes a DELETE. A row whose key changes becomes a DELETE of the old key and a PUT of the new
// one. Nothing is published for an update that changes no published column.
//
// The JSON is the result of PostgreSQL's row_to_json, and does not depend on the settings of the
// session: numbers have all their digits; NaN and the infinities are strings; times are in ISO 8601
// with up to six decimal places, timestamptz in UTC; intervals are in ISO 8601; bytea is "\x" and hex
// digits; json is unchanged; arrays and composite types are arrays and objects; all other types are
// strings in their text form.
//
// The key is the text of the key column or, if there are several, a JSON array of their values.
type Capture struct {
	Feed string
	// Table may be qualified with its schema, and quoted as in SQL.
	Table string
	// Key lists the key columns. They must be NOT NULL, and there must be a unique index on them that
	// is not deferrable. Defaults to the primary key.
	Key []string
	// Columns lists the published columns. Defaults to all columns, including columns added later.
	Columns []string
}

// A relation is a table that is to be captured.
type relation struct {
	Capture
	oid         uint32
	name        string // quoted and qualified
	partitioned bool
	leaves      []string // names of the partitions that can hold rows
	id          int32    // in outbox_capture
}

// lockTimeout is how long Attach waits for the lock on a table at a time. While it waits, writers are
// blocked; after that, it lets them proceed for lockPause.
const (
	lockTimeout = time.Second
	lockPause   = 500 * time.Millisecond
)

// Attach installs the triggers that publish the table's changes, and replaces the triggers of an
// earlier Attach. It waits for a lock on the table until ctx ends, but for at most a second at a time,
// so that writers are not blocked for longer. The user must own the table. Changes are published in the
// transactions that make them; the users who make them need no privileges on the outbox.
func (d *DB) Attach(ctx context.Context, c Capture) error {
	err := d.attach(ctx, c, func(pgx.Tx, relation) error { return nil })
	if err != nil {
		return fmt.Errorf("attach table %s to feed %q: %w", c.Table, c.Feed, err)
	}
	return nil
}

// attach installs the triggers and then calls the function also, in one transaction during which no
// other user can write to the table.
func (d *DB) attach(ctx context.Context, c Capture, also func(tx pgx.Tx, r relation) error) error {
	if err := layout.CheckName(c.Feed); err != nil {
		return err
	}
	oid, err := d.lookUp(ctx, c.Table)
	if err != nil {
		return err
	}
	return d.locking(ctx, func(tx pgx.Tx) error {
		r := relation{Capture: c, oid: oid}
		if err := r.describe(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "LOCK TABLE "+r.name+" IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
		// The table may have changed before it was locked.
		if err := r.describe(ctx, tx); err != nil {
			return err
		}
		if err := r.checkColumns(ctx, tx); err != nil {
			return err
		}
		if err := r.checkKey(ctx, tx); err != nil {
			return err
		}
		if err := d.forgetDropped(ctx, tx, r); err != nil {
			return err
		}
		if err := r.enter(ctx, tx); err != nil {
			return err
		}
		if err := d.install(ctx, tx, r); err != nil {
			return err
		}
		return also(tx, r)
	})
}

// locking runs f in a transaction with lock_timeout set, and retries until f has acquired its locks.
func (d *DB) locking(ctx context.Context, f func(tx pgx.Tx) error) error {
	for {
		err := d.do(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", lockTimeout.Milliseconds())); err != nil {
				return err
			}
			return f(tx)
		})
		server, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || server.Code != "55P03" && server.Code != "40P01" { // lock_not_available, deadlock_detected
			return err
		}
		if stopped := backoff.Sleep(ctx, lockPause); stopped != nil {
			return fmt.Errorf("%w while waiting for the lock on the table: %w", stopped, err)
		}
	}
}

// lookUp finds a table by its name, using the search path of the user's sessions.
func (d *DB) lookUp(ctx context.Context, table string) (oid uint32, err error) {
	var found *uint32
	if err := d.pool.QueryRow(ctx, "SELECT to_regclass($1)::oid", table).Scan(&found); err != nil {
		return 0, err
	}
	if found == nil {
		return 0, fmt.Errorf("%w: it does not exist", ErrCapture)
	}
	return *found, nil
}

// describe reads the table's properties, and checks that it can be captured.
func (r *relation) describe(ctx context.Context, tx pgx.Tx) error {
	var kind, persistence, owner string
	var children, own, mine bool
	err := tx.QueryRow(ctx, `
		SELECT relkind::text, relpersistence::text, quote_ident(nspname) || '.' || quote_ident(relname),
			EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid),
			nspname = current_schema() OR nspname IN ('pg_catalog', 'information_schema', 'pg_toast'),
			pg_has_role(relowner, 'USAGE'), pg_get_userbyid(relowner)
		FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = $1`, r.oid).
		Scan(&kind, &persistence, &r.name, &children, &own, &mine, &owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: it was dropped", ErrCapture)
	}
	if err != nil {
		return err
	}
	r.partitioned = kind == "p"
	switch {
	case kind != "r" && kind != "p":
		return fmt.Errorf("%w: it is not a table", ErrCapture)
	case persistence == "t":
		return fmt.Errorf("%w: it is temporary", ErrCapture)
	case own:
		return fmt.Errorf("%w: it belongs to feedctl or to the system", ErrCapture)
	case kind == "r" && children:
		return fmt.Errorf("%w: other tables inherit from it: attach those", ErrCapture)
	case !mine:
		return fmt.Errorf("%w: only its owner can attach it: the owner is %s", ErrCapture, owner)
	}
	leaves, err := tx.Query(ctx, `
		SELECT quote_ident(nspname) || '.' || quote_ident(relname)
		FROM pg_partition_tree($1::oid) JOIN pg_class c ON c.oid = relid JOIN pg_namespace n ON n.oid = relnamespace
		WHERE isleaf AND relkind = 'r' ORDER BY 1`, r.oid)
	if err != nil {
		return err
	}
	r.leaves, err = pgx.CollectRows(leaves, pgx.RowTo[string])
	return err
}

// checkKey checks that the key columns are unique and not null. They default to the
// primary key.
func (r *relation) checkKey(ctx context.Context, tx pgx.Tx) error {
	found, err := tx.Query(ctx, `
		SELECT indisprimary, array_agg(attname::text ORDER BY place), bool_and(attnotnull)
		FROM pg_index, unnest(indkey[:indnkeyatts - 1]) WITH ORDINALITY AS k (attnum, place) JOIN pg_attribute a USING (attnum)
		WHERE indrelid = $1::oid AND attrelid = $1::oid
			AND indisunique AND indimmediate AND indisvalid AND indpred IS NULL AND indexprs IS NULL
		GROUP BY indexrelid, indisprimary ORDER BY indisprimary DESC`, r.oid)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var primary, notNull bool
		var columns []string
		if err := found.Scan(&primary, &columns, &notNull); err != nil {
			return err
		}
		if len(r.Key) == 0 && primary {
			r.Key = columns
		}
		if notNull && sameSet(r.Key, columns) {
			return nil
		}
	}
	if err := found.Err(); err != nil {
		return err
	}
	if len(r.Key) == 0 {
		return fmt.Errorf("%w: it has no primary key: name its key columns", ErrCapture)
	}
	return fmt.Errorf("%w: key %s needs a unique index on exactly these columns, all NOT NULL, that is neither partial nor deferrable",
		ErrCapture, strings.Join(r.Key, ", "))
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// checkColumns checks that the columns exist, and that triggers see the values of the published
// columns.
func (r *relation) checkColumns(ctx context.Context, tx pgx.Tx) error {
	found, err := tx.Query(ctx, `SELECT attname::text, attgenerated = 'v' FROM pg_attribute WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped`, r.oid)
	if err != nil {
		return err
	}
	virtual := map[string]bool{}
	var name string
	var is bool
	if _, err := pgx.ForEachRow(found, []any{&name, &is}, func() error { virtual[name] = is; return nil }); err != nil {
		return err
	}
	for _, column := range slices.Concat(r.Key, r.Columns) {
		if _, there := virtual[column]; !there {
			return fmt.Errorf("%w: it has no column %q", ErrCapture, column)
		}
	}
	published := r.Columns
	if len(published) == 0 {
		published = slices.Sorted(maps.Keys(virtual))
	}
	for _, column := range published {
		if virtual[column] {
			return fmt.Errorf("%w: column %q is a virtual generated column, whose value triggers do not see: leave it out, or make it STORED", ErrCapture, column)
		}
	}
	return nil
}

// enter records the capture, replacing an earlier one of the same table.
func (r *relation) enter(ctx context.Context, tx pgx.Tx) error {
	var other string
	err := tx.QueryRow(ctx, `SELECT relation::text FROM outbox_capture WHERE feed = $1 AND relation <> $2::oid`, r.Feed, r.oid).Scan(&other)
	if err == nil {
		return fmt.Errorf("%w: the feed already has the changes of table %s: detach that table first, or use another feed", ErrCapture, other)
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return tx.QueryRow(ctx, `
		INSERT INTO outbox_capture (feed, relation, name, key, columns) VALUES ($1, $2::oid, $3, $4, $5)
		ON CONFLICT (relation) DO UPDATE SET feed = excluded.feed, name = excluded.name, key = excluded.key, columns = excluded.columns
		RETURNING id`, r.Feed, r.oid, r.name, r.Key, r.Columns).Scan(&r.id)
}
