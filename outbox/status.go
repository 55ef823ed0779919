package outbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedctl/feedctl/layout"
)

// Status is the state of an outbox at one moment.
type Status struct {
	Feeds []FeedStatus `json:"feeds"`
	// Transaction is the oldest open transaction that has written to the outbox, and whose rows
	// are therefore not yet visible. It is nil if no such transaction began more than a second
	// ago.
	Transaction *Transaction `json:"transaction,omitempty"`
}

// FeedStatus is the state of the outbox of one feed.
type FeedStatus struct {
	Feed        string    `json:"feed"`
	Waiting     int64     `json:"waiting"`    // rows that have been committed but not moved
	Bytes       int64     `json:"bytes"`      // the size of the bodies of these rows
	LagSeconds  float64   `json:"lagSeconds"` // since the oldest of these rows was inserted
	Quarantined int64     `json:"quarantined"`
	Runner      string    `json:"runner,omitempty"`      // who holds the lease: host, process and a random name
	Until       time.Time `json:"until,omitzero"`        // when the lease expires unless it is renewed
	Destination string    `json:"destination,omitempty"` // "database", "store", or empty before the first row was moved
	Batch       int64     `json:"-"`                     // number of the last batch that was moved to another store
	// Table is the captured table whose changes go to the feed, or nil.
	Table *CapturedTable `json:"table,omitempty"`
}

// A CapturedTable is a table that is attached to a feed.
type CapturedTable struct {
	Name string `json:"name"` // qualified, and quoted as in SQL; for a dropped table, as it was when attached
	// Gone means that the table was dropped. [DB.Detach] removes the remains of its capture.
	Gone bool `json:"gone,omitempty"`
	// Uncovered lists the partitions that were added after the table was attached: no events are
	// published for a TRUNCATE of just one of them. Attaching the table again fixes this.
	Uncovered []string `json:"uncovered,omitempty"`
}

// A Transaction is an open transaction that has written to the outbox.
type Transaction struct {
	PID         int       `json:"pid,omitempty"`      // 0 if it is prepared
	Prepared    string    `json:"prepared,omitempty"` // its identifier, if it was prepared
	Since       time.Time `json:"since"`
	State       string    `json:"state"` // as in pg_stat_activity, such as "idle in transaction"
	User        string    `json:"user,omitempty"`
	Application string    `json:"application,omitempty"`
}

// Status returns the status of the given feeds, or of all feeds.
func (d *DB) Status(ctx context.Context, feeds ...string) (Status, error) {
	var s Status
	err := d.do(ctx, func(tx pgx.Tx) error {
		found, err := tx.Query(ctx, `
			WITH waiting AS (
				SELECT feed, count(*) AS rows, sum(octet_length(body)) AS bytes, min(created_at) AS oldest FROM outbox GROUP BY feed
			), bad AS (
				SELECT feed, count(*) AS rows FROM outbox_quarantine GROUP BY feed
			), holder AS (
				SELECT * FROM outbox_lease WHERE until >= clock_timestamp()
			)
			SELECT feed, coalesce(w.rows, 0), coalesce(w.bytes, 0)::bigint,
				greatest(extract(epoch FROM clock_timestamp() - w.oldest), 0)::float8, coalesce(b.rows, 0),
				coalesce(h.runner, ''), h.until, coalesce(f.destination, ''), coalesce(f.batch, 0)
			FROM waiting w FULL JOIN bad b USING (feed) FULL JOIN holder h USING (feed) FULL JOIN outbox_feed f USING (feed) FULL JOIN outbox_capture k USING (feed)
			WHERE cardinality($1::text[]) = 0 OR feed = ANY($1) ORDER BY feed`, append([]string{}, feeds...))
		if err != nil {
			return err
		}
		s.Feeds, err = pgx.CollectRows(found, func(row pgx.CollectableRow) (FeedStatus, error) {
			var f FeedStatus
			var until *time.Time
			err := row.Scan(&f.Feed, &f.Waiting, &f.Bytes, &f.LagSeconds, &f.Quarantined, &f.Runner, &until, &f.Destination, &f.Batch)
			if until != nil {
				f.Until = until.UTC()
			}
			return f, err
		})
		if err != nil {
			return err
		}
		if err := d.captured(ctx, tx, s.Feeds); err != nil {
			return err
		}
		s.Transaction, err = oldest(ctx, tx)
		return err
	})
	if err != nil {
		return Status{}, fmt.Errorf("read status of the outbox: %w", err)
	}
	return s, nil
}

