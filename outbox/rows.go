package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/feed"
)

// Rows calls use for each row of the table that is attached to a feed. The entity is the PUT that publishes
// the row, and is valid until use returns. All rows are as of one moment. If no table is attached to the
// feed, the error matches [ErrNotCaptured].
func (d *DB) Rows(ctx context.Context, name string, use func(*feed.Entity) error) error {
	err := d.rows(ctx, name, use)
	if err != nil {
		return fmt.Errorf("read the table of feed %q: %w", name, err)
	}
	return nil
}

func (d *DB) rows(ctx context.Context, name string, use func(*feed.Entity) error) error {
	r := relation{Capture: Capture{Feed: name}}
	err := d.pool.QueryRow(ctx, `
		SELECT quote_ident(nspname) || '.' || quote_ident(relname), key, coalesce(columns, '{}')
		FROM `+pgx.Identifier{d.schema, "outbox_capture"}.Sanitize()+` JOIN pg_catalog.pg_class c ON c.oid = relation
			JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace WHERE feed = $1`, name).Scan(&r.name, &r.Key, &r.Columns)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotCaptured
	}
	if err != nil {
		return setup(err)
	}
	old, err := d.read(ctx, r)
	if err != nil {
		return err
	}
	defer old.close(context.WithoutCancel(ctx))
	for e, err := range old.entities(ctx) {
		if err != nil {
			return err
		}
		if err := use(e); err != nil {
			return err
		}
	}
	return nil
}

// Mark returns a string such as "event 17, 3 waiting". It changes with each change of a captured table, and
// when rows of the feed are moved.
func (d *DB) Mark(ctx context.Context, feed string) (mark string, err error) {
	err = d.do(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT 'event ' || CASE WHEN is_called THEN last_value ELSE 0 END || ', ' || (SELECT count(*) FROM outbox WHERE feed = $1) || ' waiting'
			FROM outbox_id_seq`, feed).Scan(&mark)
	})
	if err != nil {
		return "", fmt.Errorf("read the state of the outbox: %w", err)
	}
	return mark, nil
}
