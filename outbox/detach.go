package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Detach removes the triggers and everything else that Attach created. Events in the outbox are kept. A
// dropped table is found by the name that it had when it was attached. If the table is not captured,
// the error matches ErrNotCaptured.
func (d *DB) Detach(ctx context.Context, table string) error {
	// The name is resolved with the search path of the user's sessions.
	err := d.detach(ctx, `
		SELECT id FROM `+pgx.Identifier{d.schema, "outbox_capture"}.Sanitize()+`
		WHERE relation = to_regclass($1) OR relation NOT IN (SELECT oid FROM pg_class) AND name <> '' AND parse_ident(name) IN (
			SELECT parse_ident($1) UNION ALL SELECT s::text || parse_ident($1) FROM unnest(current_schemas(true)) AS s)`, table)
	if err != nil {
		return fmt.Errorf("detach table %s: %w", table, err)
	}
	return nil
}

// DetachFeed is like [DB.Detach], but for the table whose changes go to the given feed.
func (d *DB) DetachFeed(ctx context.Context, feed string) error {
	err := d.detach(ctx, `SELECT id FROM `+pgx.Identifier{d.schema, "outbox_capture"}.Sanitize()+` WHERE feed = $1`, feed)
	if err != nil {
		return fmt.Errorf("detach the table of feed %q: %w", feed, err)
	}
	return nil
}

// detach removes the captures that a query finds.
func (d *DB) detach(ctx context.Context, query, name string) error {
	found, err := d.pool.Query(ctx, query, name)
	if err != nil {
		return setup(err)
	}
	ids, err := pgx.CollectRows(found, pgx.RowTo[int32])
	if err != nil {
		return setup(err)
	}
	if len(ids) == 0 {
		return ErrNotCaptured
	}
	return d.locking(ctx, func(tx pgx.Tx) error {
		for _, id := range ids {
			if err := d.uninstall(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// forgetDropped removes the remains of captures of dropped tables that have the same feed or the same
// name as r.
func (d *DB) forgetDropped(ctx context.Context, tx pgx.Tx, r relation) error {
	found, err := tx.Query(ctx, `
		SELECT id FROM outbox_capture WHERE relation NOT IN (SELECT oid FROM pg_class) AND (feed = $1 OR name = $2)`, r.Feed, r.name)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(found, pgx.RowTo[int32])
	for n := 0; n < len(ids) && err == nil; n++ {
		err = d.uninstall(ctx, tx, ids[n])
	}
	return err
}

// uninstall removes everything that install and enter have created. It searches all tables, because a
// former partition keeps its trigger.
func (d *DB) uninstall(ctx context.Context, tx pgx.Tx, id int32) error {
	function := d.capture(id)
	found, err := tx.Query(ctx, `
		SELECT format('DROP TRIGGER %I ON %I.%I', tgname, nspname, relname)
		FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid JOIN pg_namespace n ON n.oid = relnamespace
		WHERE tgfoid IN (to_regproc($1), to_regproc($2)) AND tgparentid = 0`, function, function+"_truncate")
	if err != nil {
		return err
	}
	drops, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return err
	}
	return run(ctx, tx, append(drops, "DROP FUNCTION IF EXISTS "+function+"(), "+function+"_truncate()",
		fmt.Sprintf("DELETE FROM outbox_capture WHERE id = %d", id)))
}