// captured sets the field Table of feeds.
func (d *DB) captured(ctx context.Context, tx pgx.Tx, feeds []FeedStatus) error {
	rows, err := tx.Query(ctx, `
		SELECT feed, coalesce(quote_ident(nspname) || '.' || quote_ident(relname), name), c.oid IS NULL,
			(
				SELECT array_agg(quote_ident(pn.nspname) || '.' || quote_ident(p.relname) ORDER BY pn.nspname, p.relname)
				FROM pg_partition_tree(c.oid) JOIN pg_class p ON p.oid = relid JOIN pg_namespace pn ON pn.oid = p.relnamespace
				WHERE isleaf AND p.relkind = 'r' AND NOT EXISTS (
					SELECT FROM pg_trigger WHERE tgrelid = relid AND tgfoid = to_regproc($1 || k.id || '_truncate')))
		FROM outbox_capture k LEFT JOIN pg_class c ON c.oid = relation LEFT JOIN pg_namespace n ON n.oid = c.relnamespace`, d.capture(""))
	if err != nil {
		return err
	}
	tables := map[string]*CapturedTable{}
	var feed string
	var t CapturedTable
	_, err = pgx.ForEachRow(rows, []any{&feed, &t.Name, &t.Gone, &t.Uncovered}, func() error {
		table := t
		tables[feed], t.Uncovered = &table, nil
		return nil
	})
	for n := range feeds {
		feeds[n].Table = tables[feeds[n].Feed]
	}
	return err
}

// oldest returns the oldest transaction that holds the lock that insertions take.
func oldest(ctx context.Context, tx pgx.Tx) (*Transaction, error) {
	var t Transaction
	err := tx.QueryRow(ctx, `
		SELECT coalesce(l.pid, 0), coalesce(p.gid, ''), coalesce(a.xact_start, p.prepared) AS since,
			coalesce(a.state, 'prepared'), coalesce(a.usename, p.owner, ''), coalesce(a.application_name, '')
		FROM pg_locks l
			LEFT JOIN pg_stat_activity a ON a.pid = l.pid
			LEFT JOIN pg_locks x ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.virtualtransaction = l.virtualtransaction
			LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
		WHERE l.locktype = 'relation' AND l.relation = 'outbox'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND coalesce(a.xact_start, p.prepared) < clock_timestamp() - interval '1 second'
		ORDER BY since LIMIT 1`).Scan(&t.PID, &t.Prepared, &t.Since, &t.State, &t.User, &t.Application)
	if err == pgx.ErrNoRows {
		return nil, nil
	}
	t.Since = t.Since.UTC()
	return &t, err
}

// errHidden is the error that the server returns if row security hides rows and row_security is
// off.
var errHidden = &pgconn.PgError{Severity: "ERROR", Code: "42501", Message: "row security hides rows of the outbox from this user"}

// Feeds returns the names of the feeds that have or had rows in the outbox, or have a captured
// table. It executes one statement, whose cost does not depend on the number of rows. If row
// security hides rows, there is an error.
func (d *DB) Feeds(ctx context.Context) (feeds []string, err error) {
	var hidden bool
	err = d.pool.QueryRow(ctx, strings.NewReplacer("OUTBOX", d.outbox(), "SCHEMA", pgx.Identifier{d.schema}.Sanitize()).Replace(`
		WITH RECURSIVE waiting AS (
			(SELECT feed FROM OUTBOX ORDER BY feed LIMIT 1)
			UNION ALL
			SELECT (SELECT o.feed FROM OUTBOX AS o WHERE o.feed > w.feed ORDER BY o.feed LIMIT 1) FROM waiting AS w WHERE w.feed IS NOT NULL
		)
		SELECT row_security_active('OUTBOX'), ARRAY(
			SELECT feed FROM waiting WHERE feed IS NOT NULL
			UNION SELECT feed FROM SCHEMA.outbox_feed UNION SELECT feed FROM SCHEMA.outbox_capture ORDER BY feed)`)).
		Scan(&hidden, &feeds)
	if hidden {
		err = errHidden
	}
	if err != nil {
		return nil, fmt.Errorf("list feeds of the outbox: %w", setup(err))
	}
	named := feeds[:0]
	for _, f := range feeds {
		if layout.CheckName(f) == nil { // only such names can be in the table
			named = append(named, f)
		}
	}
	return named, nil
}
